"""What the loader runs once the code is there, and `bgjob agent` does: the agent, by its arguments."""

import os
from collections.abc import Sequence


def main(arguments: Sequence[str]) -> None:
    if arguments:
        raise ValueError(f"unknown arguments of an agent: {' '.join(arguments)}")
    from bgjob.agent.serve import serve

    serve(os.environ)

"""What is run once the code is there: the agent, by its arguments. Also what `bgjob agent` runs.

(nothing)            serve calls on stdin and stdout
serve SECONDS        the same; ends by itself when nothing was heard for so long
"""

import os
from collections.abc import Callable, Sequence
from functools import partial


def program(arguments: Sequence[str]) -> Callable[[], None]:
    """With all of it imported: so who calls it knows that the code is whole."""
    from bgjob.agent.serve import SILENCE_S, serve

    match list(arguments):
        case []:
            return partial(serve, os.environ, SILENCE_S)
        case ["serve", seconds]:
            return partial(serve, os.environ, float(seconds))
    raise ValueError(f"unknown arguments of an agent: {' '.join(arguments)}")

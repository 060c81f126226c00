"""bgjob agent: jobs of this machine for a bgjob on another one, over stdin and stdout."""

import argparse
from collections.abc import Mapping

EPILOG = """\
The other machine needs no bgjob: where a target is used, its code is sent through the pipe and lives in the home.
This is the same program, for a machine that has bgjob installed. It ends when its stdin does; the jobs go on.
"""


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    pass


def run(_options: argparse.Namespace, _environ: Mapping[str, str]) -> int:
    from bgjob.agent.entry import program

    program([])()
    return 0

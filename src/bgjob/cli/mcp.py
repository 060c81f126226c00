"""bgjob mcp: the MCP server on stdin and stdout, for a client to start."""

import argparse
from collections.abc import Mapping

TYPED_IN_A_TERMINAL = """\
bgjob: this is an MCP server, which waits for a client's JSON on stdin.
`bgjob client add CLIENT` has a client start it. ctrl-c or ctrl-d ends it."""


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    pass


def run(_options: argparse.Namespace, _environ: Mapping[str, str]) -> int:
    from bgjob.cli import serve_mcp

    serve_mcp()
    return 0


def explain() -> None:
    """For a person who has started it by hand, and would wait for a prompt."""
    import contextlib
    import sys

    with contextlib.suppress(OSError):  # it serves, also where this cannot be told
        print(TYPED_IN_A_TERMINAL, file=sys.stderr, flush=True)

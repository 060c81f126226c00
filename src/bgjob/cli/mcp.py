"""bgjob mcp: the MCP server on stdin and stdout, for a client to start."""

import argparse
from collections.abc import Mapping


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    pass


def run(_options: argparse.Namespace, _environ: Mapping[str, str]) -> int:
    from bgjob.cli import serve_mcp

    serve_mcp()
    return 0

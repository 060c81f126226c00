"""bgjob hook with a terminal, or --help: for a client, which has neither, cli.hook runs without a parser."""

import argparse
from collections.abc import Mapping

from bgjob.cli.verbs import CLIENTS

DESCRIPTION = """\
Run by a client, not by hand: it reads the client's JSON on stdin, and answers in the client's form with the
jobs of the session that have ended and that the model has not been told of. It waits only for PostToolUse of
Claude Code and for opencode. Whatever goes wrong, it prints nothing and exits with 0. docs/hooks.md has the
configuration of each client.

  claude     SessionStart, UserPromptSubmit, Stop, PostToolUse (asyncRewake)
  codex      SessionStart, UserPromptSubmit, Stop, PostToolUse
  gemini     SessionStart, BeforeAgent, AfterAgent, AfterTool
  opencode   session.idle, wait
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "client", choices=CLIENTS[:4], metavar="CLIENT", help="claude, codex, gemini or opencode"
    )
    parser.add_argument("event", nargs="?", metavar="EVENT", help="default: hook_event_name of the JSON")


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    from bgjob.cli import hook

    return hook.run([options.client, *filter(None, [options.event])], environ)

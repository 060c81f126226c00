"""bgjob targets: other machines and clusters that jobs run on."""

import argparse
import os
import sys
from collections.abc import Mapping

from bgjob.api.context import Context, open_context
from bgjob.cli import streams

EPILOG = """\
Targets are named in targets.toml, beside the config file; docs/targets.md tells how to set one up.

  bgjob targets                              all of them: nodes, what is free, the queue, who answers
  bgjob targets --check gpu-box              connect, and say what is wrong and what to do
  bgjob targets --example                    a file to begin with
  bgjob run --target gpu-box -- nvidia-smi   run a job there

Exit code 1: with --check, one cannot be used.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="TARGET", help="of these alone, with every node")
    parser.add_argument(
        "--check", action="store_true", help="wait until each is connected, or it is known why it is not"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as one JSON object")
    form.add_argument("--path", action="store_true", help="print where the file is")
    form.add_argument("--example", action="store_true", help="print a file to begin with")


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    if options.path or options.example:
        streams.say(_path(environ) if options.path else _example())
        return 0
    context = open_context(environ, many=False)
    if not context.targets and not options.names and not options.json:
        return _none(context)
    return _show(context, options, environ)


def _path(environ: Mapping[str, str]) -> str:
    from bgjob.store.targets_file import targets_path

    return targets_path(environ)


def _example() -> str:
    from bgjob.core.target_keys import example

    return example().rstrip()


def _none(context: Context) -> int:
    there = "" if os.path.exists(context.targets.path) else ", which is not there"
    streams.say(f"No targets: they are named in {context.targets.path}{there}.")
    streams.say("bgjob targets --example prints a file to begin with.")
    return 0


def _show(context: Context, options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    from bgjob.api.targets import target_as_json, target_statuses

    found = target_statuses(context, options.names or None, check=options.check)
    if options.json:
        from bgjob.cli.as_json import as_line

        streams.say(as_line({"targets": list(map(target_as_json, found)), "file": context.targets.path}))
    else:
        from bgjob.cli.colours import painter
        from bgjob.cli.target_lines import lines

        paint = painter(sys.stdout, environ)
        for line in lines(found, streams.columns(), paint, with_all_nodes=bool(options.names)):
            streams.say(line)
    return 1 if options.check and not all(status.reachable for status in found) else 0

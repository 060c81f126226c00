"""bgjob doctor: what of this machine bgjob can use, and what is missing."""

import argparse
from collections.abc import Iterator, Mapping

from bgjob.api.doctor import checks
from bgjob.api.results import Check
from bgjob.cli import streams
from bgjob.output.tty_text import one_line

EPILOG = """\
Looks only, and changes nothing. Exit code 1: something does not work.

  ok         works
  degraded   works, but less well
  missing    something that you may want
  broken     does not work until it is mended
"""
WIDE = 8  # of the longest state


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="as one JSON object")


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    found = [*checks(environ), *_clients(environ)]
    if options.json:
        import json

        streams.say(json.dumps({"checks": [_row(check) for check in found]}))
    else:
        for check in found:
            streams.say(_line(check))
    return 1 if any(check.state == "broken" for check in found) else 0


def _line(check: Check) -> str:
    advice = f" {check.advice}" if check.advice else ""
    stop = "." if check.advice and not check.found.endswith(".") else ""
    return one_line(f"{check.state:{WIDE}}  {check.about}: {check.found}{stop}{advice}")


def _row(check: Check) -> dict[str, str]:
    return {"check": check.about, "state": check.state, "found": check.found, "advice": check.advice}


def _clients(environ: Mapping[str, str]) -> Iterator[Check]:
    """Without starting one: bgjob client check does that."""
    from bgjob.clients.plugin import installed_plugin
    from bgjob.clients.run import program_of
    from bgjob.clients.table import CLIENTS, configured

    found = False
    for word, client in CLIENTS.items():
        where = configured(client, "bgjob", environ)
        plugin = installed_plugin(environ) if word == "claude" else None
        if where or plugin:
            found = True
            place = f"by its plugin {plugin[0]}" if plugin else f"in {where[0] if where else ''}"
            yield Check(client.title, "ok", f"has bgjob, {place}")
        elif program_of(client, environ):
            found = True
            yield Check(
                client.title, "missing", "is installed, without bgjob", f"Run bgjob client add {word}."
            )
    if not found:
        yield Check("clients", "missing", f"none of {', '.join(CLIENTS)}")

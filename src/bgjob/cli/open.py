"""bgjob open: the port of a job in the browser."""

import argparse
from collections.abc import Mapping

from bgjob.api.address import address_of
from bgjob.api.context import open_context
from bgjob.cli import streams
from bgjob.cli.arguments import count
from bgjob.cli.chosen import add_job, job_meant
from bgjob.core.errors import BgjobError

EPILOG = """\
The browser is the one of your desktop, or that which the variable BROWSER names.
"""


class NoBrowser(BgjobError):
    def __init__(self, address: str) -> None:
        super().__init__(f"No browser could be started for {address}.", "The variable BROWSER can name one.")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--port", type=count, metavar="N", help="which (default: the lowest that it listens on)"
    )
    parser.add_argument("--print", action="store_true", help="only print the address")
    add_job(parser)


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    context = open_context(environ, many=False)
    address = address_of(context, job_meant(context, options.id).id, options.port)
    streams.say(address)
    if not options.print:
        _open(address)
    return 0


def _open(address: str) -> None:
    import webbrowser  # 10 ms, which --print does not need

    if not webbrowser.open(address):
        raise NoBrowser(address)

"""bgjob open: the port of a job in the browser."""

import argparse
from collections.abc import Mapping

from bgjob.api.address import address_of
from bgjob.api.context import open_context
from bgjob.cli import streams
from bgjob.cli.arguments import count
from bgjob.cli.browser import BROWSER_NOTE, open_in_browser
from bgjob.cli.chosen import add_job, job_meant

EPILOG = BROWSER_NOTE


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
        open_in_browser(address)
    return 0

"""bgjob priority: move a job within the queue."""

import argparse
from collections.abc import Mapping

from bgjob.api.context import open_context
from bgjob.api.find import find_typed
from bgjob.api.queue import prioritize
from bgjob.core.job import Queued


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID")
    parser.add_argument("priority", type=int, metavar="N", help="higher starts first; 0 is the default")


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    context = open_context(environ, many=False)
    prioritize(context, find_typed(context, options.id, steered=Queued).id, options.priority)
    return 0

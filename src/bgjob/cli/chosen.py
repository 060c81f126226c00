"""Which jobs a person means: by the beginning of an id, by a name or how it begins; without a word, the newest."""

import argparse
from collections.abc import Sequence

from bgjob.api.context import Context
from bgjob.api.find import find_typed
from bgjob.core.errors import BgjobError
from bgjob.core.job import Job, Running

STEERED_HELP = "at least three characters of its id, or its name"
HELP = "the beginning of its id, or its name (default: the newest job)"


class NoJobs(BgjobError):
    def __init__(self) -> None:
        super().__init__("There are no jobs yet.", "bgjob run -- COMMAND starts one.")


def add_job(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", nargs="?", metavar="ID", help=HELP)


def add_jobs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="*", metavar="ID", help=HELP)


def add_steered_jobs(parser: argparse.ArgumentParser, nargs: str = "+") -> None:
    """For what cannot be undone: there is no default."""
    parser.add_argument("ids", nargs=nargs, metavar="ID", help=STEERED_HELP)


def job_meant(context: Context, word: str | None, steered: type[Running] | None = None) -> Job:
    return newest(context) if word is None else find_typed(context, word, steered=steered)


def jobs_meant(context: Context, words: Sequence[str], steered: type[Running] | None = None) -> list[Job]:
    """Each once, in the order in which they were typed."""
    found = [find_typed(context, word, steered=steered) for word in words] or [newest(context)]
    return list({job.id: job for job in found}.values())


def newest(context: Context) -> Job:
    for _, job in context.store.jobs():
        return job
    raise NoJobs

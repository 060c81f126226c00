"""Asking before what cannot be undone is done to jobs that were not named one by one."""

import sys
from collections.abc import Sequence

from bgjob.cli import streams
from bgjob.core.errors import BgjobError
from bgjob.core.job import Job, called
from bgjob.output.tty_text import cut, one_line

SHOWN = 20


class NeedsYes(BgjobError):
    def __init__(self, option: str) -> None:
        super().__init__(f"{option} asks before it acts, and there is no terminal to ask on.", "Give -y too.")


def is_confirmed(what: str, jobs: Sequence[Job], option: str) -> bool:
    """What the person says about these jobs. NeedsYes: there is no terminal, whatever the number of jobs."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise NeedsYes(option)
    if len(jobs) <= 1:
        return True
    for job in jobs[:SHOWN]:
        streams.note(cut(f"  {row_of(job)}", streams.columns() or 80))
    if len(jobs) > SHOWN:
        streams.note(f"  … and {len(jobs) - SHOWN} more")
    streams.draw(f"{what} these {len(jobs)} jobs? [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def row_of(job: Job) -> str:
    return f"{job.id[:8]}  {one_line(called(job.spec))}"

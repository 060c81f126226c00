"""What jobs are called where lines of several are shown: by their names, else by how their ids begin."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import cycle

from bgjob.cli.colours import painter
from bgjob.core.job import SHORT_ID_CHARACTERS, Job
from bgjob.output.tty_text import cut, one_line, width

MOST_COLUMNS = 24
STYLES = ("cyan", "yellow", "green", "magenta", "blue")
"""One after the other, so that neighbours differ."""


def labels(jobs: Sequence[Job]) -> dict[str, str]:
    """By id; a name that several of them have is followed by the id."""
    named = Counter(job.spec.name for job in jobs)
    return {job.id: label(job, is_alone=named[job.spec.name] == 1) for job in jobs}


def label(job: Job, *, is_alone: bool = True) -> str:
    short_id = job.id[:SHORT_ID_CHARACTERS]
    if not job.spec.name:
        return short_id
    name = one_line(job.spec.name)
    if is_alone:
        return cut(name, MOST_COLUMNS)
    return f"{cut(name, MOST_COLUMNS - len(short_id) - 1)}/{short_id}"


def padded(texts: dict[str, str]) -> dict[str, str]:
    """All as wide as the widest."""
    widest = max(map(width, texts.values()), default=0)
    return {key: text + " " * (widest - width(text)) for key, text in texts.items()}


def painted_labels(texts: dict[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """To stand before a line, each in its own colour."""
    paint = painter(sys.stdout, environ)
    styles = cycle(STYLES)
    return {
        key: f"{paint(text + ' |', style)} "
        for (key, text), style in zip(padded(texts).items(), styles, strict=False)
    }

"""By which words a person may call the newest jobs. For completion: without a Store, whose imports take too long."""

import contextlib
import os
from collections.abc import Iterator, Mapping

from bgjob.home import home_dir
from bgjob.home.jobdir import LAUNCH, OUTCOME, SPEC, read_record
from bgjob.home.layout import ID_CHARACTERS, INDEX, JOBS, names_in
from bgjob.output.tty_text import cut, one_line

MOST_JOBS = 200
SHORT_ID = 8
COMMAND_COLUMNS = 60
STATES = {OUTCOME: "ended", LAUNCH: "queued"}


def newest_job_words(
    environ: Mapping[str, str], *, alive: bool = False, with_ids: bool = False
) -> Iterator[tuple[str, str]]:
    """Each with what the job is: its name, else the beginning of its id.

    alive: only of jobs that have not ended, if there are any. with_ids: the beginning of each id as well.
    """
    jobs = list(_newest(os.path.realpath(home_dir.home_from(environ))))
    if alive:
        jobs = [job for job in jobs if job[2] != "ended"] or jobs
    named = set[str]()
    for job_id, spec, state in jobs:
        about, name = f"{state}: {_command(spec)}", _typed_name(spec)
        is_new = name != "" and name not in named
        if is_new:
            yield name, about
        if with_ids or not is_new:
            yield job_id[:SHORT_ID], about
        named.add(name)


def _newest(home: str) -> Iterator[tuple[str, Mapping[str, object], str]]:
    """Nothing of a home that is not there, or that other users could have changed."""
    with contextlib.suppress(OSError):
        os.close(home_dir.open_safe(home))
        for entry in sorted(names_in(f"{home}/{INDEX}"), reverse=True)[:MOST_JOBS]:
            directory = f"{home}/{JOBS}/{entry[-ID_CHARACTERS:]}"
            if spec := read_record(f"{directory}/{SPEC}"):
                yield entry[-ID_CHARACTERS:], spec, _state(directory)


def _state(directory: str) -> str:
    """As far as it can be seen at a glance."""
    return next((word for file, word in STATES.items() if os.path.lexists(f"{directory}/{file}")), "running")


def _typed_name(spec: Mapping[str, object]) -> str:
    """Empty: it has none, or none that every shell inserts as it is. Commands take one with - for an option."""
    name = spec.get("name")
    return name if isinstance(name, str) and name.isprintable() and name[:1] not in ("-", "~") else ""


def _command(spec: Mapping[str, object]) -> str:
    return cut(one_line(" ".join(str(spec.get("command", "")).split())), COMMAND_COLUMNS)

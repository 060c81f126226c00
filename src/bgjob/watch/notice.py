"""What a person is told of an event. Its text comes from the job: of unknown origin, so it is cleaned and cut."""

import contextlib

from bgjob.core.errors import StoreUnusable
from bgjob.core.frozen import Frozen
from bgjob.core.job import SHORT_ID_CHARACTERS, Event, Spec, beginning
from bgjob.home import jobdir
from bgjob.output.cleaner import clean, one_line, quoted
from bgjob.output.log_end import last_line
from bgjob.output.log_reader import LogReader
from bgjob.output.log_segments import Rotated
from bgjob.store.store import Store

LINE_CHARACTERS, NAME_CHARACTERS = 200, 80


class Notice(Frozen):
    title: str
    body: str
    payload: dict[str, object]
    """The same for programs: what a webhook is sent."""


def notice_of(kind: str, event: Event, spec: Spec, last_line: str) -> Notice:
    """`last_line` of its output; of a question, the prompt is in the event."""
    name = one_line(spec.name or "", NAME_CHARACTERS)
    command = one_line(beginning(spec.command), NAME_CHARACTERS)
    prompt = one_line(clean(str(event.get("prompt") or "")), LINE_CHARACTERS)
    how = "asks a question" if kind == "question" else jobdir.how_ended(event)
    called = quoted(spec.name or beginning(spec.command), NAME_CHARACTERS)
    text = f"{called} ({spec.id[:SHORT_ID_CHARACTERS]}) {how}"
    payload: dict[str, object] = {
        "text": f"{text}: {prompt}" if prompt else text,
        "kind": kind,
        "job_id": spec.id,
        "name": name or None,
        "command": command,
        "at": event["at"],
    }
    if kind == "question":
        return Notice(f"bgjob: {called} {how}", prompt, {**payload, "prompt": prompt})
    details = {word: event.get(word) for word in ("cause", "exit_code", "signal", "duration_s")}
    return Notice(
        f"bgjob: {called} {how}",
        last_line,
        {**payload, "how": how, **details, "last_line": last_line},
    )


def last_line_of(store: Store, job_id: str) -> str:
    """What the job printed last, as an answer would show it."""
    with contextlib.suppress(Rotated, StoreUnusable, OSError):
        return one_line(last_line(LogReader(store.log_directory(job_id))) or "", LINE_CHARACTERS)
    return ""

"""What the tools answer about many jobs: lists, lines that were found, events."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, ClassVar

from bgjob.api import EventPage, Found, FoundInJob, Match, Page
from bgjob.api.status import LISTED_COMMAND_CHARACTERS
from bgjob.core.job import Ended, Job, StatusWord, exit_code, status_word
from bgjob.mcp.answer_text import Lasting
from bgjob.mcp.answers import Answer
from bgjob.mcp.fields import (
    ToldEvent,
    cause_of,
    event_fields,
    place_fields,
    reason_of,
    shortened,
    started,
    timestamp,
    unreachable_of,
)
from bgjob.mcp.results import Count, Flag, Seconds, Text, Texts

MOST_KEPT = 2000


class Listed(Answer):
    job_id: str
    status: StatusWord
    command: str
    started: str
    name: str | None = None
    exit_code: int | None = None
    left_running: Count = None
    cause: Text = None
    waits_for_input: Flag = None
    position: Count = None
    reason: Text = None
    unreachable: Text = None
    target: Text = None
    node: Text = None
    engine_id: Text = None

    @classmethod
    def of(cls, job: Job, page: Page) -> Listed:
        """That of a job which has ended, and left nothing, is the same for ever: it is made once."""
        kept = _ENDED.get(job.id)
        if kept and kept[0] is job and job.id not in page.left_running:
            return kept[1]
        listed = cls._of(job, page)
        if isinstance(job.state, Ended) and job.id not in page.left_running:
            if len(_ENDED) >= MOST_KEPT:
                _ENDED.clear()
            _ENDED[job.id] = job, listed
        return listed

    @classmethod
    def _of(cls, job: Job, page: Page) -> Listed:
        place = page.places.get(job.id)
        return cls(
            job_id=job.id,
            status=status_word(job.state),
            command=shortened(job.spec.command, LISTED_COMMAND_CHARACTERS),
            started=started(job),
            name=job.spec.name,
            exit_code=exit_code(job.state),
            left_running=page.left_running.get(job.id),
            cause=cause_of(job.state),
            waits_for_input=job.id in page.asking or None,
            position=(place.position or None) if place else None,
            reason=reason_of(job, place),
            unreachable=unreachable_of(job),
            **place_fields(job),
        )

    @cached_property
    def row(self) -> Lasting:
        return Lasting(super().as_dict())

    def as_dict(self) -> dict[str, Any]:
        return self.row


_ENDED: dict[str, tuple[Job, Listed]] = {}


class Listing(Answer):
    LONG: ClassVar[frozenset[str]] = frozenset({"jobs"})

    jobs: list[Listed]
    next_cursor: str | None = None

    @classmethod
    def of(cls, page: Page) -> Listing:
        return cls(jobs=[Listed.of(job, page) for job in page.jobs], next_cursor=page.next_cursor)


class FoundLine(Answer):
    line: str
    cursor: str
    stream: Text = None
    time: Text = None
    before: Texts = None
    after: Texts = None

    @classmethod
    def of(cls, match: Match) -> FoundLine:
        return cls(
            line=match.line,
            cursor=match.cursor,
            stream="stderr" if match.stream == "stderr" else None,
            time=None if match.at is None else timestamp(match.at),
            before=match.before or None,
            after=match.after or None,
        )


class FoundIn(Answer):
    job_id: str
    name: Text = None
    matches: list[FoundLine]

    @classmethod
    def of(cls, found: FoundInJob) -> FoundIn:
        job, lines = found.job, list(map(FoundLine.of, found.matches))
        return cls(job_id=job.id, name=job.spec.name, matches=lines)


class FoundLines(Answer):
    count: Annotated[int, {"description": "of all matches"}]
    shown: Count = None
    complete: Annotated[bool, {"description": "false: 30 s were up"}]
    jobs: list[FoundIn]

    @classmethod
    def of(cls, found: Found) -> FoundLines:
        jobs = list(map(FoundIn.of, found.jobs))
        return cls(count=found.count, shown=found.shown, complete=found.complete, jobs=jobs)


class Told(Answer):
    LONG: ClassVar[frozenset[str]] = frozenset({"events"})

    events: Annotated[list[ToldEvent], {"description": "oldest first"}]
    cursor: str
    more: Annotated[bool | None, {"description": "call again with cursor"}] = None
    left_out: Count = None
    earlier: Text = None
    gone_bytes: int | None = None
    waited_s: Seconds = None

    @classmethod
    def of(cls, found: EventPage) -> Told:
        return cls(
            events=list(map(event_fields, found.events)),
            cursor=found.cursor,
            more=found.more or None,
            left_out=found.left_out or None,
            earlier=found.earlier,
            gone_bytes=found.gone_bytes or None,
            waited_s=found.cut_to_s,
        )

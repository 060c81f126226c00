"""What the page reads: of one job and its log, of what happened, of the store.

Output is sent as it was printed: the page draws its colours, and shows what else is in it.
"""

import os
import re
from typing import Any

from starlette.responses import StreamingResponse
from starlette.routing import Route

from bgjob import __version__
from bgjob.api.context import Context
from bgjob.api.event_words import what_happened
from bgjob.api.events import events_between
from bgjob.api.lines import WORDS, Place, job_lines, log_matches, match_marks, output_bytes, place_of
from bgjob.api.output import STREAMS
from bgjob.api.status import job_status
from bgjob.api.status_json import status_as_json
from bgjob.core.errors import InvalidArgument
from bgjob.core.job import SHORT_ID_CHARACTERS, Job
from bgjob.core.options import ALL_OPTIONS, TARGET
from bgjob.core.patterns import Pattern, compile_pattern
from bgjob.mcp.answers import plain
from bgjob.mcp.target_schema import schema_with_targets
from bgjob.mcp.tools import TOOLS
from bgjob.output.line_pages import Line
from bgjob.store.quota import StoreSize
from bgjob.web.page.endpoint import Asked, get

COUNT, MOST_LINES = 200, 1000
MOST_PARTS = 4096
UNSAFE, NAME_CHARACTERS = re.compile(r"[^A-Za-z0-9._-]+"), 60
MOST_EVENTS = 20_000
MEASURE_S = 0.2
SHOWN_SETTINGS = (
    "max_jobs",
    "max_output_bytes",
    "max_store_bytes",
    "job_timeout_s",
    "keep_days",
    "keep_jobs",
    "limits",
    "groups",
)


class Reads:
    def __init__(self, context: Context, size: StoreSize) -> None:
        self._context, self._size = context, size

    def routes(self) -> list[Route]:
        return [
            get("/api/lines", self._lines),
            get("/api/search", self._search),
            get("/api/download", self._download),
            get("/api/job", self._job),
            get("/api/events", self._events),
            get("/api/store", self._store),
        ]

    def _lines(self, asked: Asked) -> Any:
        count = asked.number("count", COUNT, least=1, most=MOST_LINES)
        found = job_lines(self._context, asked.text("job"), _place(asked), count)
        pattern = _pattern(asked) if asked.has("pattern") else None
        return {
            "end": found.end,
            "lines": [_line(line, pattern) for line in found.lines],
            "dropped": [
                {"at": each.offset, "stream": WORDS[each.stream], "bytes": each.size}
                for each in found.dropped
            ],
            "more": found.more,
        }

    def _search(self, asked: Asked) -> Any:
        limit = asked.number("limit", 1, least=1, most=MOST_LINES)
        parts = asked.number("parts", 0, most=MOST_PARTS)
        found = log_matches(
            self._context, asked.text("job"), _pattern(asked), _place(asked), limit, parts=parts
        )
        return {
            "end": found.end,
            "matches": [{"at": match.offset, "end": match.end} for match in found.matches],
            "more": found.more,
            "complete": found.complete,
            "count": found.count,
            "before": found.before,
            "parts": found.parts,
        }

    def _download(self, asked: Asked) -> Any:
        stream = asked.text("stream") if asked.has("stream") else None
        if stream not in STREAMS:
            raise InvalidArgument(" must be stdout or stderr, or none for both.", argument="stream")
        job = self._context.store.load(asked.text("job"))
        return StreamingResponse(
            output_bytes(self._context, job.id, stream),
            media_type="application/octet-stream",
            headers={
                "Content-Disposition": f'attachment; filename="{_file_name(job, stream)}"',
                "X-Content-Type-Options": "nosniff",
                "Cache-Control": "no-store",
            },
        )

    def _job(self, asked: Asked) -> Any:
        status = job_status(self._context, asked.text("job"), detail=True)
        return plain(status_as_json(status, moment=float))

    def _events(self, asked: Asked) -> Any:
        found, more = events_between(self._context, asked.seconds("from"), asked.seconds("to"), MOST_EVENTS)
        marks = [[event.at, event.kind, event.job_id, plain(what_happened(event))] for event in found]
        return {"events": marks, "more": more}

    def _store(self, asked: Asked) -> Any:
        self._context.store.check_home_exists()
        disk = os.statvfs(self._context.store.home)
        settings, targets = self._context.settings, self._context.targets
        return plain(
            {
                "version": __version__,
                "home": self._context.store.home,
                "scopes": sorted(asked.login.scopes),
                "settings": {name: getattr(settings, name) for name in SHOWN_SETTINGS},
                "bytes": self._size.measure(MEASURE_S),
                "free_bytes": disk.f_bavail * disk.f_frsize,
                "cpus": os.cpu_count(),
                "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
                "start": schema_with_targets(TOOLS.schemas["accepts"]["execute_command"], targets),
                "options": _options(with_targets=bool(targets)),
            }
        )


def _options(*, with_targets: bool) -> dict[str, str]:
    """What each accepts, in words."""
    return {
        name: option.accepted for name, option in ALL_OPTIONS.items() if with_targets or name not in TARGET
    }


def _place(asked: Asked) -> Place:
    before = asked.number("before") if asked.has("before") else None
    return place_of(before, asked.number("after") if asked.has("after") else None)


def _pattern(asked: Asked) -> Pattern:
    return compile_pattern(
        asked.text("pattern"), literal=asked.flag("literal"), ignore_case=asked.flag("ignore_case")
    )


def _line(line: Line, pattern: Pattern | None) -> dict[str, Any]:
    """Only what is so of this line."""
    known = {
        "at": line.offset,
        "end": line.end,
        "stream": WORDS[line.stream],
        "time": line.time_us / 1e6,
        "text": line.text.decode("utf-8", "replace"),
        "size": line.size if line.size > len(line.text) else None,
        "skipped": line.skipped or None,
        "rest": line.is_rest or None,
        "open": line.is_open or None,
        "marks": match_marks(pattern, line.text) or None if pattern else None,
    }
    return {word: value for word, value in known.items() if value is not None}


def _file_name(job: Job, stream: str | None) -> str:
    """Of plain characters: it goes into a header, and onto a disk."""
    name = UNSAFE.sub("_", job.spec.name or "").strip("._")[:NAME_CHARACTERS] or "job"
    return f"{name}-{job.id[:SHORT_ID_CHARACTERS]}{'.' + stream if stream else ''}.log"

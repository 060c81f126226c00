"""What the page reads: of one job, of what happened, of the store."""

import os
from typing import Any

from starlette.routing import Route

from bgjob import __version__
from bgjob.api.context import Context
from bgjob.api.event_words import what_happened
from bgjob.api.events import events_between
from bgjob.api.status import job_status
from bgjob.api.status_json import status_as_json
from bgjob.core.options import ALL_OPTIONS
from bgjob.mcp.answers import plain
from bgjob.mcp.tools import TOOLS
from bgjob.store.quota import StoreSize
from bgjob.web.page.endpoint import Asked, get

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
    def __init__(self, context: Context) -> None:
        self._context, self._size = context, StoreSize(context.store)

    def routes(self) -> list[Route]:
        return [
            get("/api/job", self._job),
            get("/api/events", self._events),
            get("/api/store", self._store),
        ]

    def _job(self, asked: Asked) -> Any:
        status = job_status(self._context, asked.text("job"), detail=True)
        return plain(status_as_json(status, moment=float))

    def _events(self, asked: Asked) -> Any:
        found, more = events_between(self._context, asked.seconds("from"), asked.seconds("to"), MOST_EVENTS)
        marks = [[event.at, event.kind, event.job_id, plain(what_happened(event))] for event in found]
        return {"events": marks, "more": more}

    def _store(self, asked: Asked) -> Any:
        disk = os.statvfs(self._context.store.home)
        settings = self._context.settings
        return plain(
            {
                "version": __version__,
                "home": self._context.store.home,
                "scopes": sorted(asked.login.scopes),
                "settings": {name: getattr(settings, name) for name in SHOWN_SETTINGS},
                "bytes": self._size.measure(MEASURE_S),
                "free_bytes": disk.f_bavail * disk.f_frsize,
                "start": TOOLS.schemas["accepts"]["execute_command"],
                "options": {name: option.accepted for name, option in ALL_OPTIONS.items()},
            }
        )

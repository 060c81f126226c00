"""The line `news` of an answer: jobs that ended since the client last looked, but for those it was told of."""

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from bgjob.api import News
from bgjob.mcp.registry import Annotate

log = logging.getLogger(__name__)

OVER = frozenset({"completed", "failed", "killed", "already_terminated"})


def telling(news: News | None) -> Annotate | None:
    if news is None:
        return None

    def annotate(given: Mapping[str, Any], answer: Mapping[str, Any]) -> Mapping[str, str]:
        try:
            line = news.line(set(_ends(given, answer)))
        except Exception:  # the call has done its work: told that it failed, the client would do it again
            log.exception("Internal error in the line of news")
            return {}
        return {"news": line} if line else {}

    return annotate


def _ends(given: Mapping[str, Any], answer: Mapping[str, Any]) -> Iterator[str]:
    """Ids of the jobs of which this answer says that they have ended."""
    if answer.get("status") in OVER:
        yield str(answer.get("job_id") or given.get("job_id"))
    for row in answer.get("jobs", ()):
        if row.get("status") in OVER:
            yield row["job_id"]
    for event in answer.get("events", ()):
        if event["kind"] == "ended":
            yield event["job_id"]

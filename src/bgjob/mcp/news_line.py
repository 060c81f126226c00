"""The line `news` of an answer: jobs of this client that ended since its last call."""

from collections.abc import Iterator, Mapping
from typing import Any

from bgjob.api import News
from bgjob.core.job import beginning
from bgjob.mcp.stderr import report

OVER = frozenset({"completed", "failed", "killed", "already_terminated"})


class NewsLine:
    def __init__(self, news: News) -> None:
        self._news = news

    def completed(self, tool: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """A client that waits for events without a cursor waits for no end that it has not been told yet."""
        if tool != "job_events" or not given.get("timeout_s") or given.get("since") is not None:
            return given
        untold = self._news.first_untold()
        return {**given, "since": untold} if untold else given

    def fields(self, given: Mapping[str, Any], answer: Mapping[str, Any]) -> Mapping[str, str]:
        """To be added to the answer."""
        try:
            if "command" in given and "job_id" in answer:  # execute_command
                called = str(given.get("name") or beginning(str(given["command"])))
                self._news.add(answer["job_id"], called, restarts=given.get("if_running") == "restart")
            line = self._news.line(_ends(given, answer), _asked(given, answer))
        except Exception:  # noqa: BLE001 - the call has done its work: told that it failed, the client would do it again
            report("Internal error in the line of news")
            return {}
        return {"news": line} if line else {}


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


def _asked(given: Mapping[str, Any], answer: Mapping[str, Any]) -> Iterator[str]:
    """What the call is about, as its caller wrote it or as the answer does."""
    for words in (given.get("job_id"), answer.get("job_id"), given.get("job_ids")):
        yield from map(str, words if isinstance(words, list) else filter(None, [words]))

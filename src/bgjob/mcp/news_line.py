"""The line `news` of an answer: jobs of the caller's session that ended since it was last told."""

from collections.abc import Iterator, Mapping
from typing import Any

from bgjob.api import Jobs
from bgjob.mcp.caller import Caller
from bgjob.mcp.stderr import report

OVER = frozenset({"completed", "failed", "killed", "already_terminated"})


def news_fields(
    jobs: Jobs, caller: Caller, given: Mapping[str, Any], answer: Mapping[str, Any]
) -> Mapping[str, str]:
    """To be added to the answer. Nothing is told by an answer that is not sent."""
    if caller.session is None or caller.is_cancelled:
        return {}
    try:
        line = jobs.news(
            caller.session,
            told=list(_ends(given, answer)),
            asked=list(_asked(given, answer)),
            prompts=list(_prompts(given, answer)),
        )
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


def _prompts(given: Mapping[str, Any], answer: Mapping[str, Any]) -> Iterator[str]:
    """The jobs of which this answer says that they sit at a prompt."""
    for row in (answer, *answer.get("jobs", ())):
        if row.get("waits_for_input") is True:
            yield str(row.get("job_id") or given.get("job_id"))
    for event in answer.get("events", ()):
        if event["kind"] == "input":
            yield event["job_id"]


def _asked(given: Mapping[str, Any], answer: Mapping[str, Any]) -> Iterator[str]:
    """What the call is about, as its caller wrote it or as the answer does."""
    for words in (given.get("job_id"), answer.get("job_id"), given.get("job_ids")):
        yield from map(str, words if isinstance(words, list) else filter(None, [words]))

"""All that can be read from a store, as JSON: through the door, and through a server. python -m … HOME prints it."""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from hashlib import sha256
from typing import Any

from bgjob.api import Jobs, Output, Shown, open_jobs
from bgjob.core.errors import InvalidArgument
from bgjob.core.job import Job, cause_word, status_word

SHOWN = {
    "apart": Shown(),
    "raw": Shown(raw=True),
    "in few bytes": Shown(max_bytes=60),
    "interleaved": Shown(raw=True, view="interleaved"),
    "screen": Shown(view="screen"),
}
SEARCHES: dict[str, dict[str, Any]] = {
    "an expression, newest first": {"pattern": "(?i)^error", "limit": 5, "context_lines": 1},
    "a text, oldest first": {"pattern": "line 4", "literal": True, "oldest_first": True, "limit": 3},
    "one stream": {"pattern": "err", "stream": "stderr", "limit": 100},
    "after a time": {"pattern": "^out|^last|named", "after": "2026-11-16T01:27:50Z", "limit": 10},
    "nothing": {"pattern": "no line has this"},
}
READ_ONLY = {"MCP_BG_KEEP_DAYS": "100000", "MCP_BG_CLEANUP_INTERVAL": "86400"}
Reading = dict[str, Any]


def by_the_door(jobs: Jobs) -> Reading:
    listed = jobs.list().jobs
    return {
        "list": [job.id for job in listed],
        "pages": pages(jobs),
        "searches": {name: asdict_of_found(jobs, how) for name, how in SEARCHES.items()},
        "jobs": {job.id: of_one(jobs, job) for job in sorted(listed, key=lambda job: job.id)},
    }


def pages(jobs: Jobs) -> list[list[str]]:
    found, cursor = [], None
    while True:
        page = jobs.list(limit=4, cursor=cursor)
        found.append([job.id for job in page.jobs])
        cursor = page.next_cursor
        if cursor is None:
            return found


def asdict_of_found(jobs: Jobs, how: dict[str, Any]) -> Reading:
    """The matches in the order in which they were chosen: the newest of all first, or the oldest."""
    found = jobs.search(**how, times=True)
    matches = [{**vars(match), "job": each.job.id} for each in found.jobs[::-1] for match in each.matches]
    in_order = matches if how.get("oldest_first") else matches[::-1]
    told = {
        name: value for name, value in vars(found).items() if name != "counts"
    }  # the sum is among the others
    return {**told, "jobs": [each.job.id for each in found.jobs], "matches": in_order}


def of_one(jobs: Jobs, listed: Job) -> Reading:
    look = jobs.status(listed.id)
    job = look.job
    assert job == listed
    return {
        "spec": {**asdict(job.spec), "command": shortened(job.spec.command)},
        "run": job.run and asdict(job.run),
        "state": {"is": type(job.state).__name__, **asdict(job.state)},
        "status": [status_word(job.state), cause_word(job.state)],
        "output_bytes": look.output_bytes,
        "descendants": look.descendants,
        "output": {name: output(jobs, job, shown) for name, shown in SHOWN.items()},
        "tail": {name: plain(jobs.tail(job.id, 2, SHOWN[name])) for name in ("apart", "interleaved")},
        "bytes": followed(jobs, job),
    }


def shortened(command: str) -> str:
    return command if len(command) < 1000 else f"sha256 {sha256(command.encode()).hexdigest()}"


def output(jobs: Jobs, job: Job, shown: Shown) -> Reading | str:
    try:
        return plain(jobs.output(job.id, shown=shown))
    except InvalidArgument as refusal:
        return str(refusal)


def plain(answer: Output) -> Reading:
    return {name: value for name, value in asdict(answer).items() if value not in (None, 0)}


def followed(jobs: Jobs, job: Job) -> list[Reading]:
    """As they were printed, each run of one stream; a byte is a character here."""
    parts: list[Reading] = []
    for chunk in jobs.follow(job.id, wait=False):
        text = chunk.data.decode("latin-1")
        if parts and parts[-1]["stream"] == chunk.stream and not chunk.dropped_bytes:
            parts[-1]["text"] += text
        else:
            parts.append({"stream": chunk.stream, "dropped_before": chunk.dropped_bytes, "text": text})
    return parts


def by_a_server(call: Callable[..., Reading]) -> Reading:
    listed = call("list_jobs")["jobs"]
    for job in listed:
        job["command"] = shortened(job["command"])
    return {
        "list_jobs": listed,
        "search_job_output": {
            name: call("search_job_output", **how, times=True) for name, how in SEARCHES.items()
        },
        "jobs": {id: answers(call, id) for id in sorted(job["job_id"] for job in listed)},
    }


def answers(call: Callable[..., Reading], job_id: str) -> Reading:
    return {
        "get_job_status": call("get_job_status", job_id=job_id),
        "get_job_output": call("get_job_output", job_id=job_id),
        "interleaved": call("get_job_output", job_id=job_id, raw=True, view="interleaved"),
        "tail_job_output": call("tail_job_output", job_id=job_id, lines=2),
        "wait_for_job": call("wait_for_job", job_ids=[job_id], timeout_s=0),
    }


def as_json(reading: Reading) -> Any:
    """As it is after a round through a file."""
    return json.loads(json.dumps(reading))


if __name__ == "__main__":
    print(json.dumps(by_the_door(open_jobs({**os.environ, "BGJOB_HOME": sys.argv[1], **READ_ONLY}))))

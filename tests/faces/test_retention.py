"""Retention: ended jobs go when they are too many or too old by what their server promised; running ones never."""

import fcntl
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bgjob.api import JobStatus
from bgjob.store.store import Store
from tests.support.server import Server, StartServer, ToolError
from tests.support.stores import ended_job
from tests.support.stores import listed as listed_in

Ended = Callable[[str], JobStatus]
AT_ONCE = {"MCP_BG_CLEANUP_INTERVAL": "0.000001"}
NOTHING = {"MCP_BG_KEEP_JOBS": "0", "MCP_BG_KEEP_DAYS": "0", **AT_ONCE}
DAY_S = 86400.0


def test_only_so_many_ended_jobs_are_kept_and_every_running_one(
    start_server: StartServer, ended: Ended, home: Path
) -> None:
    server = start_server(MCP_BG_KEEP_JOBS="2", MCP_BG_CLEANUP_INTERVAL="86400")
    running = server.execute("cat")  # the first start has cleaned; now it is a day's rest
    ids = [server.execute(f"exit {number}") for number in range(4)]
    for job_id in ids:
        ended(job_id)
        wait_for_the_shims_end(home, job_id)
    assert listed(server) == [*ids[::-1], running]
    eager = start_server(MCP_BG_KEEP_JOBS="2", **AT_ONCE)
    assert listed(eager) == [*ids[::-1], running]
    last = eager.execute("cat")
    assert listed(eager) == [last, ids[3], ids[2], running]
    assert not (home / "jobs" / ids[0]).exists()
    with pytest.raises(ToolError, match=re.escape(f"Job {ids[1]} not found")):
        server.status(ids[1])
    eager.talk(running, "alive", "alive\n")


def test_with_no_days_every_ended_job_goes_and_no_running_one(
    start_server: StartServer, ended: Ended, home: Path
) -> None:
    server = start_server(MCP_BG_KEEP_DAYS="0", **AT_ONCE)
    running, over = server.execute("cat"), server.execute("true")
    ended(over)
    wait_for_the_shims_end(home, over)
    last = server.execute("cat")
    assert listed(server) == [last, running]


def test_what_one_server_has_promised_another_keeps(
    start_server: StartServer, ended: Ended, home: Path
) -> None:
    patient = start_server(MCP_BG_KEEP_DAYS="90", MCP_BG_KEEP_JOBS="5")
    kept = [patient.execute("true") for _ in range(3)]
    for job_id in kept:
        ended(job_id)
        wait_for_the_shims_end(home, job_id)
    hasty = start_server(**NOTHING)
    running = hasty.execute("cat")
    assert listed(hasty) == [running, *kept[::-1]]


@pytest.mark.parametrize("verb", ["ps", "logs", "events", "kill"])
def test_a_command_that_starts_nothing_deletes_nothing(home: Path, verb: str) -> None:
    """Whatever it is set to, and also of jobs that come from a version which promised nothing."""
    jobs = old_jobs(home)
    arguments = [jobs[0]] if verb in ("logs", "kill") else []
    command = [sys.executable, "-m", "bgjob", verb, *arguments]
    environment = {**os.environ, "BGJOB_HOME": str(home), **NOTHING}
    subprocess.run(command, env=environment, check=True, capture_output=True)
    assert listed_in(Store(str(home))) == jobs


def test_a_tool_that_starts_nothing_deletes_nothing(start_server: StartServer, home: Path) -> None:
    jobs = old_jobs(home)
    server = start_server(**NOTHING)
    for tool in ("get_job_status", "get_job_output", "tail_job_output", "kill_job"):
        server.call(tool, job_id=jobs[0])
    server.call("job_events")
    server.call("search_job_output", pattern="x")
    server.call("wait_for_job", job_ids=[jobs[0]], timeout_s=0.1)
    assert listed(server) == jobs


def old_jobs(home: Path) -> list[str]:
    """Newest first."""
    store, now = Store(str(home)), time.time()
    promised = ended_job(store, ended_at=now - 30 * DAY_S, keep_days=90.0, keep_jobs=1000)
    return [promised, ended_job(store, ended_at=now - 31 * DAY_S)]


def listed(server: Server) -> list[str]:
    return [job["job_id"] for job in server.call("list_jobs")["jobs"]]


def wait_for_the_shims_end(home: Path, job_id: str) -> None:
    """A shim's last act is to free its lock; until then its job is not cleaned up."""
    with (home / "jobs" / job_id / "spec.json").open() as locked:
        fcntl.flock(locked, fcntl.LOCK_SH)

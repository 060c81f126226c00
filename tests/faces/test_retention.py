"""Retention: ended jobs go when they are too many or too old, by whoever comes by; running ones never."""

import fcntl
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from bgjob.api import Look
from tests.conftest import Server, StartServer, ToolError

Ended = Callable[[str], Look]


def test_only_so_many_ended_jobs_are_kept_and_every_running_one(
    start_server: StartServer, ended: Ended, home: Path
) -> None:
    patient = start_server(MCP_BG_KEEP_JOBS="0", MCP_BG_CLEANUP_INTERVAL="86400")
    running = patient.execute("cat")  # the first to come by has cleaned; now it is a day's rest
    ids = [patient.execute(f"exit {number}") for number in range(4)]
    for job_id in ids:
        ended(job_id)
        wait_for_the_shims_end(home, job_id)
    assert listed(patient) == [*ids[::-1], running]
    eager = start_server(MCP_BG_KEEP_JOBS="2", MCP_BG_CLEANUP_INTERVAL="0.000001")
    assert listed(eager) == [ids[3], ids[2], running]
    assert not (home / "jobs" / ids[0]).exists()
    with pytest.raises(ToolError, match=re.escape(f"Job {ids[1]} not found")):
        patient.status(ids[1])
    eager.talk(running, "alive", "alive\n")


def test_with_no_days_every_ended_job_goes_and_no_running_one(
    start_server: StartServer, ended: Ended, home: Path
) -> None:
    server = start_server(MCP_BG_KEEP_DAYS="0", MCP_BG_CLEANUP_INTERVAL="0.000001")
    running, over = server.execute("cat"), server.execute("true")
    ended(over)
    wait_for_the_shims_end(home, over)
    assert listed(server) == [running]


def listed(server: Server) -> list[str]:
    return [job["job_id"] for job in server.call("list_jobs")["jobs"]]


def wait_for_the_shims_end(home: Path, job_id: str) -> None:
    """A shim's last act is to free its lock; until then its job is not cleaned up."""
    with (home / "jobs" / job_id / "spec.json").open() as locked:
        fcntl.flock(locked, fcntl.LOCK_SH)

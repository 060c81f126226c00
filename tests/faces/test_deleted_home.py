"""A home that goes under a server: a plain answer from every tool, and the next start makes it anew."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bgjob.api import JobStatus
from tests.faces.test_retention import wait_for_the_shims_end
from tests.support.server import Server, StartServer, ToolError

CALLS: dict[str, Callable[[str], dict[str, Any]]] = {
    "list_jobs": lambda job_id: {},
    "job_events": lambda job_id: {},
    "search_job_output": lambda job_id: {"pattern": "x", "job_ids": [job_id]},
    "wait_for_job": lambda job_id: {"job_ids": [job_id], "timeout_s": 0.1},
    "get_job_status": lambda job_id: {"job_id": job_id},
    "get_job_output": lambda job_id: {"job_id": job_id},
    "tail_job_output": lambda job_id: {"job_id": job_id},
    "interact_with_job": lambda job_id: {"job_id": job_id, "input": "x"},
    "kill_job": lambda job_id: {"job_id": job_id},
}


def delete(home: Path) -> None:
    shutil.rmtree(home)


def move_away(home: Path) -> None:
    home.rename(home.with_name("away"))


@pytest.mark.parametrize("go", [delete, move_away])
def test_every_tool_says_that_the_home_is_gone_and_the_next_start_makes_it_anew(
    start_server: StartServer, ended: Callable[[str], JobStatus], home: Path, go: Callable[[Path], None]
) -> None:
    server = start_server()
    job_id = server.execute("echo before")
    ended(job_id)
    wait_for_the_shims_end(home, job_id)
    assert set(CALLS) | {"execute_command"} == set(tool_names(server))
    go(home)
    for tool, arguments in CALLS.items():
        if tool == "list_jobs":
            assert server.call(tool)["jobs"] == []
        else:
            with pytest.raises(ToolError, match=re.escape(f"The job store {home} is gone")):
                server.call(tool, **arguments(job_id))
    assert not home.exists()

    after = server.call("execute_command", command="echo after", name="one", if_running="reuse", wait_s=20)
    assert after["stdout"] == "after\n"
    assert [job["job_id"] for job in server.call("list_jobs")["jobs"]] == [after["job_id"]]
    assert {event["job_id"] for event in server.call("job_events")["events"]} == {after["job_id"]}
    with pytest.raises(ToolError, match=f"Job {job_id} not found"):
        server.status(job_id)
    assert {path.stat().st_mode & 0o777 for path in (home, *home.iterdir()) if path.is_dir()} == {0o700}
    shown = subprocess.run(
        [sys.executable, "-m", "bgjob", "ps"],
        env={**os.environ, "BGJOB_HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert after["job_id"][:8] in shown.stdout


def test_the_directory_of_events_may_vanish_alone(start_server: StartServer, home: Path) -> None:
    server = start_server()
    job_id = server.execute("cat")
    shutil.rmtree(home / "events")
    for tool, arguments in CALLS.items():
        if tool != "interact_with_job":
            server.call(tool, **arguments(job_id))


def tool_names(server: Server) -> list[str]:
    return [tool.name for tool in server._portal.call(server.client.list_tools).tools]

"""What its own user may not open (chmod 000): said to be so, with the reason, and nothing else is hidden by it."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.foreign import BYSTANDER, VICTIM, hang, new_home
from tests.support.requires import linux_only
from tests.support.searching import matches

ROOT = Path(__file__).parents[2]
NOBODY = 65534
SEGMENT = "log/00000000000000000000"
PLACES = ("log", SEGMENT, f"{SEGMENT}.runs", "outcome.json", "spec.json", ".")
# imported before it is nobody, who may not read all that there is to import
ASK = """
import json, os, sys
from bgjob.store.store import Store
from tests.support.stores import jobs_on
from tests.support.tools import call_tool, text_of
from bgjob.core.patterns import compile_pattern
from bgjob.mcp.tools import TOOLS
home, *ids = sys.argv[1:]
compile_pattern("out")
assert TOOLS.schemas
if os.geteuid() == 0:
    os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
jobs = jobs_on(Store(home))
def ask(tool, **arguments):
    answer = call_tool(jobs, tool, arguments)
    return text_of(answer) if answer["isError"] else answer["structuredContent"]
print(json.dumps({
    "look": {job_id: ask("get_job_status", job_id=job_id) for job_id in ids},
    "output": {job_id: ask("get_job_output", job_id=job_id) for job_id in ids},
    "search": ask("search_job_output", pattern="out"),
    "list": ask("list_jobs"),
}))
"""


class Told:
    """What somebody who is not root is told of jobs of which something is closed."""

    def __init__(self, home: Path) -> None:
        new_home(home)
        self.ids = {place: hang(home, VICTIM) for place in PLACES}
        self.bystander = hang(home, BYSTANDER)
        for place, job_id in self.ids.items():
            (home / "jobs" / job_id / place).chmod(0)
        if os.geteuid() == 0:
            for path in (home, *home.rglob("*")):
                os.chown(path, NOBODY, NOBODY)
        script = [sys.executable, "-c", ASK, str(home), *self.ids.values(), self.bystander]
        answer: dict[str, Any] = json.loads(subprocess.check_output(script, cwd=ROOT, text=True))
        self.looks, self.outputs = answer["look"], answer["output"]
        self.matches, self.jobs = matches(answer["search"]), answer["list"]["jobs"]


@pytest.fixture(scope="module")
def told() -> Iterator[Told]:
    place = Path(tempfile.mkdtemp(dir="/tmp"))  # where everybody can get to
    place.chmod(0o711)
    try:
        yield Told(place / "home")
    finally:
        for path in (place, *(place / "home/jobs").iterdir(), *place.glob("home/jobs/*/log")):
            path.chmod(0o700)
        shutil.rmtree(place)


@linux_only
@pytest.mark.parametrize("place", PLACES)
def test_how_a_job_ended_is_told_unless_that_is_closed(told: Told, place: str) -> None:
    look = told.looks[told.ids[place]]
    if place in ("outcome.json", "."):
        assert (look["status"], look["cause"]) == ("failed", "lost")
        assert "cannot be" in look["reason"]
    else:
        assert (look["status"], look["output_bytes"]) == ("completed", 46)


@linux_only
@pytest.mark.parametrize("place", ["log", SEGMENT, f"{SEGMENT}.runs", "."])
def test_output_that_may_not_be_opened_is_said_to_be_so(told: Told, place: str) -> None:
    job_id = told.ids[place]
    assert f"The output of job {job_id} cannot be read: Permission denied" in told.outputs[job_id]


@linux_only
def test_why_a_spec_is_not_read_is_said(told: Told) -> None:
    (command,) = (job["command"] for job in told.jobs if job["job_id"] == told.ids["spec.json"])
    assert command == "(spec.json cannot be read: it may not be opened (Permission denied))"


@linux_only
def test_nothing_else_is_hidden_by_it(told: Told) -> None:
    assert {job["job_id"] for job in told.jobs} == {*told.ids.values(), told.bystander}
    assert told.looks[told.bystander]["status"] == "completed"
    assert {match["job_id"] for match in told.matches} >= {told.bystander, told.ids["outcome.json"]}

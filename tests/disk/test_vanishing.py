"""A job's directory that is deleted or emptied: while the job runs, and while somebody looks at it. No answer is
"Internal error": what is left is told, and what is not there is said to be not there."""

import contextlib
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bgjob.api import Jobs, interact
from bgjob.store.store import Store
from bgjob.system import processes
from tests.support.foreign import VERBS, VICTIM, hang, new_home
from tests.support.gate import Gate
from tests.support.process_table import seen
from tests.support.requires import linux_only
from tests.support.stores import jobs_on
from tests.support.tools import call_tool, text_of
from tests.support.waiting import wait_until

GONE, EMPTIED, UNNAMED = "gone", "emptied", "without its socket"
ROUNDS = 40


def answers(jobs: Jobs, job_id: str) -> dict[str, str]:
    """What every verb says of a job, and of all jobs."""
    calls = {verb: (tool, arguments | ids_for(tool, job_id)) for verb, (tool, arguments) in VERBS.items()}
    every = {
        "list": ("list_jobs", {}),
        "events": ("job_events", {}),
        "search all": ("search_job_output", {"pattern": "o"}),
    }
    return {verb: said(jobs, *call) for verb, call in {**every, **calls}.items()}


def ids_for(tool: str, job_id: str) -> dict[str, Any]:
    return {"job_ids": [job_id]} if tool in ("wait_for_job", "search_job_output") else {"job_id": job_id}


def said(jobs: Jobs, tool: str, arguments: dict[str, Any]) -> str:
    text = text_of(call_tool(jobs, tool, arguments))
    assert "Internal error" not in text, f"{tool}: {text}"
    return text


@pytest.fixture
def running(jobs: Jobs, gate: Gate) -> Iterator[str]:
    """A job that is ended at last, whatever becomes of its directory."""
    job_id = jobs.execute(f"echo here; {gate.pause}").id
    gate.wait_until_reached()
    run = jobs.status(job_id).job.run
    assert run
    guard = seen(run.shim_pid)
    yield job_id
    for pid in (guard.parent if guard else run.shim_pid, run.shim_pid, run.pid):
        if (process := seen(pid)) and (process.name.startswith("bgjob") or pid == run.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not processes.marked(job_id), "nothing of the job is left")


@linux_only
@pytest.mark.parametrize("what", [GONE, EMPTIED, UNNAMED])
def test_a_running_job_is_looked_at_whatever_became_of_its_directory(
    jobs: Jobs, running: str, home: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interact, "SHIM_PATIENCE_S", 0.1)  # where nobody answers that is the answer
    directory = home / "jobs" / running
    if what == UNNAMED:
        (directory / "ctl").unlink()
    else:
        shutil.rmtree(directory)
    if what == EMPTIED:
        directory.mkdir(0o700)
    told = answers(jobs, running)
    assert '"jobs":' in told["list"]
    for verb in ("look", "output", "tail"):
        assert (
            f"Job {running} not found" in told[verb] or '"status"' in told[verb] or '"stdout"' in told[verb]
        )


def test_a_directory_that_comes_and_goes_under_a_reader(tmp_path: Path) -> None:
    """At whatever step of an answer that happens."""
    home = new_home(tmp_path / "home")
    job_id, is_over = hang(home, VICTIM), threading.Event()
    jobs = jobs_on(Store(str(home)))
    directory, aside, spare = home / "jobs" / job_id, tmp_path / "aside", tmp_path / "spare"
    shutil.copytree(directory, spare)

    def vanish() -> None:
        while not is_over.is_set():
            directory.rename(aside)  # all at once
            aside.rename(directory)
            shutil.rmtree(directory)  # name by name
            shutil.copytree(spare, directory)

    vandal = threading.Thread(target=vanish)
    vandal.start()
    try:
        for _ in range(ROUNDS):
            answers(jobs, job_id)
            jobs_on(Store(str(home)))
    finally:
        is_over.set()
        vandal.join()
    assert '"status":"completed"' in answers(jobs_on(Store(str(home))), job_id)["look"]

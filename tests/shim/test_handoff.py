"""Handing a job to a shim that has stalled: exactly one shim runs it, however late the other comes."""

import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from bgjob.api import Conditions, Jobs, open_jobs
from bgjob.core.job import Exited
from bgjob.link import spawn
from bgjob.system import processes
from bgjob.system.readiness import is_readable
from tests.support.dispatchers import is_of
from tests.support.process_table import every_pid, is_stopped, seen, wait_until_gone
from tests.support.requires import linux_only
from tests.support.shims import ask, directory
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = linux_only
GIVES_UP_S = 0.05
ROUNDS = 20


@pytest.fixture
def jobs(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Jobs]:
    """With a zygote that can be told from others by its environment."""
    monkeypatch.setenv("BGJOB_HOME", str(home))
    with closing(open_jobs({**os.environ, "MCP_BG_MAX_JOBS": "100"})) as jobs:
        run_once(jobs, jobs.execute("true").id)  # from now on there is a spare
        yield jobs


@contextmanager
def stalled_spare(home: Path) -> Iterator[int]:
    spares: list[int] = []

    def is_there() -> bool:
        spares[:] = spares_of(home)
        return len(spares) == 1

    wait_until(is_there, "the zygote has forked a spare", lambda: str(spares))
    spare = spares[0]
    guard = processes.stat_of(spare)[processes.PARENT]
    for pid in (guard, spare):  # in this order: a guard continues its shim
        os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: is_stopped(spare))
    try:
        yield spare
    finally:
        wake(spare, guard)


def wake(*pids: int) -> None:
    for pid in pids:
        processes.send(pid, signal.SIGCONT)


def spares_of(home: Path) -> list[int]:
    """Below the zygote a guard, and below that the spare, which has the guard's name until it has a job."""
    zygotes = [pid for pid in every_pid() if is_named(pid, "bgjob-zygote") and is_of(pid, home)]
    guards = [guard for zygote in zygotes for guard in processes.children(zygote)]
    return [
        spare for guard in guards for spare in processes.children(guard) if is_named(spare, "bgjob-guard")
    ]


def is_named(pid: int, name: str) -> bool:
    now = seen(pid)
    return now is not None and now.name == name


def run_once(jobs: Jobs, job_id: str) -> None:
    (waited,) = jobs.wait([job_id], Conditions(), mode="all", timeout_s=PATIENCE_S)
    assert isinstance(waited.status.job.state, Exited), waited.status.job.state


class Impatient:
    """In place of `is_readable`: the first wait, which is for the spare's answer, is a short one."""

    def __init__(self, then: Callable[[int], object] = lambda _: None) -> None:
        self._then: Callable[[int], object] | None = then

    def __call__(self, fd: int, within_s: float) -> bool:
        then, self._then = self._then, None
        if then is None:
            return is_readable(fd, within_s)
        found = is_readable(fd, GIVES_UP_S)
        if not found:
            then(fd)
        return found


def check_ran_once(jobs: Jobs, job_id: str, spare: int, diary: Path) -> None:
    """Once no shim is left that could run it again."""
    run_once(jobs, job_id)
    wait_until_gone(spare)
    wait_until(lambda: not jobs.has_shim(job_id) and not processes.marked(job_id))
    assert diary.read_text() == f"{job_id}\n"
    diary.unlink()


def test_a_spare_that_answers_as_the_starter_gives_up_has_the_job_and_no_other_shim(
    jobs: Jobs, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    diary = tmp_path / "diary"

    def wake_and_hear(ready: int) -> None:
        os.kill(spare, signal.SIGCONT)
        assert is_readable(ready, PATIENCE_S)  # it has answered before the starter takes its next step

    with stalled_spare(home) as spare:
        monkeypatch.setattr(spawn, "is_readable", Impatient(wake_and_hear))
        job_id = jobs.execute(f"echo $BGJOB_ID >> {diary}").id
    check_ran_once(jobs, job_id, spare, diary)


def test_a_spare_that_comes_later_leaves_the_job_alone(
    jobs: Jobs, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its socket too: clients still reach the shim that has the job."""
    diary = tmp_path / "diary"
    with stalled_spare(home) as spare:
        monkeypatch.setattr(spawn, "is_readable", Impatient())
        job_id = jobs.execute(f"echo $BGJOB_ID >> {diary}; cat").id
    wait_until_gone(spare)
    assert ask(jobs, job_id, op="stdin", length=0, close=True, wait_s=PATIENCE_S)["ok"]
    check_ran_once(jobs, job_id, spare, diary)
    assert sorted(each.name for each in directory(jobs, job_id).iterdir()) == [
        "outcome.json",
        "run.json",
        "spec.json",
    ]


def test_whenever_a_spare_comes_the_job_runs_once(
    jobs: Jobs, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    diary, choice = tmp_path / "diary", random.Random(7)
    for _ in range(ROUNDS):
        with stalled_spare(home) as spare:
            monkeypatch.setattr(spawn, "is_readable", Impatient())
            wakes_in_s = GIVES_UP_S + choice.uniform(-0.002, 0.002)
            guard = processes.stat_of(spare)[processes.PARENT]  # a job is owned once its guard has it too
            waking = threading.Timer(wakes_in_s, wake, [spare, guard])
            waking.start()
            job_id = jobs.execute(f"echo $BGJOB_ID >> {diary}").id
            waking.join()
        check_ran_once(jobs, job_id, spare, diary)

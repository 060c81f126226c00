"""The dispatcher, up close: it ends without overlooking a job, and survives failing system calls."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from bgjob.api import Conditions, Jobs, open_jobs
from bgjob.core.job import Exited
from bgjob.home import jobdir, queue_dir
from bgjob.shim.dispatcher import Dispatcher
from bgjob.store.store import Store
from tests.support.dispatchers import DISPATCHER, KEEPER, named, the
from tests.support.gate import Gate
from tests.support.process_table import wait_until_gone
from tests.support.requires import linux_only, needs
from tests.support.waiting import wait_until

ENTRY = queue_dir.entry_for("11111111-1111-4111-8111-111111111111", 0, 1)


@pytest.fixture
def dispatcher(home: Path) -> Iterator[Dispatcher]:
    Store(str(home))
    lock = queue_dir.become_dispatcher(str(home))
    assert lock is not None
    dispatcher = Dispatcher(str(home), lock, lambda *_: None)
    yield dispatcher
    for fd in (lock, dispatcher._wakes, dispatcher._null):
        os.close(fd)


def test_it_ends_when_no_job_waits(home: Path, dispatcher: Dispatcher) -> None:
    assert dispatcher._go_on() is False
    assert not queue_dir.has_dispatcher(str(home))


def test_a_job_that_is_queued_while_it_ends_is_seen(home: Path, dispatcher: Dispatcher) -> None:
    """Its submitter has seen the lock, and starts no dispatcher."""
    queue_dir.enter(str(home), ENTRY)
    assert dispatcher._go_on() is True
    assert queue_dir.has_dispatcher(str(home))
    queue_dir.leave(str(home), ENTRY)


def test_it_leaves_the_rest_to_another_dispatcher(home: Path, dispatcher: Dispatcher) -> None:
    queue_dir.enter(str(home), ENTRY)
    fcntl.flock(dispatcher._lock, fcntl.LOCK_UN)
    other = queue_dir.become_dispatcher(str(home))
    assert other is not None
    assert dispatcher._go_on() is False
    os.close(other)
    queue_dir.leave(str(home), ENTRY)


def test_a_process_that_only_looks_keeps_none_from_becoming_it(home: Path) -> None:
    """To ask whether there is a dispatcher takes the lock for an instant."""
    Store(str(home))
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            queue_dir.has_dispatcher(str(home))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for _ in range(200):
            lock = queue_dir.become_dispatcher(str(home))
            assert lock is not None
            os.close(lock)
    finally:
        done.set()
        looking.join()


def test_an_entry_of_a_submitter_at_work_stays_and_of_a_killed_one_goes(
    home: Path, dispatcher: Dispatcher
) -> None:
    queue_dir.enter(str(home), ENTRY)
    draft = home / "drafts" / queue_dir.job_of(ENTRY)
    draft.mkdir()
    lock = jobdir.create_locked(str(draft / "spec.json"), {})
    assert dispatcher._start_all() == 1
    os.close(lock)
    assert dispatcher._start_all() == 0
    assert queue_dir.entries(str(home)) == []


def test_one_that_becomes_visible_while_it_is_looked_at_is_not_taken_for_started(
    home: Path, dispatcher: Dispatcher
) -> None:
    """Not there at the first look, there at the second: it has neither started nor gone."""
    submitting = subprocess.Popen([sys.executable, "-c", SUBMIT, str(home), str(SUBMITTED)])
    while submitting.poll() is None:
        for entry in queue_dir.entries(str(home))[-1:]:  # the newest
            dispatcher._still_waits(entry)
    assert submitting.returncode == 0
    assert len(list(home.glob("jobs/*/papers"))) == SUBMITTED
    assert len(queue_dir.entries(str(home))) == SUBMITTED
    for entry in queue_dir.entries(str(home)):
        queue_dir.leave(str(home), entry)


SUBMITTED = 1000
SUBMIT = """
import os, sys, time, uuid
from bgjob.core.job import Spec
from bgjob.store.store import Store
store = Store(sys.argv[1])
queue = {"after": [], "after_policy": "success", "not_before": 1e11, "max_jobs": 1, "group_slots": None}
for _ in range(int(sys.argv[2])):
    spec = Spec(str(uuid.uuid4()), "true", "/bin/sh", "/", time.time(), 1 << 20, queue=queue)
    os.close(store.create(spec, b"papers").lock)
"""


@contextmanager
def failing(pid: int, call: str, error: str, notes: Path) -> Iterator[None]:
    """Every such system call of this process fails, as long as this lasts."""
    strace = subprocess.Popen(
        [
            "strace",
            "-o",
            str(notes),
            "-e",
            f"trace={call}",
            "-e",
            f"inject={call}:error={error}",
            "-p",
            str(pid),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert strace.stderr is not None
    assert b"attached" in strace.stderr.readline()
    try:
        yield
    finally:
        strace.terminate()
        strace.communicate()


@linux_only
@needs("strace")
@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("openat", "EMFILE"),
        ("openat", "EIO"),
        ("openat", "ENOSPC"),
        ("getdents64", "EIO"),
        ("flock", "ENOLCK"),
        ("clone", "EAGAIN"),
    ],
)
def test_a_call_that_fails_is_tried_again(
    home: Path, gate: Gate, tmp_path: Path, call: str, error: str
) -> None:
    """Nothing starts meanwhile, or twice; no process dies of it, and none spins."""
    environment = {**os.environ, "BGJOB_HOME": str(home), "MCP_BG_MAX_JOBS": "1"}
    diary, notes = tmp_path / "diary", tmp_path / "notes"
    with closing(open_jobs(environment)) as jobs:
        jobs.execute(gate.pause)
        gate.wait_until_reached()
        ids = [jobs.execute(f"echo {word} >> {diary}", queue=True).id for word in "abc"]
        pids = the(home, DISPATCHER), the(home, KEEPER)
        with failing(pids[0], call, error, notes):
            began = time.monotonic()
            gate.open()
            wait_until(lambda: notes.read_text().count("INJECTED") >= 2, "it fails, and again")
            assert not diary.exists()
            failed, failed_s = notes.read_text().count("INJECTED"), time.monotonic() - began
        check(jobs, ids)
    assert sorted(diary.read_text().split()) == [
        "a",
        "b",
        "c",
    ]  # in a look that fails half-way, turns may be lost
    assert failed < 200 + 100 * failed_s


def check(jobs: Jobs, ids: list[str]) -> None:
    waited = jobs.wait(ids, Conditions(), mode="all", timeout_s=30)
    assert all(isinstance(each.status.job.state, Exited) for each in waited)
    home = Path(jobs.home)
    # the two end one after the other
    wait_until(lambda: (len(named(home, DISPATCHER)), len(named(home, KEEPER))) in ((1, 1), (0, 0)))


@linux_only
def test_no_dispatcher_is_kept_for_a_home_that_was_deleted(home: Path) -> None:
    with closing(open_jobs({**os.environ, "BGJOB_HOME": str(home)}, many=False)) as jobs:
        jobs.execute("true", options={"delay_s": 1000})
        keeper, dispatcher = the(home, KEEPER), the(home, DISPATCHER)
        os.kill(dispatcher, signal.SIGSTOP)
        shutil.rmtree(home)
        os.kill(dispatcher, signal.SIGKILL)
        wait_until_gone(keeper)

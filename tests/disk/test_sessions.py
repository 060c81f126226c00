"""What a session has still to be told, on disk: claimed once, held by a call that waits, and cleaned up."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest

from bgjob.home import sessions
from bgjob.home.sessions import MOST_CLAIMED, Claims
from bgjob.store import retention
from bgjob.store.store import Store
from bgjob.system.client_session import client_process
from tests.support.stores import ended_job, running_job

SESSION = "a session"
DAY_S = 86400.0


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "home"))


def clean(store: Store) -> None:
    retention.clean(store, keep_jobs=1000, keep_days=7, interval_s=0)


def age(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


def entries(store: Store) -> list[Path]:
    return [path for session in Path(store.home, "sessions").iterdir() for path in session.iterdir()]


def claimed(store: Store, job_id: str) -> Claims | None:
    claims = Claims()
    return claims if sessions.claim_unless_held(store.home, SESSION, job_id, claims) else None


def test_of_many_who_claim_an_end_one_reports_it(store: Store) -> None:
    def report(job_id: str) -> bool:
        claims = claimed(store, job_id)
        if claims:
            claims.reported()
        return claims is not None

    for _ in range(50):
        sessions.expect(store.home, SESSION, job_id := str(uuid4()))
        with ThreadPoolExecutor(4) as pool:
            assert sum(pool.map(report, [job_id] * 4)) == 1


def test_an_end_that_is_claimed_is_reported_by_others_if_it_is_given_up(store: Store) -> None:
    sessions.expect(store.home, SESSION, job_id := str(uuid4()))
    first = claimed(store, job_id)
    assert first
    assert claimed(store, job_id) is None
    first.give_up()
    sessions.claim(store.home, SESSION, job_id, first)  # too late: nobody will write it
    second = claimed(store, job_id)
    assert second
    with pytest.raises(OSError, match="full"):
        second.deliver(fails)
    last = claimed(store, job_id)
    assert last
    last.deliver(lambda: None)
    assert (claimed(store, job_id), entries(store)) == (None, [])


def fails() -> None:
    raise OSError("full")


def test_an_answer_that_says_it_anyway_reports_it_when_it_is_written(store: Store) -> None:
    sessions.expect(store.home, SESSION, job_id := str(uuid4()))
    answers = [Claims(), Claims()]
    for answer in answers:
        sessions.claim(store.home, SESSION, job_id, answer)
    assert claimed(store, job_id) is None
    for answer in answers:
        answer.reported()
        assert (claimed(store, job_id), entries(store)) == (None, [])


@pytest.mark.parametrize("is_written", [True, False])
def test_more_ends_than_are_held_at_a_time_are_reported_at_once(store: Store, is_written: bool) -> None:
    job_ids = [str(uuid4()) for _ in range(MOST_CLAIMED + 2)]
    for job_id in job_ids:
        sessions.expect(store.home, SESSION, job_id)
    claims = Claims()
    assert all(sessions.claim_unless_held(store.home, SESSION, job_id, claims) for job_id in job_ids)
    assert not any(claimed(store, job_id) for job_id in job_ids)
    if is_written:
        claims.reported()
    else:
        claims.give_up()
    assert len(entries(store)) == (0 if is_written else len(job_ids))


def test_an_end_that_a_call_waits_for_is_told_by_its_answer(store: Store) -> None:
    sessions.expect(store.home, SESSION, job_id := str(uuid4()))
    held = [sessions.hold(store.home, SESSION, job_id) for _ in range(2)]
    assert None not in held
    assert not claimed(store, job_id)
    os.close(held[0] or -1)
    assert not claimed(store, job_id)
    answer = Claims()
    sessions.claim(store.home, SESSION, job_id, answer)
    answer.reported()
    os.close(held[1] or -1)
    assert not claimed(store, job_id)
    assert sessions.hold(store.home, SESSION, job_id) is None


def test_an_end_that_no_call_waits_for_any_more_can_be_told(store: Store) -> None:
    sessions.expect(store.home, SESSION, job_id := str(uuid4()))
    os.close(sessions.hold(store.home, SESSION, job_id) or -1)
    claims = claimed(store, job_id)
    assert claims
    claims.reported()


@pytest.mark.parametrize("step", ["write", "unlink"])
def test_an_end_whose_reporter_is_killed_is_reported_by_the_next(store: Store, step: str) -> None:
    """Before its text is written, or before it has noted that: then it is reported twice, but never not at all."""
    sessions.expect(store.home, SESSION, job_id := str(uuid4()))
    script = f"""
import os, signal, sys
from bgjob.home import sessions
from bgjob.home.sessions import MOST_CLAIMED, Claims
home, session, job_id = sys.argv[1:]
claims = sessions.Claims()
assert sessions.claim_unless_held(home, session, job_id, claims)
os.{step} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
claims.deliver(lambda: os.write(1, b"over"))
"""
    run = subprocess.run([sys.executable, "-c", script, store.home, SESSION, job_id], capture_output=True)  # noqa: PLW1510
    assert (run.returncode, run.stdout) == (-signal.SIGKILL, b"" if step == "write" else b"over")
    assert claimed(store, job_id)


def test_a_job_has_ended_when_its_directory_says_so(store: Store) -> None:
    """Also if its shim and its guard are gone; not before it has a directory."""
    over, runs = ended_job(store), running_job(store)
    lost = Path(runs.directory).name
    for job_id in (str(uuid4()), over, lost):
        sessions.expect(store.home, SESSION, job_id)
    assert sessions.ended(store.home, SESSION).keys() == {over}
    os.close(runs.lock)
    ends = sessions.ended(store.home, SESSION)
    assert {job_id: end["cause"] for job_id, end in ends.items()} == {over: "exited", lost: "lost"}
    assert sessions.ended(store.home, "another") == {}


def test_the_session_that_a_server_knows_is_found_by_the_process_of_its_client(store: Store) -> None:
    sessions.note_client(store.home, "process 1 of 2", SESSION)
    sessions.note_client(store.home, "process 3 of 4", "another")
    assert sessions.known_to_server(store.home, "process 1 of 2") == SESSION
    assert sessions.known_to_server(store.home, "process 5 of 6") is None


class TestCleaningUp:
    def test_the_entry_of_a_job_that_is_gone_goes_and_that_of_one_that_begins_stays(
        self, store: Store
    ) -> None:
        kept, gone, begins = ended_job(store), str(uuid4()), str(uuid4())
        for job_id in (kept, gone, begins):
            sessions.expect(store.home, SESSION, job_id)
        for path in entries(store):
            age(path, 0 if path.name == begins else 3600)
        clean(store)
        assert {path.name for path in entries(store)} == {kept, begins}

    def test_a_session_that_waits_for_nothing_goes_when_it_is_old(self, store: Store) -> None:
        for name in ("old", "young", "waits"):
            sessions.expect(store.home, name, job_id := ended_job(store))
            if name != "waits":
                sessions.forget(store.home, name, job_id)
        sessions.note_client(store.home, "old process", "old")
        sessions.note_client(store.home, "young process", "young")
        sessions.note_client(store.home, running := str(client_process()), "old")
        directory = Path(store.home, "sessions")
        for path in directory.iterdir():
            age(path, 8 * DAY_S)
        age(directory / sessions._key("young"), 6 * DAY_S)
        age(Path(sessions.client_file(store.home, "young process")), 6 * DAY_S)
        clean(store)
        assert {path.name for path in directory.iterdir()} == {
            sessions._key("young"),
            sessions._key("waits"),
            f"{sessions._key('young process')}.client",
            f"{sessions._key(running)}.client",  # its client is there
        }

    def test_what_else_lies_there_is_in_nobodys_way(self, store: Store, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "elsewhere" / str(uuid4())).touch()
        sessions.expect(store.home, SESSION, job_id := ended_job(store))
        directory = Path(store.home, "sessions")
        (directory / "link").symlink_to(tmp_path / "elsewhere")
        (directory / sessions._key(SESSION) / "a directory").mkdir()
        (directory / sessions._key(SESSION) / ("x" * 36)).touch()
        clean(store)
        assert sessions.ended(store.home, SESSION).keys() == {job_id}
        assert len(list((tmp_path / "elsewhere").iterdir())) == 1

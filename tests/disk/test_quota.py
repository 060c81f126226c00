"""The cap of the whole store: the oldest ended jobs go first, and running ones alone can fill it."""

import itertools
import os
import threading
import time
from pathlib import Path

import pytest

from bgjob.api import Jobs
from bgjob.core.errors import StoreFull
from bgjob.home import jobdir
from bgjob.store import quota, retention
from bgjob.store.retention import LEAST_REMOVED, MOST_REMOVED
from bgjob.store.store import Store
from tests.support.gate import Gate
from tests.support.server import StartServer, ToolError
from tests.support.shims import ask
from tests.support.stores import ended_job, forget_measure, listed, running_job, write_outcome

MB = 1 << 20


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "home"))


def fill(store: Store, job_id: str, size_bytes: int) -> None:
    log = Path(store.log_directory(job_id))
    log.mkdir(exist_ok=True)
    (log / f"{0:020d}").write_bytes(os.urandom(size_bytes))


def ended_jobs(store: Store, number: int, size_bytes: int = MB) -> list[str]:
    """Oldest first."""
    now = time.time()
    made = [ended_job(store, now - 1000 + age) for age in range(number)]
    for job_id in made:
        fill(store, job_id, size_bytes)
    return made


def make_room(store: Store, cap_bytes: int) -> None:
    forget_measure(store.home)
    quota.make_room(store, cap_bytes)


def test_a_store_within_its_cap_is_left_alone(store: Store) -> None:
    made = ended_jobs(store, 3)
    make_room(store, 4 * MB)
    assert sorted(listed(store)) == sorted(made)


def test_the_oldest_ended_jobs_go_first_until_it_fits(store: Store) -> None:
    made = ended_jobs(store, 8)
    make_room(store, 5 * MB)
    assert listed(store) == made[:3:-1]
    assert sum(quota.size_on_disk(store.directory(job_id)) for job_id in made[4:]) <= 5 * MB


def test_a_file_made_of_the_log_of_an_ended_job_counts_once_and_goes_with_it(store: Store) -> None:
    made = ended_jobs(store, 3)
    make_room(store, 10 * MB)  # the sizes are known from now on
    (Path(store.directory(made[0])) / jobdir.MERGED).write_bytes(os.urandom(2 * MB))
    make_room(store, 5 * MB + MB // 2)
    make_room(store, 5 * MB + MB // 2)
    assert sorted(listed(store)) == sorted(made)
    make_room(store, 4 * MB)
    assert sorted(listed(store)) == sorted(made[1:])
    assert not Path(store.directory(made[0])).exists()


def test_one_start_removes_a_part_and_later_ones_the_rest(store: Store) -> None:
    """A start must not wait for thousands to be removed, and there must be fewer with each one."""
    made, cap_bytes = ended_jobs(store, 2 * MOST_REMOVED + 50, MB // 16), 2 * MB
    left = [made[::-1]]
    while sum(quota.size_on_disk(store.directory(job_id)) for job_id in left[-1]) > cap_bytes:
        quota.make_room(store, cap_bytes)
        left.append(listed(store))
        assert left[-1] == made[: -len(left[-1]) - 1 : -1]
    removed = [len(before) - len(after) for before, after in itertools.pairwise(left)]
    assert max(removed) <= MOST_REMOVED
    assert min(removed[:-1]) >= LEAST_REMOVED


def test_a_slow_disk_has_a_start_remove_a_few(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "REMOVING_S", -1.0)
    made = ended_jobs(store, 3 * LEAST_REMOVED, MB // 2)
    make_room(store, MB)
    assert listed(store) == made[: LEAST_REMOVED - 1 : -1]


def test_a_start_goes_on_while_lost_jobs_are_left_for_later_starts(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They count among the jobs that fill the store alone until they are removed."""
    monkeypatch.setattr(retention, "REMOVING_S", -1.0)
    for age in range(2 * LEAST_REMOVED):
        lost = running_job(store, 1000.0 + age)
        fill(store, Path(lost.directory).name, MB // 2)
        os.close(lost.lock)
    make_room(store, 2 * MB)
    assert len(listed(store)) == LEAST_REMOVED


def test_a_running_job_stays_however_old_and_large(store: Store) -> None:
    running = running_job(store, time.time() - 5000)
    job_id = Path(running.directory).name
    fill(store, job_id, 3 * MB)
    made = ended_jobs(store, 4)
    make_room(store, 5 * MB)
    assert listed(store) == [made[3], job_id]


def test_running_jobs_that_fill_it_alone_let_no_other_in(store: Store) -> None:
    """Its ended ones are gone by then; and once it has ended, it makes room itself."""
    running = running_job(store)
    job_id = Path(running.directory).name
    fill(store, job_id, 3 * MB)
    ended_jobs(store, 2)
    with pytest.raises(StoreFull, match=r"take 3\d{6} bytes .* may take 2097152 \(MCP_BG_MAX_STORE_SIZE\)"):
        make_room(store, 2 * MB)
    assert listed(store) == [job_id]
    os.close(running.lock)
    make_room(store, 2 * MB)
    assert listed(store) == []


def test_what_has_ended_is_waited_for_until_its_shim_has_left(store: Store) -> None:
    leaving = running_job(store)
    job_id = Path(leaving.directory).name
    fill(store, job_id, 3 * MB)
    write_outcome(Path(leaving.directory))
    threading.Timer(0.1, os.close, (leaving.lock,)).start()
    make_room(store, 2 * MB)
    assert listed(store) == []


def test_what_an_ended_job_left_behind_still_takes_its_room(store: Store) -> None:
    """Its shim stays: it is not removed, and nobody waits for ever."""
    left = running_job(store)
    fill(store, Path(left.directory).name, 3 * MB)
    write_outcome(Path(left.directory))
    with pytest.raises(StoreFull):
        make_room(store, 2 * MB)
    os.close(left.lock)


def test_what_has_ended_is_measured_once(store: Store) -> None:
    """Ten thousand jobs must not be looked at for each new one."""
    made = ended_jobs(store, 3)
    make_room(store, 10 * MB)
    fill(
        store, made[0], 9 * MB
    )  # nobody writes into an ended job: that it goes unseen shows that nobody looked
    make_room(store, 10 * MB)
    assert len(listed(store)) == 3
    Path(store.home, quota.SIZES).unlink()
    make_room(store, 10 * MB)
    assert listed(store) == [made[2], made[1]]


def test_a_measure_counts_for_a_while_but_not_above_the_cap(store: Store) -> None:
    running = running_job(store)
    job_id = Path(running.directory).name
    Path(store.home, quota.SIZE).write_text("1000 60.0")  # just measured, and it took three seconds
    fill(store, job_id, 11 * MB)
    quota.make_room(store, 10 * MB)
    with pytest.raises(StoreFull):
        make_room(store, 10 * MB)
    with pytest.raises(StoreFull):
        quota.make_room(store, 10 * MB)
    os.close(running.lock)


@pytest.mark.parametrize("name", [quota.SIZE, quota.SIZES])
@pytest.mark.parametrize("torn", [b"", b"{", b"-5", b'{"ended": {}}', b'{"ended": [1]}', b'{"ended": "x"}'])
def test_what_is_torn_is_measured_again(store: Store, name: str, torn: bytes) -> None:
    made = ended_jobs(store, 4)
    Path(store.home, name).write_bytes(torn)
    make_room(store, 3 * MB)
    assert listed(store) == [made[3], made[2]]


def test_a_server_with_a_cap_makes_room_and_refuses_with_a_clear_error(
    start_server: StartServer, home: Path, gate: Gate, jobs: Jobs
) -> None:
    server = start_server(MCP_BG_MAX_STORE_SIZE="1MB", MCP_BG_MAX_OUTPUT_SIZE="4MB")
    first = server.execute("head -c 900000 /dev/urandom")
    server.call("wait_for_job", job_ids=[first], timeout_s=30)
    second = server.execute(f"head -c 2000000 /dev/urandom; {gate.pause}")
    gate.wait_until_reached()
    ask(jobs, second, op="wait", beyond=1_999_999)
    forget_measure(home)
    with pytest.raises(ToolError, match="The job store is full: the jobs that run now take"):
        server.execute("true")
    gate.open()
    server.call("wait_for_job", job_ids=[second], timeout_s=30)
    forget_measure(home)  # its shim may still be there: that is worth a moment's wait
    third = server.execute("true")
    kept = [job["job_id"] for job in server.call("list_jobs")["jobs"]]
    assert kept == [third]

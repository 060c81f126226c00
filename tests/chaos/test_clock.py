"""The machine's clock may be set, by a second or by ten years: no time that was agreed on moves, nothing is lost.

libfaketime sets the clock of real servers, shims, jobs and command lines while they run; their monotonic clock
stays real, as it does when a machine's clock is set.
"""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal

from bgjob.api.idle import likely_idle_s
from bgjob.home import jobdir
from bgjob.store.retention import clean
from bgjob.store.store import Store
from tests.support.gate import Gate
from tests.support.homes import end_all_jobs
from tests.support.searching import matches
from tests.support.server import Server
from tests.support.stores import ended_job, listed
from tests.support.waiting import wait_until

DAY, YEARS = 86400, 3653 * 86400  # ten of them
JUMPS = {"a day on": DAY, "a day back": -DAY, "ten years on": YEARS, "ten years back": -YEARS}
# who follows the clock is wrong by a day at least, and usually at once; late by seconds is the load of the machine
LATE_S = 15.0
SLACK_S = 1.0  # of what is told by the times of files and processes
SOON_S = 20.0
SHARED_MEMORY = Path("/dev/shm")
LIBRARIES = [
    *Path("/usr").glob("lib*/faketime/libfaketime.so.1"),
    *Path("/usr/lib").glob("*/faketime/libfaketime.so.1"),
]

# time.sleep is an absolute sleep on the monotonic clock, which libfaketime 0.9.10 gets wrong (its issue 426)
SLEEP = """
import select, time
time.sleep = lambda seconds: select.select([], [], [], seconds)
"""


class Clock:
    """The clock that processes with its environment see."""

    def __init__(self, directory: Path) -> None:
        (directory / "sitecustomize.py").write_text(SLEEP)
        self._file = directory / "offset"
        self.set(0)
        self.environment = {
            "LD_PRELOAD": str(LIBRARIES[0]),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, [str(directory), os.environ.get("PYTHONPATH")])),
        }
        # one for all: a process that finds none makes its own, and does not take it away again
        self.environment["FAKETIME_SHARED"] = self._run("echo $FAKETIME_SHARED")

    def _run(self, script: str) -> str:
        done = subprocess.run(
            ["/bin/sh", "-c", script], env={**os.environ, **self.environment}, capture_output=True, check=True
        )
        return done.stdout.decode().strip()

    def set(self, seconds: int) -> None:
        """So far from the real time."""
        draft = self._file.with_suffix(".new")
        draft.write_text(f"{seconds:+d}\n")
        draft.replace(self._file)
        self.offset_s = seconds

    def time(self) -> float:
        return time.time() + self.offset_s

    def close(self) -> None:
        semaphore, memory = self.environment["FAKETIME_SHARED"].split()
        (SHARED_MEMORY / f"sem.{semaphore[1:]}").unlink()
        (SHARED_MEMORY / memory[1:]).unlink()


@pytest.fixture(scope="module")
def clock_of_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clock]:
    if not LIBRARIES:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("needs libfaketime")
    with contextlib.closing(Clock(tmp_path_factory.mktemp("clock"))) as clock:
        yield clock


@pytest.fixture(scope="module")
def home_of_all(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("jumpy") / "home"


@pytest.fixture(scope="module")
def server_of_all(portal: BlockingPortal, clock_of_all: Clock, home_of_all: Path) -> Iterator[Server]:
    with contextlib.closing(Server(portal, home_of_all, clock_of_all.environment, "auto")) as server:
        yield server


@pytest.fixture
def clock(clock_of_all: Clock) -> Iterator[Clock]:
    clock_of_all.set(0)
    yield clock_of_all
    clock_of_all.set(0)


@pytest.fixture
def home(home_of_all: Path) -> Iterator[Path]:
    yield home_of_all
    end_all_jobs(home_of_all)


@pytest.fixture
def server(server_of_all: Server, home: Path, clock: Clock) -> Server:
    """One for all tests here, and its clock is right when a test begins."""
    return server_of_all


# -- times that were agreed on --------------------------------------------------------------------------


@dataclass(frozen=True)
class Answered:
    answer: dict[str, Any]
    began: float
    ended: float

    @property
    def took_s(self) -> float:
        return self.ended - self.began


@dataclass(frozen=True)
class Calls:
    """Several calls at once, each with the time it took."""

    server: Server
    pool: ThreadPoolExecutor

    def begin(self, tool: str, **arguments: Any) -> Future[Answered]:
        return self.pool.submit(self._call, tool, arguments)

    def _call(self, tool: str, arguments: dict[str, Any]) -> Answered:
        began = time.monotonic()
        return Answered(self.server.call(tool, **arguments), began, time.monotonic())


@pytest.fixture
def calls(server: Server) -> Iterator[Calls]:
    with ThreadPoolExecutor() as pool:
        yield Calls(server, pool)


@contextlib.contextmanager
def under_way(home: Path, job_id: str) -> Iterator[list[Future[Answered]]]:
    """Until the calls that are begun here wait at the job's shim, unless they are over already."""
    calls: list[Future[Answered]] = []
    alone = sockets(home, job_id)
    yield calls
    wait_until(
        lambda: all(call.done() for call in calls) or sockets(home, job_id) - alone >= len(calls),
        "all calls have come to the shim",
    )


def sockets(home: Path, job_id: str) -> int:
    """That the job's shim has: one for each who waits, and some of its own."""
    record = str(home / "jobs" / job_id / "run.json")
    wait_until(lambda: jobdir.read_record(record) is not None, "the run is recorded")
    run, count = jobdir.read_record(record) or {}, 0
    with contextlib.suppress(FileNotFoundError):  # it has ended
        for fd in Path(f"/proc/{run['shim_pid']}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                count += str(fd.readlink()).startswith("socket:")
    return count


@pytest.mark.parametrize("jump", JUMPS.values(), ids=JUMPS)
def test_no_time_moves_when_the_clock_is_set(
    server: Server, calls: Calls, clock: Clock, home: Path, jump: int
) -> None:
    stubborn = server.execute("trap '' TERM; echo ready; while :; do sleep 1; done")
    server.wait_until_printed(stubborn, "ready")
    earliest = time.monotonic()
    quiet = server.execute("echo hello; sleep 1000")
    server.wait_until_printed(quiet, "hello")
    latest = time.monotonic()

    with under_way(home, stubborn) as begun:
        begun.append(killed := calls.begin("kill_job", job_id=stubborn, grace_s=2))
    with under_way(home, quiet) as begun:
        begun.append(patience := calls.begin("wait_for_job", job_ids=[quiet], timeout_s=2))
        begun.append(silence := calls.begin("wait_for_job", job_ids=[quiet], silence_s=2, timeout_s=SOON_S))
    timed = server.execute("sleep 1000", timeout_s=3)
    clock.set(jump)
    asked = time.monotonic()
    status = server.status(quiet)
    for measured_s in (status["idle_s"], status["duration_s"]):
        assert asked - latest - SLACK_S <= measured_s <= time.monotonic() - earliest + SLACK_S
    later = calls.begin("wait_for_job", job_ids=[quiet], silence_s=3, timeout_s=SOON_S)

    assert killed.result().answer["signal"] == "SIGKILL"
    assert 2 <= killed.result().took_s < 2 + LATE_S
    assert not patience.result().answer["met"]
    assert 2 <= patience.result().took_s < 2 + LATE_S
    assert silence.result().answer["jobs"][0]["condition"] == "silence"
    assert earliest + 2 <= silence.result().ended < latest + 2 + LATE_S
    assert later.result().answer["jobs"][0]["condition"] == "silence"
    assert earliest + 3 - SLACK_S <= later.result().ended < latest + 3 + LATE_S
    server.call("wait_for_job", job_ids=[timed], timeout_s=SOON_S)
    end = server.status(timed)
    assert end["cause"] == "timed_out"
    assert 3 <= end["duration_s"] < 3 + LATE_S
    # what the job and its shim took for the time: the clock was set indeed
    date = server.call("execute_command", command="date +%s", wait_s=SOON_S)["stdout"]
    assert int(date) == pytest.approx(clock.time(), abs=SOON_S)
    assert seconds(end["ended"]) == pytest.approx(clock.time(), abs=SOON_S)


def seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


@pytest.mark.parametrize("jump", [-DAY, YEARS])
def test_silence_counts_from_what_was_printed_after_the_clock_was_set(
    server: Server, clock: Clock, home: Path, gate: Gate, jump: int
) -> None:
    job_id = server.execute(f"echo before; {gate.pause}; echo after; sleep 1000")
    gate.wait_until_reached()
    clock.set(jump)
    earliest = time.monotonic()
    gate.open()
    server.wait_until_printed(job_id, "after")
    (log,) = (home / "jobs" / job_id / "log").glob("*[0-9]")
    os.utime(log, (clock.time(), clock.time()))  # as a kernel does whose clock was really set
    latest = time.monotonic()
    server.call("wait_for_job", job_ids=[job_id], silence_s=1, timeout_s=SOON_S)
    assert earliest + 1 <= time.monotonic() < latest + 1 + LATE_S
    assert 1 <= server.status(job_id)["idle_s"] <= time.monotonic() - earliest + SLACK_S


@pytest.mark.parametrize(
    ("by_clock_s", "clock_set_by_s", "ran_s", "idle_s"),
    [
        (5, 0, 60, 5),
        (-0.004, 0, 60, 0),  # the kernel stamps files by its last tick
        (5, -0.02, 4.99, 4.99),
        (5 + DAY, DAY, 60, 5),  # set on after it printed
        (5, DAY, 60, 5),  # before
        (5 - YEARS, -YEARS, 60, 5),
        (5, -YEARS, 60, 5),
        (5 + DAY, DAY, 9 * DAY, 5),  # both are possible: rather too late
        (5 + DAY, 3 * DAY, 60, 0),  # set more than once, and printed in between
        (5 - DAY, 0, 60, 0),
    ],
)
def test_how_long_a_job_is_silent_fits_into_its_life(
    by_clock_s: float, clock_set_by_s: float, ran_s: float, idle_s: float
) -> None:
    assert likely_idle_s(by_clock_s, clock_set_by_s=clock_set_by_s, ran_s=ran_s) == pytest.approx(idle_s)


# -- the order of jobs ----------------------------------------------------------------------------------


def test_jobs_are_listed_in_the_order_they_were_made_whatever_the_clock_said(
    server: Server, clock: Clock, home: Path
) -> None:
    made: list[str] = []
    for offset in (0, -DAY, -YEARS, YEARS, YEARS + DAY, 0, 0, -YEARS, YEARS, DAY):
        clock.set(offset)
        made.insert(0, server.execute("true") if len(made) % 3 else run(home, clock, "true"))
        shown = server.call("list_jobs", limit=1)["jobs"][0]
        assert shown["job_id"] == made[0]
        assert seconds(shown["started"]) == pytest.approx(clock.time(), abs=SOON_S)
    assert [job["job_id"] for job in server.call("list_jobs")["jobs"]][: len(made)] == made
    assert ps(home, clock)[: len(made)] == [job_id[:8] for job_id in made]


def test_pages_go_on_where_they_were_when_the_clock_is_set(server: Server, clock: Clock) -> None:
    made: list[str] = []
    for offset in (0, YEARS, 0, -DAY, -YEARS):
        clock.set(offset)
        made.insert(0, server.execute("true"))
    page = server.call("list_jobs", limit=2)
    seen = [job["job_id"] for job in page["jobs"]]
    for offset in (-YEARS - DAY, YEARS):
        clock.set(offset)
        server.execute("true")  # newer than all: no page that comes has it
        page = server.call("list_jobs", limit=2, cursor=page["next_cursor"])
        seen += [job["job_id"] for job in page["jobs"]]
    assert seen[: len(made)] == made
    assert len(seen) == len(set(seen))


def test_of_a_name_there_is_one_and_the_newest_is_found_whatever_the_clock_says(
    server: Server, clock: Clock, home: Path
) -> None:
    clock.set(YEARS)
    server.call("execute_command", command="echo old", name="dev", wait_s=SOON_S)
    clock.set(0)
    running = server.execute("echo new; cat", name="dev")
    server.wait_until_printed(running, "new")
    for jump in JUMPS.values():
        clock.set(jump)
        again = server.call("execute_command", command="echo third", name="dev", if_running="reuse")
        assert (again["job_id"], again["reused"]) == (running, True)
        assert bgjob(home, clock, "logs", "dev") == "new\n"


def test_the_place_of_the_newest_job_is_found_again_when_it_is_thrown_away(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "home"))
    from_the_future = ended_job(store, created_at=time.time() + YEARS)
    older = ended_job(store)
    Path(store.home, "newest").unlink()
    newer = ended_job(store)
    assert listed(store) == [newer, older, from_the_future]


def test_a_place_that_no_clock_gave_is_passed_over(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "home"))
    ended_job(store)
    os.utime(Path(store.home, "newest"), (10**10, 10**10))
    newest = ended_job(store)
    assert listed(store)[0] == newest


def bgjob(home: Path, clock: Clock, *arguments: str) -> str:
    return python(home, clock, "-m", "bgjob", *arguments)


def python(home: Path, clock: Clock, *arguments: str) -> str:
    environment = {**os.environ, **clock.environment, "BGJOB_HOME": str(home)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, check=True).stdout.decode()


def run(home: Path, clock: Clock, command: str) -> str:
    return bgjob(home, clock, "run", command).strip()


def ps(home: Path, clock: Clock) -> list[str]:
    """The first characters of their ids."""
    return [line[:8] for line in bgjob(home, clock, "ps").splitlines()[1:]]


# -- what is kept ---------------------------------------------------------------------------------------

CLEAN = "import sys; from bgjob.store import retention, store; retention.clean(store.Store(sys.argv[1]), 1000, 7, 0)"


def kept(home: Path, clock: Clock) -> list[str]:
    """What somebody leaves who cleans up by that clock."""
    python(home, clock, "-c", CLEAN, str(home))
    return ps(home, clock)


@pytest.fixture
def own_home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "home"
    end_all_jobs(tmp_path / "home")


def test_a_clock_that_is_wrong_for_a_while_costs_no_job(own_home: Path, clock: Clock) -> None:
    made = [ended(own_home, clock)]
    for offset in (YEARS, YEARS, YEARS + DAY, 0, -YEARS, 0):
        clock.set(offset)
        assert kept(own_home, clock) == made


def test_jobs_from_before_and_from_a_future_that_was_taken_back_age_all_the_same(
    own_home: Path, clock: Clock
) -> None:
    before = ended(own_home, clock)
    clock.set(YEARS)
    assert kept(own_home, clock) == [before]
    future = ended(own_home, clock)
    clock.set(0)
    assert kept(own_home, clock) == [future, before]
    clock.set(5 * DAY)
    now = ended(own_home, clock)
    assert kept(own_home, clock) == [now, future, before]
    clock.set(8 * DAY)
    assert kept(own_home, clock) == [now]


@pytest.mark.parametrize("moved", [False, True], ids=["away", "set"])
def test_whether_the_user_was_away_or_the_clock_was_set_is_told_by_when_the_machine_was_booted(
    tmp_path: Path, moved: bool
) -> None:
    """A cleaner that comes after a month finds jobs to be a month old: by a steady clock that is so."""
    store = Store(str(tmp_path / "home"))
    clean(store, keep_jobs=10, keep_days=7, interval_s=0)
    job_id = ended_job(store, ended_at=time.time() - 29 * DAY)
    for name in ["cleaned", *(["clock"] if moved else [])]:
        then = Path(store.home, name).stat().st_mtime - 30 * DAY
        os.utime(Path(store.home, name), (then, then))
    clean(store, keep_jobs=10, keep_days=7, interval_s=0)
    assert listed(store) == ([job_id] if moved else [])


def ended(home: Path, clock: Clock) -> str:
    """A job that has ended, and its shim too."""
    job_id = run(home, clock, "true")
    directory = home / "jobs" / job_id
    wait_until((directory / "outcome.json").exists, "it has ended")
    wait_until(lambda: not jobdir.is_locked(str(directory / "spec.json")), "its shim has ended")
    return job_id[:8]


# -- what is read ---------------------------------------------------------------------------------------


def test_output_is_in_the_order_it_came_whatever_its_times_say(
    server: Server, clock: Clock, gate: Gate
) -> None:
    job_id = server.execute(f"echo one; {gate.pause}; echo two >&2; {gate.pause}; echo three; {gate.reach}")
    gate.wait_until_reached()
    server.wait_until_printed(job_id, "one")
    first = server.output(job_id)
    clock.set(-YEARS)
    gate.open()
    gate.wait_until_reached()
    server.wait_until_printed(job_id, "two")
    clock.set(DAY)
    gate.open()
    gate.wait_until_reached()
    server.wait_until_printed(job_id, "three")

    lines = server.output(job_id, view="interleaved")["interleaved"].splitlines()
    assert [line.partition(" ")[2] for line in lines] == ["out| one", "err| two", "out| three"]
    rest = server.output(job_id, since=first["cursor"])
    assert (rest["stdout"], rest["stderr"]) == ("three\n", "two\n")
    assert server.call("tail_job_output", job_id=job_id, lines=1)["stdout"] == "three\n"
    found = matches(
        server.call("search_job_output", pattern="o", job_ids=[job_id], oldest_first=True, times=True)
    )
    assert [match["line"] for match in found] == ["one", "two"]
    offsets = [seconds(match["time"]) - time.time() for match in found]
    assert offsets == pytest.approx([0, -YEARS], abs=SOON_S)
    assert server.output(job_id, since=found[1]["cursor"])["stderr"] == "two\n"

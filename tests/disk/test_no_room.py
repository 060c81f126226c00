"""A home on a real file system without blocks or without inodes: before a start, while a job prints, at its end."""

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bgjob.api import Jobs, Typed, open_jobs
from bgjob.api.attach import Attachment
from bgjob.api.survey import survey
from bgjob.core.errors import CannotStart
from bgjob.core.job import Event, Exited, Killed, Lost, NeverStarted, Queued, Running
from bgjob.home import event_log
from bgjob.home.log_format import STDERR, STDOUT
from bgjob.link import sweep
from bgjob.shim.child import Exit
from bgjob.shim.loop import Loop, Timer
from bgjob.shim.phase import Running as ShimRunning
from bgjob.shim.supervise import LONGEST_RETRY_S, RETRY_S, Supervisor
from bgjob.store import event_reader
from tests.support.dispatchers import wait_until_queue_is_done
from tests.support.gate import Gate
from tests.support.homes import end_all_jobs
from tests.support.logs import missing_bytes
from tests.support.process_table import end_whoever_is_in, wait_until_gone
from tests.support.shims import ask, shim_pid
from tests.support.waiting import PATIENCE_S, wait_until

BLOCK_BYTES = 1024
EXT4_BYTES, EXT4_INODES = 8 << 20, 600
KINDS = {"tmpfs": f"size=2m,nr_inodes={EXT4_INODES}", "ext4": ""}
FIRST_WORDS = b"first words\n"
NUMBERS = b"".join(b"%d\n" % number for number in range(1, 20_001))


class Disk:
    """A small file system of its own, that can run out of blocks or of inodes, and have some again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"
        self._ballast.mkdir()

    def use_up(self, what: str, leave: int = 0) -> None:
        """All but so many; again after a sync, because a file system with a journal gives some back later."""
        for _ in range(3):
            (self._use_up_blocks if what == "blocks" else self._use_up_inodes)()
            subprocess.run(["sync", "-f", self.path], check=True)
        for path in sorted(self._ballast.iterdir())[:leave]:
            path.unlink()
        subprocess.run(["sync", "-f", self.path], check=True)

    def _use_up_blocks(self) -> None:
        """The files of one block each can be given back one by one."""
        self._write_files("block", 40, BLOCK_BYTES)
        with contextlib.suppress(OSError), (self._ballast / "many-blocks").open("ab", buffering=0) as file:
            while file.write(bytes(BLOCK_BYTES)):
                pass

    def _use_up_inodes(self) -> None:
        self._write_files("inode", 10_000, 0)

    def _write_files(self, name: str, count: int, size_bytes: int) -> None:
        with contextlib.suppress(OSError):
            for number in range(count):
                path = self._ballast / f"{name}-{number:05}"
                if not path.exists():
                    path.write_bytes(bytes(size_bytes))

    def free(self) -> None:
        for path in self._ballast.iterdir():
            path.unlink()
        subprocess.run(["sync", "-f", self.path], check=True)


@pytest.fixture(scope="module", params=KINDS)
def mounted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disk]:
    directory = tmp_path_factory.mktemp(request.param)
    path = directory / "disk"
    path.mkdir()
    if error := mount(request.param, directory, path):
        pytest.skip(f"needs to mount a file system: {error}")
    try:
        yield Disk(path)
    finally:
        unmount(path)


def mount(kind: str, directory: Path, path: Path) -> str:
    """What was wrong, if something was."""
    source, options = kind, KINDS[kind]
    if kind == "ext4":
        source, options = str(directory / "image"), "loop"
        os.truncate(os.open(source, os.O_CREAT | os.O_RDWR, 0o600), EXT4_BYTES)
        made = answer(
            "mkfs.ext4", "-q", "-F", "-m", "0", "-b", str(BLOCK_BYTES), "-N", str(EXT4_INODES), source
        )
        if made:
            return made
    return answer("mount", "-t", kind, "-o", options, source, str(path))


def answer(*command: str) -> str:
    if shutil.which(command[0]) is None:
        return f"there is no {command[0]}"
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr.strip() or f"exit {done.returncode}" if done.returncode else ""


def unmount(path: Path) -> None:
    """Once the last shim has left it; in any case out of sight, and gone when the last one leaves."""
    try:
        wait_until(lambda: not answer("umount", str(path)), "every process has left the disk")
    except AssertionError:
        assert not answer("umount", "-l", str(path))
        raise


@pytest.fixture
def disk(mounted: Disk) -> Iterator[Disk]:
    home = mounted.path / "home"
    try:
        yield mounted
        mounted.free()
        end_all_jobs(home)
    finally:
        mounted.free()
        for job in (home / "jobs").iterdir():
            sweep.kill(job.name)
        end_whoever_is_in(home)
        shutil.rmtree(home)


@pytest.fixture
def jobs(disk: Disk) -> Iterator[Jobs]:
    with contextlib.closing(open_jobs(environment(disk), many=False)) as jobs:
        yield jobs


def environment(disk: Disk) -> dict[str, str]:
    """So much output that nothing of it is dropped but for want of room, and that it takes more than one file."""
    return {**os.environ, "BGJOB_HOME": str(disk.path / "home"), "MCP_BG_MAX_OUTPUT_SIZE": "600000"}


WHAT = pytest.mark.parametrize("what", ["blocks", "inodes"])


@WHAT
def test_a_start_without_room_is_refused_and_names_the_disk(disk: Disk, jobs: Jobs, what: str) -> None:
    disk.use_up(what)
    with pytest.raises(CannotStart) as refusal:
        jobs.execute("echo never")
    check_refusal(disk, jobs, str(refusal.value))
    assert not jobs.list().jobs
    disk.free()
    assert wait_for_end(jobs, jobs.execute("exit 7").id).code == 7


@WHAT
def test_with_hardly_any_room_a_job_is_refused_or_kept_whole(disk: Disk, jobs: Jobs, what: str) -> None:
    """Whichever of its files is the first that does not fit."""
    refused = [leave for leave in range(16) if not runs_with_so_much_left(disk, jobs, what, leave)]
    assert 0 in refused
    assert 15 not in refused


def runs_with_so_much_left(disk: Disk, jobs: Jobs, what: str, leave: int) -> bool:
    disk.use_up(what, leave)
    try:
        job_id = jobs.execute("echo first words; exit 7").id
    except CannotStart as error:
        check_refusal(disk, jobs, str(error))
        return False
    else:
        assert wait_for_end(jobs, job_id).code == 7
        assert missing_of(jobs, disk, job_id, FIRST_WORDS) in (0, len(FIRST_WORDS))
        return True
    finally:
        disk.free()


def check_refusal(disk: Disk, jobs: Jobs, error: str) -> None:
    """It names the disk, and what it may have left behind says that it has never run."""
    assert f"make room on the disk of the job store {disk.path / 'home'}" in error
    for state in (job.state for job in jobs.list().jobs):
        if not isinstance(state, Exited):
            assert isinstance(state, NeverStarted | Lost), state
            assert "never started" in state.reason or "No space" in state.reason


@WHAT
def test_a_job_prints_on_while_there_is_no_room_and_is_heard_when_there_is_again(
    disk: Disk, jobs: Jobs, what: str, tmp_path: Path
) -> None:
    gate, stop, count = Gate(tmp_path / "gate"), tmp_path / "stop", tmp_path / "count"
    job_id = jobs.execute(
        f"echo first words; {gate.pause}; seq 1 20000; {gate.pause}; n=0; "
        f"until [ -e {stop} ]; do n=$((n + 1)); echo later $n; sleep 0.02; done; echo $n > {count}; exit 7"
    ).id
    gate.wait_until_reached()
    wait_for_text(jobs, job_id, "first words")
    disk.use_up(what)
    gate.open()
    gate.wait_until_reached()
    ask(jobs, job_id, op="wait", beyond=len(FIRST_WORDS + NUMBERS) - 1)  # it has left the job's pipe
    disk.free()
    gate.open()
    wait_for_text(jobs, job_id, "later")
    stop.touch()
    state = wait_for_end(jobs, job_id)
    later = b"".join(b"later %d\n" % number for number in range(1, int(count.read_text()) + 1))
    printed = FIRST_WORDS + NUMBERS + later
    assert (state.code, state.stdout_bytes) == (7, len(printed))
    assert missing_of(jobs, disk, job_id, printed) > 0
    assert "bytes dropped here" in jobs.output(job_id).stdout


@WHAT
def test_the_end_of_a_job_needs_no_room(disk: Disk, jobs: Jobs, what: str, tmp_path: Path) -> None:
    """Nobody makes room: what it printed last is missing, and counted; how it ended is known."""
    gate = Gate(tmp_path / "gate")
    job_id = jobs.execute(f"echo first words; {gate.pause}; seq 1 20000; exit 7").id
    gate.wait_until_reached()
    wait_for_text(jobs, job_id, "first words")
    disk.use_up(what)
    gate.open()
    state = wait_for_end(jobs, job_id)
    assert (state.code, state.stdout_bytes) == (7, len(FIRST_WORDS + NUMBERS))
    assert missing_of(jobs, disk, job_id, FIRST_WORDS + NUMBERS) > 0


@WHAT
def test_the_first_words_without_room_are_counted(disk: Disk, jobs: Jobs, what: str, tmp_path: Path) -> None:
    """It has no log yet, and there is no room for one."""
    gate = Gate(tmp_path / "gate")
    job_id = jobs.execute(f"{gate.pause}; seq 1 20000; exit 7").id
    gate.wait_until_reached()
    disk.use_up(what)
    gate.open()
    state = wait_for_end(jobs, job_id)
    assert (state.code, state.stdout_bytes) == (7, len(NUMBERS))
    assert missing_of(jobs, disk, job_id, NUMBERS) == len(NUMBERS)


@WHAT
def test_a_shim_that_is_killed_while_there_is_no_room_is_replaced(
    disk: Disk, jobs: Jobs, what: str, tmp_path: Path
) -> None:
    gate = Gate(tmp_path / "gate")
    job_id = jobs.execute(f"echo first words; {gate.reach}; read -r line; exit $line").id
    gate.wait_until_reached()
    wait_for_text(jobs, job_id, "first words")
    disk.use_up(what)
    run = jobs.status(job_id).job.run
    assert run is not None
    os.kill(run.shim_pid, signal.SIGKILL)
    assert jobs.wait_for([job_id], for_input=True, timeout_s=PATIENCE_S)[0].met
    jobs.interact(job_id, Typed("7"))
    state = wait_for_end(jobs, job_id)
    assert (state.code, state.stdout_bytes) == (7, len(FIRST_WORDS))
    assert missing_of(jobs, disk, job_id, FIRST_WORDS) == 0


@WHAT
def test_a_home_without_room_can_be_read(disk: Disk, jobs: Jobs, what: str) -> None:
    job_id = jobs.execute("echo first words; exit 7").id
    wait_for_end(jobs, job_id)
    disk.use_up(what)
    with contextlib.closing(open_jobs(environment(disk), many=False)) as another:
        assert [job.id for job in another.list().jobs] == [job_id]
        assert another.output(job_id).stdout == FIRST_WORDS.decode()


QUEUED = 40
FULL_FOR_S = 1.0


@WHAT
def test_what_waits_while_there_is_no_room_waits_on_and_runs_once(
    disk: Disk, what: str, tmp_path: Path
) -> None:
    """Slots come free, and nothing can be started in them: that is nobody's failure, nor that of who waits for it."""
    gate, diary = Gate(tmp_path / "gate"), tmp_path / "diary"
    with contextlib.closing(open_jobs({**environment(disk), "MCP_BG_MAX_JOBS": "2"})) as jobs:
        for _ in range(2):
            jobs.execute(f"{gate.reach}; until [ -e {tmp_path}/go ]; do sleep 0.01; done")
            gate.wait_until_reached()
        note = f"echo $BGJOB_ID >> {diary}"
        ids = [jobs.execute(note, queue=True).id for _ in range(QUEUED)]
        ids.append(jobs.execute(note, after=[ids[0]]).id)
        disk.use_up(what)
        (tmp_path / "go").touch()
        full_until = time.monotonic() + FULL_FOR_S
        while time.monotonic() < full_until:
            states = [job.state for job in jobs.list(limit=100).jobs]
            assert {type(state) for state in states} <= {Queued, Running, Exited}, states
        disk.free()
        waited = jobs.wait_for(ids, mode="all", timeout_s=PATIENCE_S)
        assert {type(each.status.job.state) for each in waited} == {Exited}
        jobs.events("0.0")  # an end for which there was no room is told when somebody asks
        assert {(each["job_id"], each["cause"]) for each in ends_told(disk)} >= {
            (id_, "exited") for id_ in ids
        }
        assert {each["cause"] for each in ends_told(disk)} == {"exited"}
    assert sorted(diary.read_text().split()) == sorted(ids)
    wait_until_queue_is_done(disk.path / "home")


def ends_told(disk: Disk) -> list[Event]:
    events = str(disk.path / "home" / "events")
    told = event_reader.read(events, event_log.beginning(events))
    return [event for event, _ in told if event["kind"] == "ended"]


def wait_for_text(jobs: Jobs, job_id: str, text: str) -> None:
    assert jobs.wait_for([job_id], pattern=text, literal=True, timeout_s=PATIENCE_S)[0].met


def wait_for_end(jobs: Jobs, job_id: str) -> Exited:
    """And until its shim has left, so that nobody is on the disk."""
    waited = jobs.wait_for([job_id], timeout_s=PATIENCE_S)[0]
    wait_until(lambda: not jobs.has_shim(job_id), "its shim has left")
    state = waited.status.job.state
    assert isinstance(state, Exited), state
    return state


def missing_of(jobs: Jobs, disk: Disk, job_id: str, stdout: bytes) -> int:
    log = disk.path / "home" / "jobs" / job_id / "log"
    return missing_bytes(jobs, job_id, log, {STDOUT: stdout, STDERR: b""})


# -- a disk that can be read and not written ---------------------------------------------------------


@pytest.fixture
def broken_disk(tmp_path: Path) -> Iterator[Path]:
    """An ext4 of its own, for a test that turns it read-only as an error of its disk does."""
    path = tmp_path / "disk"
    path.mkdir()
    if error := mount("ext4", tmp_path, path):
        pytest.skip(f"needs to mount a file system: {error}")
    try:
        yield path
    finally:
        end_whoever_is_in(path / "home")
        unmount(path)


def abort(path: Path) -> None:
    assert not answer("mount", "-o", "remount,abort", str(path))
    with contextlib.suppress(OSError):  # the first write notices it
        (path / "more").touch()


@pytest.mark.parametrize("ends", ["by itself", "by a kill"])
def test_an_end_that_a_read_only_disk_cannot_record_is_told_all_the_same(
    broken_disk: Path, gate: Gate, ends: str
) -> None:
    with contextlib.closing(
        open_jobs({**os.environ, "BGJOB_HOME": str(broken_disk / "home")}, many=False)
    ) as jobs:
        job_id = jobs.execute(f"{gate.pause}; exit 7", name="one").id
        gate.wait_until_reached()
        abort(broken_disk)
        if ends == "by itself":
            gate.open()
        else:
            done = jobs.kill(job_id)
            assert done.status == "killed"
            assert "cannot be recorded: Read-only file system" in (done.hint or "")
        cause, code = (Exited, 7) if ends == "by itself" else (Killed, None)
        (waited,) = jobs.wait_for([job_id], timeout_s=PATIENCE_S)
        assert waited.came is not None
        for state in (
            waited.status.job.state,
            jobs.status(job_id).job.state,
            survey(jobs.context).ended[0].job.state,
        ):
            assert isinstance(state, cause)
            assert state.code == code
        again = jobs.kill(job_id)
        assert again.status == "already_terminated"
        assert "cannot be recorded: Read-only file system" in (again.hint or "")


@pytest.fixture
def home_that_breaks(broken_disk: Path) -> Path:
    return broken_disk / "home"


@pytest.fixture
def unrecorded(home_that_breaks: Path, gate: Gate) -> str:
    """A job that has ended with 7 and whose shim cannot write that down."""
    with contextlib.closing(
        open_jobs({**os.environ, "BGJOB_HOME": str(home_that_breaks)}, many=False)
    ) as jobs:
        job_id = jobs.execute(f"echo first words; {gate.pause}; exit 7").id
        gate.wait_until_reached()
        wait_for_text(jobs, job_id, "first words")
        abort(home_that_breaks.parent)
        gate.open()
        jobs.wait_for([job_id], timeout_s=PATIENCE_S)
        return job_id


def bgjob(home: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [Path(sys.executable).with_name("bgjob"), *arguments],
        env={**os.environ, "BGJOB_HOME": str(home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def said_by(process: subprocess.Popen[str]) -> tuple[str, str]:
    """On stdout and stderr, until it ends."""
    try:
        return process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()


@pytest.mark.parametrize("verb", ["logs -f", "run -f"])
def test_following_a_job_ends_with_the_job_on_a_read_only_disk(
    home_that_breaks: Path, gate: Gate, verb: str
) -> None:
    what = f"echo first words; {gate.pause}; exit 7"
    if verb == "logs -f":
        with bgjob(home_that_breaks, "run", what) as starter:
            what = said_by(starter)[0].strip()
    with bgjob(home_that_breaks, *verb.split(), what) as follower:
        gate.wait_until_reached()
        assert follower.stdout is not None
        assert follower.stdout.readline() == "first words\n"
        abort(home_that_breaks.parent)
        gate.open()
        _, said = said_by(follower)
    assert follower.returncode == 7
    assert "cannot be recorded: Read-only file system" in said


def test_following_a_job_that_has_ended_on_a_read_only_disk_ends_at_once(
    home_that_breaks: Path, unrecorded: str
) -> None:
    with bgjob(home_that_breaks, "logs", "-f", unrecorded) as follower:
        printed, said = said_by(follower)
    assert (follower.returncode, printed) == (7, "first words\n")
    assert "cannot be recorded: Read-only file system" in said


def test_an_attachment_ends_with_a_job_whose_end_cannot_be_recorded(jobs_here: Jobs, gate: Gate) -> None:
    job_id = jobs_here.execute(f"{gate.pause}; exit 7", pty=True).id
    gate.wait_until_reached()
    attachment = Attachment(jobs_here.context, jobs_here.status(job_id).job, "somebody")
    with contextlib.closing(attachment), unwritable_end(jobs_here, job_id):
        gate.open()
        deadline = time.monotonic() + PATIENCE_S
        while not attachment.is_over and time.monotonic() < deadline:
            attachment.wait()
            hear(attachment, deadline)
        assert attachment.is_over


def hear(attachment: Attachment, deadline: float) -> None:
    ready, _, _ = select.select(attachment.descriptors(), [], [], max(0.0, deadline - time.monotonic()))
    attachment.hear(set(ready))
    attachment.new_output()


@pytest.mark.parametrize("options", [(), ("-f",)])
def test_a_removal_on_a_read_only_disk_says_how_the_job_ended_and_what_helps(
    home_that_breaks: Path, unrecorded: str, options: tuple[str, ...]
) -> None:
    with bgjob(home_that_breaks, "rm", *options, unrecorded) as remover:
        printed, said = said_by(remover)
    assert (remover.returncode, printed) == (1, "")
    assert "failed with exit code 7" in said
    assert "cannot be recorded: Read-only file system" in said
    assert f"Make {home_that_breaks} writable" in said
    assert "it runs" not in said
    assert "bgjob rm -f" not in said


@contextlib.contextmanager
def unwritable_end(jobs: Jobs, job_id: str) -> Iterator[None]:
    """A directory in the place of the draft: no write of the outcome succeeds until it is gone."""
    draft = Path(jobs.directory(job_id)) / "outcome.json.new"
    draft.unlink()
    draft.mkdir()
    try:
        yield
    finally:
        draft.rmdir()


def test_an_end_is_recorded_once_its_disk_can_be_written_again(jobs_here: Jobs, gate: Gate) -> None:
    """A directory in the place of the draft: no write succeeds until it is gone."""
    job_id = jobs_here.execute(f"{gate.pause}; exit 7", timeout_s=1000).id
    gate.wait_until_reached()
    draft = Path(jobs_here.directory(job_id)) / "outcome.json.new"
    draft.unlink()
    draft.mkdir()
    gate.open()
    (waited,) = jobs_here.wait_for([job_id], timeout_s=PATIENCE_S)
    first = waited.status.job.state
    assert isinstance(first, Exited)
    assert isinstance(jobs_here.store.load(job_id).state, Running)
    draft.rmdir()
    wait_until(lambda: not isinstance(jobs_here.store.load(job_id).state, Running), "it is on disk")
    state = jobs_here.store.load(job_id).state
    assert isinstance(state, Exited)
    assert (state.code, state.ended_at) == (7, first.ended_at)


def test_a_kill_of_a_job_whose_end_cannot_be_recorded_does_not_change_how_it_ended(
    jobs_here: Jobs, gate: Gate
) -> None:
    job_id = jobs_here.execute(f"{gate.pause}; exit 7").id
    gate.wait_until_reached()
    draft = Path(jobs_here.directory(job_id)) / "outcome.json.new"
    draft.unlink()
    draft.mkdir()
    gate.open()
    jobs_here.wait_for([job_id], timeout_s=PATIENCE_S)
    assert jobs_here.kill(job_id).status == "already_terminated"
    draft.rmdir()
    wait_until(lambda: not isinstance(jobs_here.store.load(job_id).state, Running), "it is on disk")
    assert isinstance(jobs_here.store.load(job_id).state, Exited)


def test_a_guard_tells_the_end_that_its_shim_could_not_record(jobs_here: Jobs, gate: Gate) -> None:
    """It knows neither when the job ended nor what it printed: the shim has told it."""
    job_id = jobs_here.execute(f"{gate.pause}; exit 7").id
    gate.wait_until_reached()
    shim = shim_pid(jobs_here, job_id)
    with unwritable_end(jobs_here, job_id):
        gate.open()
        (waited,) = jobs_here.wait_for([job_id], timeout_s=PATIENCE_S)
        first = waited.status.job.state
        assert isinstance(first, Exited)
        os.kill(shim, signal.SIGKILL)
        wait_until_gone(shim)
        wait_until(lambda: jobs_here.status(job_id).job.state == first, "its guard says the same")
    wait_until(lambda: not isinstance(jobs_here.store.load(job_id).state, Running), "it is on disk")
    state = jobs_here.store.load(job_id).state
    assert isinstance(state, Exited)
    assert (state.code, state.ended_at, state.duration_s) == (7, first.ended_at, first.duration_s)


def test_tries_to_record_an_end_become_rarer(jobs_here: Jobs, gate: Gate) -> None:
    job_id = jobs_here.execute(f"{gate.pause}; exit 7").id
    gate.wait_until_reached()
    draft = Path(jobs_here.directory(job_id)) / "outcome.json.new"
    draft.unlink()
    draft.mkdir()
    pid = shim_pid(jobs_here, job_id)
    gate.open()
    jobs_here.wait_for([job_id], timeout_s=PATIENCE_S)
    wait_until(
        lambda: sleeps_through(pid, 1.5), "the shim waits longer and longer: at first it tries each 0.2 s"
    )
    draft.rmdir()
    assert jobs_here.kill(job_id).status == "already_terminated"


class LeapingLoop(Loop):
    """A loop whose clock leaps to the next moment that it waits for."""

    def __init__(self) -> None:
        super().__init__()
        self.delays_s = list[float]()

    def call_later(self, delay_s: float, action: Callable[[], None]) -> Timer:
        self.delays_s.append(delay_s)
        return super().call_later(delay_s, action)

    def leap(self) -> None:
        due, self._timers = self._timers, []
        for timer in due:
            timer.action()


class StuckSupervisor(Supervisor):
    """Its job has ended, and its disk takes no record."""

    def __init__(self, loop: Loop) -> None:
        self._phase, self._loop, self._rerun = ShimRunning(1), loop, None
        self._retry, self._retry_s = None, RETRY_S
        self.attempts = 0

    def _first_dead(self) -> Exit | None:
        return Exit(1, 7, None)

    def _record(self, _running: ShimRunning, _dead: Exit) -> bool:
        self.attempts += 1
        return False

    def begin(self) -> None:
        self._reap()


def test_a_disk_that_stays_read_only_is_tried_twice_a_minute() -> None:
    loop = LeapingLoop()
    supervisor = StuckSupervisor(loop)
    supervisor.begin()
    for _ in range(20):
        loop.leap()
    assert supervisor.attempts == 21
    assert loop.delays_s[0] <= 1.0
    assert sorted(loop.delays_s) == loop.delays_s
    assert set(loop.delays_s[-10:]) == {LONGEST_RETRY_S}
    assert LONGEST_RETRY_S >= 30.0


def sleeps_through(pid: int, seconds: float) -> bool:
    before = switches(pid)
    time.sleep(seconds)
    return switches(pid) == before


def switches(pid: int) -> int:
    """How often it has gone to sleep."""
    words = Path(f"/proc/{pid}/status").read_text().split()
    return int(words[words.index("voluntary_ctxt_switches:") + 1])


@pytest.fixture
def jobs_here(home: Path) -> Iterator[Jobs]:
    with contextlib.closing(open_jobs({**os.environ, "BGJOB_HOME": str(home)}, many=False)) as jobs:
        yield jobs

"""The batch script of a cluster's job, without a cluster: what it starts, what it passes on, and how it ends."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from bgjob.agent.allocation import in_hold
from bgjob.api.context import open_context
from bgjob.api.start_once import start_once
from bgjob.core.errors import CannotStart
from bgjob.core.job import Job, Running
from bgjob.home import jobdir
from bgjob.link.hold import HOLDS, Hold, HoldEnds, connected
from bgjob.remote.shared_root import home_of, request_of
from bgjob.remote.slurm_scripts import BATCH_CODE
from bgjob.system import processes
from bgjob.system.own_argv import PACKAGE_ROOT
from tests.support.gate import Gate
from tests.support.other_user import NOBODY, OtherUser, needs_root
from tests.support.requires import linux_only
from tests.support.waiting import wait_until

pytestmark = linux_only
NODE, NUMBER = "n1", "17"
ENDS_S = 120.0

StartBatch = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "requests").mkdir(parents=True, mode=0o700)
    root.chmod(0o700)
    return root


@pytest.fixture
def home(root: Path) -> Path:
    return Path(home_of(str(root), NODE))


@pytest.fixture
def batch(root: Path) -> Iterator[StartBatch]:
    """Starts the batch script as Slurm does."""
    with contextlib.ExitStack() as started:

        def start(verb: str, word: str) -> "subprocess.Popen[bytes]":
            argv = [sys.executable, "-I", "-S", "-c", BATCH_CODE, PACKAGE_ROOT, verb, str(root), word]
            allocation = {"SLURMD_NODENAME": NODE, "SLURM_JOB_ID": NUMBER, "CUDA_VISIBLE_DEVICES": "3"}
            process = subprocess.Popen(
                argv, env={**os.environ, **allocation, "MCP_BG_MAX_JOBS": "nonsense"}, stderr=subprocess.PIPE
            )
            started.callback(_end, process)
            return process

        yield start


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.communicate()


def request(root: Path, command: str, **asked: object) -> str:
    """Asks for a job: its id."""
    job = str(uuid4())
    path = Path(request_of(str(root), job))
    path.touch(0o600)
    path.write_text(json.dumps({"command": command, "asked": asked}))
    return job


def record(home: Path, job: str, name: str) -> dict[str, Any]:
    """Of the job's directory, once it is there."""
    found: dict[str, Any] = {}

    def is_there() -> bool:
        found.update(jobdir.read_record(f"{home}/jobs/{job}/{name}") or {})
        return bool(found)

    wait_until(is_there, f"there is {name}")
    return found


def outcome(home: Path, job: str) -> dict[str, Any]:
    return record(home, job, jobdir.OUTCOME)


def output(home: Path, job: str) -> bytes:
    return (home / "jobs" / job / "log" / f"{0:020}").read_bytes()


# -- one job -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("command", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -USR2 $$", 140)])
def test_it_ends_as_its_job_has_ended(
    batch: StartBatch, root: Path, home: Path, command: str, code: int
) -> None:
    job = request(root, command)
    assert batch("run-job", job).wait(ENDS_S) == code
    assert outcome(home, job)
    taken = json.loads((root / "requests" / f"{job}.taken").read_text())
    assert taken == {"engine_id": NUMBER, "node": NODE}
    assert not (root / "requests" / job).exists()


def test_a_job_has_the_variables_of_its_allocation_and_no_settings_of_ours(
    batch: StartBatch, root: Path, home: Path
) -> None:
    job = request(
        root, "echo $SLURM_JOB_ID $CUDA_VISIBLE_DEVICES $MCP_BG_MAX_JOBS$BGJOB_HOME $MORE", env={"MORE": "x"}
    )
    batch("run-job", job).wait(ENDS_S)
    assert output(home, job) == b"17 3 x\n"


def test_of_two_that_are_to_make_a_job_one_does(batch: StartBatch, root: Path, tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    job = request(root, f"echo ran >> {diary}")
    both = [batch("run-job", job) for _ in range(2)]
    assert [each.wait(ENDS_S) for each in both] == [0, 0]
    assert diary.read_text() == "ran\n"


def test_why_a_job_cannot_be_made_is_written_down(batch: StartBatch, root: Path, home: Path) -> None:
    job = request(root, "true", cwd="/nowhere")
    assert batch("run-job", job).wait(ENDS_S) == 1
    error = json.loads((root / "requests" / f"{job}.taken").read_text())["error"]
    assert error["kind"] == "InvalidArgument"
    assert "/nowhere" in error["text"]
    assert not (home / "jobs" / job).exists()


def test_a_home_that_is_not_safe_is_said(batch: StartBatch, root: Path) -> None:
    (root / "nodes").mkdir()
    (root / "nodes").chmod(0o777)
    job = request(root, "true")
    assert batch("run-job", job).wait(ENDS_S) == 1
    error = json.loads((root / "requests" / f"{job}.taken").read_text())["error"]
    assert error["kind"] == "StoreUnusable"


def test_sigterm_is_passed_on(batch: StartBatch, root: Path, home: Path, gate: Gate) -> None:
    job = request(root, f"trap 'echo bye; exit 3' TERM; {gate.pause}; while :; do sleep 0.05; done")
    script = batch("run-job", job)
    gate.wait_until_reached()
    gate.open()
    script.send_signal(signal.SIGTERM)
    assert script.wait(ENDS_S) == 3
    assert b"bye" in output(home, job)
    assert outcome(home, job)["cause"] == "killed"


def test_its_job_ends_with_it(batch: StartBatch, root: Path, home: Path, gate: Gate) -> None:
    """kill -9: nothing runs on in an allocation that the engine takes for free."""
    job = request(root, f"{gate.pause}; sleep 1000")
    script = batch("run-job", job)
    gate.wait_until_reached()
    gate.open()
    script.kill()
    assert outcome(home, job)["cause"] == "killed"
    wait_until(lambda: not processes.marked(job))


def test_a_shim_whose_guard_was_killed_is_waited_for(
    batch: StartBatch, root: Path, home: Path, gate: Gate
) -> None:
    job = request(root, f"{gate.pause}; exit 5")
    script = batch("run-job", job)
    gate.wait_until_reached()
    run = record(home, job, jobdir.RUN)
    guard = processes.stat_of(run["shim_pid"])[processes.PARENT]
    assert processes.stat_of(guard)[processes.PARENT] == script.pid
    os.kill(guard, signal.SIGKILL)
    wait_until(lambda: processes.stat_of(run["shim_pid"])[processes.PARENT] == script.pid)
    gate.open()
    assert script.wait(ENDS_S) == 5


# -- a held allocation -------------------------------------------------------------------------------------


class Starter:
    """What an agent of the node has."""

    def __init__(self, home: Path) -> None:
        context = open_context({**os.environ, "BGJOB_HOME": str(home)}, many=True)
        self._context = in_hold(context, NUMBER)

    def start(self, command: str) -> Job:
        return start_once(self._context, command, id=str(uuid4()))

    def close(self) -> None:
        self._context.spawner.close()


@pytest.fixture
def starter(home: Path) -> Iterator[Callable[[], Starter]]:
    with contextlib.ExitStack() as opened:

        def new() -> Starter:
            wait_until((home / HOLDS / f"{NUMBER}.socket").is_socket, "the allocation is held")
            return opened.enter_context(contextlib.closing(Starter(home)))

        yield new


def test_jobs_of_a_held_allocation_are_below_its_holder(
    batch: StartBatch, home: Path, starter: Callable[[], Starter], gate: Gate
) -> None:
    """Also when whoever started them has left."""
    holder = batch("hold", "300")
    first = starter()
    job = first.start(f"echo $SLURM_JOB_ID $CUDA_VISIBLE_DEVICES; {gate.pause}; exit 4")
    gate.wait_until_reached()
    first.close()
    assert isinstance(job.state, Running)
    assert job.run
    assert job.run.shim_pid in processes.descendants(holder.pid)
    wait_until(lambda: processes.stat_of(_guard(job))[processes.PARENT] == holder.pid, "its zygote has ended")
    gate.open()
    assert outcome(home, job.id)["exit_code"] == 4
    assert output(home, job.id) == b"17 3\n"


def _guard(job: Job) -> int:
    assert job.run
    return processes.stat_of(job.run.shim_pid)[processes.PARENT]


def test_it_is_given_back_when_no_job_has_run_for_a_while(
    batch: StartBatch, starter: Callable[[], Starter], gate: Gate
) -> None:
    """A job that runs for longer than that holds it."""
    holder = batch("hold", "10")
    agent = starter()
    agent.start(gate.pause)
    gate.wait_until_reached()
    with pytest.raises(subprocess.TimeoutExpired):
        holder.wait(11.5)
    gate.open()
    assert holder.wait(ENDS_S) == 0
    with pytest.raises(CannotStart, match="Nothing was run"):
        agent.start("true")


def test_sigterm_ends_its_jobs_and_none_is_started_any_more(
    batch: StartBatch, home: Path, starter: Callable[[], Starter], gate: Gate
) -> None:
    holder = batch("hold", "300")
    agent = starter()
    job = agent.start(f"trap '' TERM; {gate.pause}; sleep 1000; sleep 1000")
    gate.wait_until_reached()
    gate.open()
    holder.send_signal(signal.SIGTERM)
    wait_until(lambda: not _can_start(agent), "nothing is started any more")
    assert holder.wait(ENDS_S) == 0
    assert outcome(home, job.id)["cause"] == "killed"
    assert not list((home / HOLDS).iterdir())


def _can_start(agent: Starter) -> bool:
    try:
        agent.start("true")
    except CannotStart:
        return False
    return True


def test_its_jobs_end_with_a_killed_holder(
    batch: StartBatch, home: Path, starter: Callable[[], Starter], gate: Gate
) -> None:
    holder = batch("hold", "300")
    job = starter().start(f"{gate.pause}; sleep 1000")
    gate.wait_until_reached()
    gate.open()
    holder.kill()
    assert outcome(home, job.id)["cause"] == "killed"
    wait_until(lambda: not processes.marked(job.id))


# -- other users of the node ---------------------------------------------------------------------------

CONNECT = """
connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
connection.connect(sys.argv[1])
told("connected")
sys.stdin.read()
"""
LISTEN = """
listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listening.bind(sys.argv[1])
listening.listen()
told("listening")
sys.stdin.read()
"""


@pytest.fixture
def open_home() -> Iterator[Path]:
    """A home whose modes keep nobody out."""
    home = Path(tempfile.mkdtemp(prefix="bgjob-open-"))
    home.chmod(0o777)
    yield home
    shutil.rmtree(home)


@needs_root
def test_a_holder_gives_another_user_no_zygote(open_home: Path) -> None:
    hold = Hold(str(open_home), NUMBER, {})
    (open_home / HOLDS).chmod(0o777)
    path = open_home / HOLDS / NUMBER
    path.with_suffix(".socket").chmod(0o666)
    with hold.listener, OtherUser(CONNECT, path.with_suffix(".socket")) as other:
        assert other.line() == "connected"
        assert list(hold.accepted()) == []
        with connected(str(path)):
            assert len(list(hold.accepted())) == 1


@needs_root
def test_a_starter_asks_no_other_user_who_is_in_the_place_of_the_holder(open_home: Path) -> None:
    (open_home / HOLDS).mkdir()
    os.chown(open_home / HOLDS, NOBODY, NOBODY)
    path = open_home / HOLDS / NUMBER
    with OtherUser(LISTEN, path.with_suffix(".socket")) as other:
        assert other.line() == "listening"
        with pytest.raises(HoldEnds):
            connected(str(path))

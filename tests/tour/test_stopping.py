"""Stopping: a kill leaves nothing behind, a timeout needs nobody, and the words for it are right."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bgjob.api import Jobs, JobStatus, kill
from bgjob.link import sweep
from bgjob.system import processes
from tests.support.gate import Gate
from tests.support.process_table import seen
from tests.support.server import Server, StartServer, ToolError
from tests.support.shims import kill_both
from tests.support.waiting import PATIENCE_S, wait_until

Ended = Callable[[str], JobStatus]

# a nohup'ed one, a double-forked daemon, one without our mark in its environment, one that ignores TERM,
# a stopped one, and one that adopts orphans itself
STUBBORN_TREE = """
nohup setsid sleep 1001 >/dev/null 2>&1 &
(setsid sh -c '(setsid sleep 1002 &) ; exit' &)
env -i setsid sleep 1003 &
(trap '' TERM; while :; do sleep 1004; done) &
sh -c 'kill -STOP $$; sleep 1005' &
python3 -c 'import os,time,ctypes
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
ctypes.CDLL(None).prctl(36,1); os.system("setsid sleep 1006 &"); open(os.environ["READY"], "w"); time.sleep(1007)' &
"""


def test_a_kill_leaves_nothing_behind(server: Server, gate: Gate, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    job_id = server.execute(f"{STUBBORN_TREE}\n{gate.reach}; wait", env={"READY": str(ready)})
    gate.wait_until_reached()
    ready.read_bytes()
    shim = shim_of(server, job_id)
    wait_until(lambda: is_grown(shim), "all that it starts is there, and nothing else")
    tree = processes.alive(processes.descendants(shim))
    answer = server.call("kill_job", job_id=job_id, grace_s=0.3)
    assert (answer["status"], answer["processes"]) == ("killed", len(tree))
    assert processes.alive(tree) == []
    assert server.status(job_id)["status"] == "killed"


def is_grown(shim: int) -> bool:
    """The shell and its loop, five that sleep, one that has stopped itself, and Python."""
    tree = [now for pid in processes.descendants(shim) if (now := seen(pid)) and now.state != "Z"]
    sleepers = [now for now in tree if now.name == "sleep"]
    return (len(tree), len(sleepers), sum(now.state == "T" for now in tree)) == (9, 5, 1)


def shim_of(server: Server, job_id: str) -> int:
    pid = server.status(job_id)["pid"]
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_other_calls_are_answered_while_a_kill_waits(server: Server, gate: Gate) -> None:
    job_id = server.execute(f"trap '' TERM; {gate.reach}; while :; do sleep 1; done")
    gate.wait_until_reached()
    killing = threading.Thread(
        target=server.call, args=("kill_job",), kwargs={"job_id": job_id, "grace_s": 3}
    )
    killing.start()
    answered = 0
    while killing.is_alive():
        server.status(job_id)
        answered += 1
    assert answered > 10  # a server that is held up answers one or two
    assert server.status(job_id)["signal"] == "SIGKILL"


def test_killed_by_us_is_killed_even_with_exit_code_0(server: Server, gate: Gate) -> None:
    job_id = server.execute(f"trap 'echo bye; exit 0' TERM; {gate.reach}; while :; do sleep 0.01; done")
    gate.wait_until_reached()
    assert server.call("kill_job", job_id=job_id)["status"] == "killed"
    status = server.status(job_id)
    assert (status["status"], status["cause"], status["exit_code"]) == ("killed", "killed", 0)
    assert server.output(job_id)["stdout"] == "bye\n"


def test_the_first_signal_is_the_callers(server: Server, gate: Gate) -> None:
    job_id = server.execute(
        f"trap 'echo interrupted; exit 9' INT; {gate.reach}; while :; do sleep 0.01; done"
    )
    gate.wait_until_reached()
    server.call("kill_job", job_id=job_id, signal="INT")
    assert server.output(job_id)["stdout"] == "interrupted\n"


@pytest.mark.parametrize("signal", ["NOPE", "", "99", "TERM; rm"])
def test_a_signal_that_is_none_is_a_clear_error(server: Server, signal: str) -> None:
    job_id = server.execute("sleep 1000")
    with pytest.raises(ToolError, match="is not a signal"):
        server.call("kill_job", job_id=job_id, signal=signal)
    assert server.status(job_id)["status"] == "running"


def test_a_kill_of_an_ended_job_and_of_none_are_answers(server: Server, ended: Ended) -> None:
    job_id = server.execute("true")
    ended(job_id)
    assert server.call("kill_job", job_id=job_id)["status"] == "already_terminated"
    assert server.call("kill_job", job_id="no such job")["status"] == "not_found"
    assert server.status(job_id)["status"] == "completed"


@pytest.mark.parametrize("signal", ["HUP", "USR1", "sigint"])
def test_one_signal_and_no_more(server: Server, gate: Gate, signal: str) -> None:
    """A reload, an interrupt: the job gets the signal and goes on, or ends as it wants to."""
    word = signal.upper().removeprefix("SIG")
    job_id = server.execute(
        f"trap 'echo got {word}' {word}; trap 'exit 3' QUIT; {gate.reach}; while :; do sleep 0.01; done"
    )
    gate.wait_until_reached()
    answer = server.call("kill_job", job_id=job_id, signal=signal, only_signal=True)
    assert (answer["status"], answer["signal"]) == ("signaled", f"SIG{word}")
    assert answer["processes"] >= 1
    server.wait_until_printed(job_id, f"got {word}")
    assert server.status(job_id)["status"] == "running"
    server.call("kill_job", job_id=job_id, signal="QUIT", only_signal=True)
    server.call("wait_for_job", job_ids=[job_id], timeout_s=30)
    status = server.status(job_id)
    assert (status["status"], status["cause"], status["exit_code"]) == ("failed", "exited", 3)


def test_a_job_that_a_mere_signal_ends_was_not_killed_by_us(server: Server, gate: Gate) -> None:
    job_id = server.execute(f"{gate.reach}; exec sleep 1000")
    gate.wait_until_reached()
    server.call("kill_job", job_id=job_id, signal="INT", only_signal=True)
    server.call("wait_for_job", job_ids=[job_id], timeout_s=30)
    status = server.status(job_id)
    assert (status["status"], status["cause"], status["signal"]) == ("killed", "signaled", "SIGINT")
    for signal in ("INT", "9"):
        answer = server.call("kill_job", job_id=job_id, signal=signal, only_signal=True)
        assert (answer["status"], answer["processes"]) == ("already_terminated", 0)


def test_a_timeout_stops_the_job(server: Server, ended: Ended) -> None:
    job_id = server.execute("sleep 1000", timeout_s=0.2)
    ended(job_id)
    status = server.status(job_id)
    assert (status["status"], status["cause"]) == ("killed", "timed_out")
    assert 0.2 <= status["duration_s"] < PATIENCE_S


def test_the_timeout_of_the_settings_needs_no_server(start_server: StartServer, ended: Ended) -> None:
    server = start_server(MCP_BG_JOB_TIMEOUT="0.5")
    job_id = server.execute("sleep 1000")
    server.kill()
    assert ended(job_id).job.state.__class__.__name__ == "TimedOut"


def test_a_second_kill_may_shorten_the_grace(server: Server, gate: Gate) -> None:
    job_id = server.execute(f"trap '' TERM; {gate.reach}; while :; do sleep 1; done")
    gate.wait_until_reached()
    patient = threading.Thread(
        target=server.call, args=("kill_job",), kwargs={"job_id": job_id, "grace_s": 50}
    )
    patient.start()
    began = time.monotonic()
    server.call("kill_job", job_id=job_id, grace_s=0)
    patient.join()
    assert time.monotonic() - began < 50


def test_a_job_that_forks_as_fast_as_it_can_is_gone(server: Server, gate: Gate) -> None:
    source = (
        "import os,time\nfor n in range(600):\n  if os.fork() == 0:\n    os.setsid(); time.sleep(60); os._exit(0)\n"
        '  if n == 200: open(os.environ["READY"], "w").close()\n'
    )
    job_id = server.execute(f"exec python3 -c '{source}'", env={"READY": str(gate._reached)})
    gate.wait_until_reached()
    answer = server.call("kill_job", job_id=job_id, grace_s=0)
    assert answer["status"] in ("killed", "already_terminated")
    assert processes.marked(job_id) == []


def test_a_kill_whose_supervisors_are_killed_meanwhile_says_that_the_job_was_killed(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = jobs.execute("exec sleep 1000").id

    def ask_in_vain(*_: object) -> None:
        """As if the shim had ended the job, and shim and guard had been killed before they recorded that."""
        kill_both(jobs, job_id)
        sweep.kill(job_id)

    monkeypatch.setattr(kill, "_ask_to_kill", ask_in_vain)
    killed = jobs.kill(job_id)
    assert (killed.status, killed.processes) == ("killed", 0)

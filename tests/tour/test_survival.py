"""Survival: a job, its stdin, its output and its exit code outlive the server, its client and its kin."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bgjob.api import Jobs, JobStatus, Typed
from bgjob.core.job import Exited, Killed, Lost, TimedOut
from bgjob.link import sweep
from bgjob.link.control import ShimConnection
from bgjob.store.records import read_state
from bgjob.system import processes
from tests.support.gate import Gate
from tests.support.process_table import wait_until_gone
from tests.support.server import Server, StartServer
from tests.support.shims import guard_pid, kill_both, shim_pid, stopped
from tests.support.waiting import PATIENCE_S

Ended = Callable[[str], JobStatus]


def test_a_job_outlives_the_server_that_started_it(
    start_server: StartServer, gate: Gate, ended: Ended
) -> None:
    """kill -9 on the server loses nothing: not the job, not its output, not its exit code."""
    server = start_server()
    job_id = server.execute(f"echo before; {gate.pause}; echo after; exit 7")
    gate.wait_until_reached()  # provably running, provably not finished
    server.kill()
    gate.open()
    state = ended(job_id).job.state
    assert isinstance(state, Exited)
    assert state.code == 7
    assert start_server().output(job_id)["stdout"] == "before\nafter\n"


def test_a_kill_of_the_servers_whole_group_and_tree_does_not_reach_the_job(
    start_server: StartServer, gate: Gate, ended: Ended
) -> None:
    server = start_server()
    job_id = server.execute(f"{gate.pause}; exit 7")
    gate.wait_until_reached()
    below = processes.descendants(server.pid)
    os.killpg(os.getpgid(server.pid), signal.SIGKILL)
    for pid in below:
        processes.send(pid, signal.SIGKILL)
    gate.open()
    assert getattr(ended(job_id).job.state, "code", None) == 7


def test_stdin_outlives_the_server(start_server: StartServer) -> None:
    first = start_server()
    job_id = first.execute("cat")
    first.call("interact_with_job", job_id=job_id, input="to the first")
    first.kill()
    second = start_server()
    second.wait_until_printed(job_id, "to the first")
    second.talk(job_id, "to the second", "to the second\n")


def test_two_servers_steer_the_same_jobs(start_server: StartServer, ended: Ended) -> None:
    one, other = start_server(), start_server()
    job_id = one.execute("cat; exit 5")
    assert other.call("list_jobs")["jobs"][0]["job_id"] == job_id
    other.talk(job_id, "hi", "hi\n")
    one.call("interact_with_job", job_id=job_id, input="", close_stdin=True)
    ended(job_id)
    assert other.status(job_id)["exit_code"] == 5


def test_the_server_ends_when_its_client_goes_and_the_jobs_run_on(
    start_server: StartServer, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By itself: its client would wait long before it kills it."""
    monkeypatch.setattr("mcp.client.stdio.PROCESS_TERMINATION_TIMEOUT", 40.0)
    server = start_server()
    job_id = server.execute(f"trap '' TERM; {gate.reach}; while :; do sleep 1; done")
    gate.wait_until_reached()
    pid = server.pid
    gone = os.pidfd_open(pid)
    began = time.monotonic()
    server.close()
    assert wait_for_exit(gone, 20.0)
    assert time.monotonic() - began < 20.0
    assert start_server().status(job_id)["status"] == "running"


def wait_for_exit(pidfd: int, patience_s: float) -> bool:
    import select

    try:
        return bool(select.select([pidfd], [], [], patience_s)[0])
    finally:
        os.close(pidfd)


def test_the_zygote_may_die_at_any_time(server: Server, gate: Gate, ended: Ended) -> None:
    before = server.execute(f"{gate.pause}; exit 4")
    gate.wait_until_reached()
    for pid in zygotes_of(server):
        processes.send(pid, signal.SIGKILL)
    after = server.execute("exit 5")
    gate.open()
    assert [getattr(ended(job_id).job.state, "code", None) for job_id in (before, after)] == [4, 5]


def zygotes_of(server: Server) -> list[int]:
    """The zygote and its spare: they have the server's environment, and a name of their own."""
    home = next(
        entry
        for entry in Path(f"/proc/{server.pid}/environ").read_bytes().split(b"\0")
        if entry.startswith(b"BGJOB_HOME=")
    )
    found = [
        pid
        for pid in (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
        if is_zygote(pid, home)
    ]
    assert found
    return found


def is_zygote(pid: int, home: bytes) -> bool:
    try:
        name = Path(f"/proc/{pid}/comm").read_text().strip()
        return name == "bgjob-zygote" and home in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


@pytest.mark.parametrize("pty", [False, True], ids=["pipes", "terminal"])
@pytest.mark.parametrize("killed", ["shim", "guard"])
def test_a_job_outlives_its_shim_and_its_guard(
    jobs: Jobs, gate: Gate, ended: Ended, killed: str, pty: bool
) -> None:
    """Either of them: the job goes on, its stdin or terminal too; not a byte and no exit code is lost."""
    job_id = jobs.execute(f"echo before; {gate.pause}; read line; echo got $line; exit 7", pty=pty).id
    gate.wait_until_reached()
    pid = shim_pid(jobs, job_id) if killed == "shim" else guard_pid(jobs, job_id)
    processes.send(pid, signal.SIGKILL)
    gate.open()
    wait_until_gone(pid)
    answer = jobs.interact(job_id, Typed("hello"), wait_s=20).output.stdout
    printed = "hello\ngot hello\n" if pty else "got hello\n"
    assert answer
    assert printed.startswith(answer)  # the echo is there before the job's own words
    state = ended(job_id).job.state
    assert isinstance(state, Exited)
    assert state.code == 7
    assert jobs.output(job_id).stdout == "before\n" + printed


def test_a_job_that_ends_while_nobody_is_there_to_see_it_keeps_its_exit_code(
    jobs: Jobs, gate: Gate, ended: Ended
) -> None:
    """The shim is killed with the job's end on its desk: the guard finds the dead child and its last words."""
    job_id = jobs.execute(f"{gate.pause}; echo last words; exit 7").id
    gate.wait_until_reached()
    look = jobs.status(job_id).job
    child = os.pidfd_open(look.run.pid if look.run else 0)
    with stopped(jobs, job_id) as shim:
        gate.open()
        assert wait_for_exit(child, 20)
        processes.send(shim, signal.SIGKILL)
        wait_until_gone(shim)
    state = ended(job_id).job.state
    assert (getattr(state, "code", None), jobs.output(job_id).stdout) == (7, "last words\n")


def test_a_kill_that_was_begun_is_finished(jobs: Jobs, gate: Gate, ended: Ended) -> None:
    """The shim is killed within the grace: the job still ends, and as killed."""
    job_id = jobs.execute(
        f"trap 'echo asked; {gate.reach}' TERM; {gate.reach}; while :; do sleep 0.05; done"
    ).id
    gate.wait_until_reached()
    with ShimConnection(jobs.store.control_path(job_id)) as line:
        line.send(10, op="kill", signal=signal.SIGTERM, grace_s=1)
        gate.wait_until_reached()
        processes.send(shim_pid(jobs, job_id), signal.SIGKILL)
        assert isinstance(ended(job_id).job.state, Killed)
    jobs.kill(job_id)  # answers when no process is left
    assert processes.marked(job_id) == []


def test_a_timeout_outlives_the_shim(jobs: Jobs, ended: Ended) -> None:
    job_id = jobs.execute("sleep 1000", timeout_s=1).id
    processes.send(shim_pid(jobs, job_id), signal.SIGKILL)
    state = ended(job_id).job.state
    assert isinstance(state, TimedOut)
    assert 1 <= state.duration_s < PATIENCE_S


def test_shim_and_guard_killed_together_lose_the_job_and_what_is_left_is_swept(
    jobs: Jobs, gate: Gate
) -> None:
    """What we do not know we do not guess; and the job's processes can still be ended."""
    job_id = jobs.execute(f"trap '' PIPE HUP; setsid sleep 1000 & {gate.reach}; sleep 1000; exit 0").id
    gate.wait_until_reached()
    kill_both(jobs, job_id)
    look = jobs.status(job_id)
    assert look.job.state == Lost("its shim and its guard were killed while it ran")
    assert look.descendants >= 2
    answer = jobs.kill(job_id)
    assert (answer.status, answer.processes >= 2) == ("killed", True)
    assert processes.marked(job_id) == []


def test_a_starter_killed_before_the_shim_is_there_leaves_a_lost_job(home: Path, jobs: Jobs) -> None:
    """Never `running` for ever: nobody holds the lock."""
    script = (
        "import os, signal\nfrom bgjob.api import open_jobs\n"
        "jobs = open_jobs(os.environ)\n"
        "jobs.context.spawner.start = lambda handover: os.kill(os.getpid(), signal.SIGKILL)\n"
        "jobs.execute('true')"
    )
    run_python(script, home)
    job = jobs.list().jobs[0]
    assert isinstance(job.state, Lost)
    assert "never started" in job.state.reason


def run_python(script: str, home: Path) -> None:
    import subprocess
    import sys

    subprocess.run([sys.executable, "-c", script], env={**os.environ, "BGJOB_HOME": str(home)}, check=False)


def test_a_reboot_is_told_apart(jobs: Jobs, gate: Gate, home: Path) -> None:
    import json

    job_id = jobs.execute(f"{gate.reach}; sleep 1000").id
    gate.wait_until_reached()
    kill_both(jobs, job_id)
    record = home / "jobs" / job_id / "run.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "boot_id": "another"}))
    assert jobs.status(job_id).job.state == Lost("the machine was restarted while it ran")
    sweep.kill(job_id)


@pytest.mark.parametrize("long", ["x" * 150])
def test_a_home_deeper_than_a_sockets_path_works(
    tmp_path: Path, long: str, start_server: StartServer
) -> None:
    server = start_server(BGJOB_HOME=str(tmp_path / long / "home"))
    job_id = server.execute("cat")
    server.talk(job_id, "deep", "deep\n")
    server.call("kill_job", job_id=job_id, grace_s=0)


def test_three_hundred_short_jobs_only_go_forward(jobs: Jobs) -> None:
    """Whoever looks while jobs start and end sees running, then the end: never lost, never back, never torn."""
    import threading

    ids: list[str] = []
    wrong: list[str] = []
    done = threading.Event()

    def look() -> None:
        seen_ended: set[str] = set()
        while not done.is_set():
            for job_id in ids[:]:
                state = read_state(jobs.directory(job_id))
                if isinstance(state, Lost) or (job_id in seen_ended and not isinstance(state, Exited)):
                    wrong.append(f"{job_id}: {state}")
                if isinstance(state, Exited):
                    seen_ended.add(job_id)

    watcher = threading.Thread(target=look)
    watcher.start()
    ids.extend(jobs.execute(f"exit {number % 100}").id for number in range(300))
    done.set()
    watcher.join()
    assert wrong == []


@pytest.mark.parametrize("way", ["zygote", "fresh"])
def test_an_upgrade_under_a_running_job_does_not_hurt_it(
    home: Path, tmp_path: Path, gate: Gate, jobs: Jobs, way: str
) -> None:
    """The package it was started from is gone: its shim has all it needs, and the new version steers it."""
    import shutil
    import subprocess
    import sys

    import bgjob

    old = tmp_path / "old"
    shutil.copytree(Path(bgjob.__file__).parent, old / "bgjob")
    script = (
        "import os, sys\nfrom bgjob.api import open_jobs\njobs = open_jobs(os.environ, many=sys.argv[2] == 'zygote')\n"
        "print(jobs.execute(sys.argv[1]).id)"
    )
    command = f"echo before; {gate.pause}; cat; echo after; exit 7"
    environment = {
        **os.environ,
        "BGJOB_HOME": str(home),
        "PYTHONPATH": str(old),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    started = subprocess.run(
        [sys.executable, "-c", script, command, way],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    job_id = started.stdout.strip()
    gate.wait_until_reached()
    shutil.rmtree(old)
    gate.open()
    assert jobs.interact(job_id, Typed("to the old shim"), wait_s=20).output.stdout == "to the old shim\n"
    jobs.interact(job_id, Typed(close_stdin=True))
    for _ in jobs.follow(job_id, wait=True):
        pass
    state = jobs.status(job_id).job.state
    assert isinstance(state, Exited)
    assert state.code == 7
    assert jobs.output(job_id).stdout == "before\nto the old shim\nafter\n"

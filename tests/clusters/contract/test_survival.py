"""Survival: a job, its stdin, its output and its exit code outlive whoever started it, and the line to it."""

import os
import subprocess
import sys

from bgjob.api import Jobs, Typed
from bgjob.core.job import Exited
from tests.clusters.target import Target
from tests.support.gate import Gate
from tests.support.waiting import PATIENCE_S

STARTS_AND_DIES = """
import os, signal, sys
from bgjob.api import open_jobs
jobs = open_jobs(os.environ)
job = jobs.execute(sys.argv[1], **({"target": sys.argv[2]} if sys.argv[2] else {}))
print(job.id, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def started_by_another(target: Target, command: str) -> str:
    """By a process that was killed -9 right afterwards."""
    done = subprocess.run(
        [sys.executable, "-c", STARTS_AND_DIES, command, target.name or ""],
        env=target.environ,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == -9
    job_id = done.stdout.strip()
    target.wait_until_started(job_id)
    return job_id


def test_a_job_outlives_the_process_that_started_it(target: Target, gate: Gate) -> None:
    job_id = started_by_another(target, f"echo before; {gate.pause}; read line; echo got $line; exit 7")
    gate.wait_until_reached()
    target.wait_until_started(job_id)
    gate.open()
    target.wait_until_printed(job_id, "before")
    said = target.jobs.interact(job_id, Typed("hello"), wait_s=PATIENCE_S)
    assert said.output.stdout == "got hello\n"
    state = target.state(job_id)
    assert isinstance(state, Exited)
    assert (state.code, target.jobs.output(job_id).stdout) == (7, "before\ngot hello\n")


def test_a_job_that_ends_while_nobody_looks_is_known(target: Target, gate: Gate) -> None:
    job_id = started_by_another(target, f"{gate.pause}; echo last words; exit 9")
    gate.wait_until_reached()
    gate.open()
    later = target.open()
    (waited,) = later.wait_for([job_id], timeout_s=PATIENCE_S)
    assert getattr(waited.status.job.state, "code", None) == 9
    assert later.output(job_id).stdout == "last words\n"


def test_two_processes_steer_the_same_job(target: Target) -> None:
    job_id, other = target.start("cat; exit 5"), target.open()
    assert other.interact(job_id, Typed("one"), wait_s=PATIENCE_S).output.stdout == "one\n"
    assert target.jobs.interact(job_id, Typed("two"), wait_s=PATIENCE_S).output.stdout == "two\n"
    other.interact(job_id, Typed(close_stdin=True), wait_s=PATIENCE_S)
    assert getattr(target.state(job_id), "code", None) == 5


def test_a_job_goes_on_when_the_line_is_cut(target: Target, gate: Gate) -> None:
    job_id = target.start(f"echo before; {gate.pause}; echo after; read line; echo got $line; exit 7")
    gate.wait_until_reached()
    target.wait_until_printed(job_id, "before")
    target.cut_line()
    gate.open()
    target.wait_until_printed(job_id, "after")
    said = target.jobs.interact(job_id, Typed("hello"), wait_s=PATIENCE_S)
    assert said.output.stdout == "got hello\n"
    assert getattr(target.state(job_id), "code", None) == 7
    assert target.printed(job_id) == b"before\nafter\ngot hello\n"


def test_a_wait_goes_on_when_the_line_is_cut(target: Target, gate: Gate) -> None:
    from concurrent.futures import ThreadPoolExecutor

    job_id = target.start(f"{gate.pause}; echo ready; cat")
    gate.wait_until_reached()
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(target.wait, job_id, pattern="ready")
        target.cut_line()
        gate.open()
        waited = waiting.result()
    assert waited.came
    assert waited.came.condition == "pattern"


def test_an_ended_job_is_read_when_its_target_is_away(target: Target) -> None:
    """Status, exit code, output and search: all that was printed is here."""
    job_id = target.start("seq 1 1000; echo error >&2; exit 7", name="over")
    assert target.printed(job_id)
    target.ended(job_id)
    with target.unreachable():
        later = target.open()
        assert known_of(later, job_id) == (7, "1000\n", "error\n", 1)
    assert known_of(target.jobs, job_id) == (7, "1000\n", "error\n", 1)


def known_of(jobs: Jobs, job_id: str) -> tuple[int, str, str, int]:
    state = jobs.status(job_id).job.state
    assert isinstance(state, Exited)
    tail = jobs.tail(job_id, 1)
    return state.code, tail.stdout, tail.stderr, jobs.search("^1000$", job_ids=[job_id]).count


def test_nothing_of_the_environment_is_kept_on_disk(target: Target) -> None:
    """What a caller passes may be a token: once the job has started, no file here or there has it."""
    secret = f"token-{os.urandom(8).hex()}"
    job_id = target.start("echo ${#TOKEN}; cat", env={"TOKEN": secret})
    target.wait_until_printed(job_id, str(len(secret)))
    for home in (target.home, target.far_home):
        files = [path for path in home.rglob("*") if path.is_file()]
        assert [str(path) for path in files if secret.encode() in path.read_bytes()] == []

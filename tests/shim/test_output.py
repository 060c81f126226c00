"""A job's output and its end: the outcome comes after the last byte, and does not wait until the pipe is closed."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from bgjob.api import Jobs, JobStatus
from bgjob.core.job import Exited, Running
from bgjob.home import jobdir
from bgjob.home.log_format import STDERR, STDOUT
from bgjob.home.log_writer import LogWriter
from bgjob.output.log_reader import LogReader
from bgjob.shim.loop import Loop
from bgjob.shim.pump import Pump
from tests.support.gate import Gate
from tests.support.process_table import wait_until_gone
from tests.support.shims import Caller, ask, directory, shim_pid

Ended = Callable[[str], JobStatus]


@pytest.mark.parametrize("size", [1, 4096, 65_536, 500_000])
def test_all_bytes_of_a_job_that_ends_at_once_are_there_when_its_outcome_is(jobs: Jobs, size: int) -> None:
    for _ in range(10):
        job_id = jobs.execute(f"head -c {size} /dev/zero; head -c {size} /dev/zero >&2").id
        ask_for_the_end(jobs, job_id)
        log = LogReader(str(directory(jobs, job_id) / "log"))
        outcome = jobdir.read_record(str(directory(jobs, job_id) / "outcome.json"))
        assert outcome is not None
        assert outcome["output_bytes"] == log.end == 2 * size
        assert log.kept(STDOUT, 0, log.end) == log.kept(STDERR, 0, log.end) == size


def ask_for_the_end(jobs: Jobs, job_id: str) -> None:
    from bgjob.link.control import NoShim

    try:
        assert ask(jobs, job_id, op="wait")["outcome"] is not None
    except NoShim:  # it has ended already
        wait_until_gone(shim_pid(jobs, job_id))


def test_an_outcome_is_never_there_before_the_last_byte(jobs: Jobs) -> None:
    """A reader that sees the outcome of any of many short jobs sees all that the job printed."""
    running: list[str] = []
    checked, wrong = set[str](), list[str]()
    done = threading.Event()

    def watch() -> None:
        while not done.is_set() or checked != set(running):
            for job_id in set(running) - checked:
                record = jobdir.read_record(str(directory(jobs, job_id) / "outcome.json"))
                if record is not None:
                    end = LogReader(str(directory(jobs, job_id) / "log")).end
                    checked.add(job_id)
                    if not end == record["output_bytes"] == 3000:
                        wrong.append(f"{job_id}: {end} of {record}")

    watcher = threading.Thread(target=watch)
    watcher.start()
    command = "head -c 2000 /dev/zero; head -c 1000 /dev/zero >&2"
    running.extend(jobs.execute(command).id for _ in range(120))
    done.set()
    watcher.join(30)
    assert wrong == []
    assert len(checked) == 120


def test_a_grandchild_that_keeps_the_pipe_open_holds_up_nothing_and_is_still_heard(
    jobs: Jobs, gate: Gate
) -> None:
    job_id = jobs.execute(f"({gate.pause}; echo late; echo worse >&2) & echo early; exit 3").id
    gate.wait_until_reached()
    outcome = ask(jobs, job_id, op="wait")["outcome"]  # answered while the grandchild is held at the gate
    assert (outcome["exit_code"], outcome["output_bytes"]) == (3, 6)
    shim = shim_pid(jobs, job_id)
    gate.open()
    wait_until_gone(shim)
    output = jobs.output(job_id)
    assert (output.stdout, output.stderr) == ("early\nlate\n", "worse\n")
    state = jobs.status(job_id).job.state
    assert isinstance(state, Exited)
    assert state.output_bytes == 6  # how long the log was when the job ended
    assert jobs.status(job_id).output_bytes == 6 + 5 + 6


def test_the_shim_stays_for_a_silent_grandchild_and_goes_with_it(jobs: Jobs, gate: Gate) -> None:
    job_id = jobs.execute(f"({gate.pause}) > /dev/null 2>&1 < /dev/null & exit 0").id
    gate.wait_until_reached()
    ask(jobs, job_id, op="wait")
    shim = shim_pid(jobs, job_id)
    assert jobs.has_shim(job_id)
    gate.open()
    wait_until_gone(shim)
    assert not jobs.has_shim(job_id)
    assert not (directory(jobs, job_id) / "ctl").exists()


def test_the_last_bytes_of_a_grandchild_are_there_when_the_shim_is_gone(jobs: Jobs, gate: Gate) -> None:
    job_id = jobs.execute(f"({gate.pause}; head -c 300000 /dev/zero | tr '\\0' x) & exit 0").id
    gate.wait_until_reached()
    shim = shim_pid(jobs, job_id)
    gate.open()
    wait_until_gone(shim)
    assert jobs.status(job_id).output_bytes == 300_000


def test_a_job_that_closes_its_output_runs_on(jobs: Jobs, gate: Gate, ended: Ended) -> None:
    job_id = jobs.execute(f"echo last words; exec >&- 2>&-; {gate.pause}; exit 4").id
    gate.wait_until_reached()
    ask(jobs, job_id, op="wait", beyond=10)
    assert isinstance(jobs.status(job_id).job.state, Running)
    gate.open()
    assert getattr(ended(job_id).job.state, "code", None) == 4
    assert jobs.output(job_id).stdout == "last words\n"


def test_what_the_job_writes_through_dev_stderr_truncates_nothing(jobs: Jobs, ended: Ended) -> None:
    job_id = jobs.execute("echo one >&2; echo two > /dev/stderr; echo three > /dev/stderr; echo four >&2").id
    ended(job_id)
    assert jobs.output(job_id).stderr == "one\ntwo\nthree\nfour\n"


def test_streams_that_alternate_keep_their_order(jobs: Jobs, ended: Ended) -> None:
    """Slower than a wake-up, so the order is exact: each line is seen in the log before the next is printed."""
    job_id = jobs.execute("while read line; do echo out $line; read line; echo err $line >&2; done").id
    end = 0
    for number in range(20):
        ask(jobs, job_id, f"{number}\n".encode(), op="stdin", length=len(f"{number}\n"), wait_s=5)
        end = ask(jobs, job_id, op="wait", beyond=end)["end"]
    chunks = b"".join(chunk.data for chunk in jobs.follow(job_id, wait=False))
    assert chunks.decode().splitlines() == [f"{('out', 'err')[number % 2]} {number}" for number in range(20)]


# -- wait -----------------------------------------------------------------------------------------------


def test_a_wait_for_output_is_answered_when_there_is_more_and_not_before(jobs: Jobs, gate: Gate) -> None:
    job_id = jobs.execute(f"printf 12345; {gate.pause}; printf 6; {gate.reach}; cat").id
    gate.wait_until_reached()
    assert ask(jobs, job_id, op="wait", beyond=4)["end"] == 5
    caller = Caller(jobs, job_id)
    caller.request(op="wait", beyond=5)
    assert ask(jobs, job_id, op="status")["ok"]  # it has been heard, and has not been answered
    assert not caller.has_answer()
    gate.open()
    answer = caller.hear()
    assert (answer["end"], answer["outcome"]) == (6, None)
    caller.close()
    gate.wait_until_reached()


def test_a_wait_for_quiet_is_answered_after_the_last_of_a_burst(jobs: Jobs) -> None:
    job_id = jobs.execute("read _; for i in 1 2 3 4 5 6; do echo $i; sleep 0.02; done; cat").id
    ask(jobs, job_id, b"\n", op="stdin", length=1, wait_s=5)
    assert ask(jobs, job_id, op="wait", beyond=0, quiet_s=3)["end"] == 12


def test_a_wait_for_the_end_hears_of_nothing_else(jobs: Jobs, gate: Gate) -> None:
    job_id = jobs.execute(f"echo noise; {gate.pause}; exit 9").id
    gate.wait_until_reached()
    caller = Caller(jobs, job_id)
    caller.request(op="wait")
    ask(jobs, job_id, op="wait", beyond=0)
    assert not caller.has_answer()
    gate.open()
    assert caller.hear()["outcome"]["exit_code"] == 9
    caller.close()


def test_a_wait_beyond_the_end_of_the_log_is_answered_at_the_end_of_the_job(jobs: Jobs, gate: Gate) -> None:
    job_id = jobs.execute(f"echo some; {gate.pause}; exit 0").id
    gate.wait_until_reached()
    caller = Caller(jobs, job_id)
    caller.request(op="wait", beyond=1_000_000, quiet_s=100)
    ask(jobs, job_id, op="status")
    gate.open()
    answer = caller.hear()
    assert (answer["end"], answer["outcome"]["exit_code"]) == (5, 0)
    caller.close()


def test_a_wait_after_the_end_is_answered_at_once(jobs: Jobs, gate: Gate) -> None:
    job_id = jobs.execute(f"({gate.pause}) & exit 6").id  # a process of the job keeps the shim
    gate.wait_until_reached()
    assert ask(jobs, job_id, op="wait")["outcome"]["exit_code"] == 6
    assert ask(jobs, job_id, op="wait", beyond=10**9, quiet_s=1000)["outcome"]["exit_code"] == 6
    gate.open()


def test_what_is_drained_on_the_way_is_told_to_those_who_wait(tmp_path: Path) -> None:
    """Before input goes in, the pipes are drained; clients that wait for output are told of those bytes too."""
    source, sink = os.pipe()
    os.set_blocking(source, False)
    told: list[int] = []
    log = LogWriter(str(tmp_path), 1 << 20)
    pump = Pump(Loop(), log, lambda: told.append(log.end))
    pump.add_pipe(source, STDOUT)
    os.write(sink, b"printed")
    pump.drain()
    os.close(source)
    os.close(sink)
    log._close()
    assert log.end == 7
    assert told == [7]
    assert pump.last_output_at > 0

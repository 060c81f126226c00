"""Stopping: a kill leaves nothing behind wherever the job runs, and a time limit needs no caller."""

import signal
import time

from bgjob.core.job import Killed, TimedOut
from tests.clusters.held import Held
from tests.clusters.target import Target
from tests.support.gate import Gate

# One that ignores TERM, one in a session of its own, one that was forked twice, one that is stopped.
STUBBORN = """
trap '' TERM
(trap '' TERM; while :; do sleep 1; done) &
setsid sh -c 'trap "" TERM; while :; do sleep 1; done' &
(setsid sh -c '(setsid env -i sleep 1000 &); exit' &)
sh -c 'kill -STOP $$; sleep 1000' &
"""


def test_a_kill_leaves_nothing_behind(target: Target, gate: Gate, held: Held) -> None:
    job_id = target.start(f"{held.take}; {STUBBORN} {gate.reach}; while :; do sleep 1; done", shell="sh")
    gate.wait_until_reached()
    assert held.is_held()
    answer = target.jobs.kill(job_id, grace_s=0.3)
    assert not held.is_held()
    assert answer.status == "killed"
    assert answer.processes >= 5
    status = target.jobs.status(job_id)
    assert isinstance(status.job.state, Killed)
    assert (status.descendants, status.left_running) == (0, 0)


def test_a_job_that_obeys_ends_by_the_first_signal(target: Target, gate: Gate) -> None:
    job_id = target.start(f"trap 'echo bye; exit 3' TERM; {gate.reach}; while :; do sleep 0.1; done")
    gate.wait_until_reached()
    began = time.monotonic()
    assert target.jobs.kill(job_id, grace_s=300).status == "killed"
    assert time.monotonic() - began < 150
    state = target.jobs.status(job_id).job.state
    assert isinstance(state, Killed)
    assert (state.code, target.jobs.output(job_id).stdout) == (3, "bye\n")


def test_what_an_ended_job_has_left_is_killed(target: Target, gate: Gate, held: Held) -> None:
    job_id = target.start(f"{held.take}; (setsid sh -c '{gate.reach}; exec sleep 1000' &); exit 2")
    gate.wait_until_reached()
    target.ended(job_id)
    assert held.is_held()
    assert target.jobs.status(job_id).left_running == 1
    assert target.jobs.kill(job_id).status == "killed"
    assert not held.is_held()
    assert getattr(target.state(job_id), "code", None) == 2


def test_a_kill_of_an_ended_job_says_so(target: Target) -> None:
    job_id = target.start("exit 4")
    target.ended(job_id)
    answer = target.jobs.kill(job_id)
    assert (answer.status, answer.processes) == ("already_terminated", 0)
    assert getattr(target.state(job_id), "code", None) == 4


def test_one_signal_and_no_more(target: Target, gate: Gate) -> None:
    job_id = target.start(
        f"trap 'echo reloaded' HUP; {gate.reach}; while :; do read line; done", shell="bash"
    )
    gate.wait_until_reached()
    answer = target.jobs.kill(job_id, signal="SIGHUP", only_signal=True)
    assert (answer.status, answer.signal) == ("signaled", signal.SIGHUP)
    target.wait_until_printed(job_id, "reloaded")
    assert target.jobs.status(job_id).descendants >= 1


def test_a_time_limit_needs_no_caller(target: Target, held: Held) -> None:
    job_id = target.start(f"{held.take}; echo begun; sleep 1000", timeout_s=1)
    state = target.state(job_id)
    assert isinstance(state, TimedOut)
    assert state.duration_s >= 1
    assert target.jobs.output(job_id).stdout == "begun\n"

"""Restart policy: a job that is run again when it ends, each run with its own output and outcome."""

import itertools
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from bgjob.api import Jobs, JobStatus, Typed, pause
from bgjob.core.errors import InvalidArgument, NotSteerable
from bgjob.core.job import Exited, Killed, OverLimit, TimedOut
from bgjob.home import event_log
from bgjob.store import event_reader
from tests.support.counted import counting, runs
from tests.support.gate import Gate
from tests.support.process_table import wait_until_gone
from tests.support.server import Server
from tests.support.shims import guard_pid, shim_pid
from tests.support.waiting import wait_until

Ended = Callable[[str], JobStatus]


def again(policy: str, most: int = 5, backoff_s: float = 0.1) -> dict[str, object]:
    return {"restart": policy, "max_restarts": most, "backoff_s": backoff_s}


def test_a_job_that_fails_is_run_again_until_it_succeeds(jobs: Jobs, ended: Ended, tmp_path: Path) -> None:
    job_id = jobs.execute(counting(tmp_path, "[ $n = 3 ] || exit $n"), options=again("on-failure")).id
    look = ended(job_id)
    assert isinstance(look.job.state, Exited)
    assert look.job.state.code == 0
    assert runs(tmp_path) == 3
    assert look.history is not None
    assert [run.code for run in look.history.runs] == [1, 2]
    assert look.history.restarts == 2
    assert not look.history.pauses


def test_each_run_has_its_own_output_under_one_job(jobs: Jobs, ended: Ended, tmp_path: Path) -> None:
    job_id = jobs.execute(counting(tmp_path, "[ $n = 3 ] || exit 1"), options=again("on-failure")).id
    history = ended(job_id).history
    assert history is not None
    cursors = [f"{run.log_from}-{run.log_to}" for run in history.runs]
    assert [jobs.output(job_id, cursor).stdout for cursor in cursors] == ["run 1\n", "run 2\n"]
    assert jobs.output(job_id).stdout == "run 1\nrun 2\nrun 3\n"


def test_a_success_is_run_again_only_by_always(jobs: Jobs, ended: Ended, tmp_path: Path) -> None:
    once = jobs.execute("echo once", options=again("on-failure")).id
    thrice = jobs.execute(counting(tmp_path, "exit 0"), options=again("always", most=2)).id
    assert jobs.output(ended(once).job.id).stdout == "once\n"
    assert jobs.output(ended(thrice).job.id).stdout == "run 1\nrun 2\nrun 3\n"


def test_after_the_last_restart_the_job_has_ended_as_its_last_run_has(
    jobs: Jobs, ended: Ended, tmp_path: Path
) -> None:
    job_id = jobs.execute(counting(tmp_path, "exit $n"), options=again("on-failure", most=2)).id
    state = ended(job_id).job.state
    assert isinstance(state, Exited)
    assert state.code == 3


def test_without_a_policy_a_job_runs_once(jobs: Jobs, ended: Ended, tmp_path: Path) -> None:
    look = ended(jobs.execute(counting(tmp_path, "exit 1")).id)
    assert (runs(tmp_path), look.history) == (1, None)


def test_the_pauses_grow(jobs: Jobs, ended: Ended, tmp_path: Path) -> None:
    command = f"date +%s%N >> {tmp_path}/runs; exit 1"
    ended(jobs.execute(command, options=again("on-failure", most=3, backoff_s=0.2)).id)
    moments = [int(line) / 1e9 for line in (tmp_path / "runs").read_text().split()]
    pauses = [later - earlier for earlier, later in itertools.pairwise(moments)]
    assert all(pause >= least for pause, least in zip(pauses, (0.2, 0.4, 0.8), strict=True))


def test_a_paused_job_says_so_and_ends_by_kill_job(jobs: Jobs, server: Server, tmp_path: Path) -> None:
    job_id = jobs.execute(counting(tmp_path, "exit 4"), options=again("always", backoff_s=1000)).id
    wait_until(lambda: server.status(job_id).get("phase") == "restarting")
    status = server.status(job_id)
    assert (status["status"], status["restarts"], status["runs"][0]["exit_code"]) == ("running", 1, 4)
    assert jobs.kill(job_id).status == "killed"
    state = jobs.status(job_id).job.state
    assert isinstance(state, Killed)
    assert runs(tmp_path) == 1


def test_every_answer_about_a_crash_loop_says_that_it_is_one(server: Server) -> None:
    started = server.call(
        "execute_command",
        command="echo up; exit 4",
        options=again("on-failure", backoff_s=1000),
        until={"pattern": "never"},
        wait_s=0.3,
    )
    job_id = started["job_id"]
    wait_until(lambda: server.status(job_id).get("phase") == "restarting")
    (waited,) = server.call("wait_for_job", job_ids=[job_id], timeout_s=0)["jobs"]
    for told in (waited, server.output(job_id), server.call("tail_job_output", job_id=job_id)):
        said = [told[key] for key in ("status", "phase", "restarts", "last_exit_code")]
        assert said == ["running", "restarting", 1, 4]


def test_a_job_killed_while_it_runs_is_not_run_again(jobs: Jobs, gate: Gate, tmp_path: Path) -> None:
    job_id = jobs.execute(counting(tmp_path, gate.pause), options=again("always")).id
    gate.wait_until_reached()
    assert jobs.kill(job_id).status == "killed"
    assert isinstance(jobs.status(job_id).job.state, Killed)
    assert runs(tmp_path) == 1


def test_the_time_out_is_for_all_runs_together(jobs: Jobs, ended: Ended, tmp_path: Path) -> None:
    job_id = jobs.execute(
        counting(tmp_path, "exit 1"), timeout_s=3.0, options=again("always", most=1000, backoff_s=0.3)
    ).id
    look = ended(job_id)
    assert isinstance(look.job.state, TimedOut)
    assert 1 <= runs(tmp_path) < 5


def test_what_a_run_leaves_behind_is_gone_before_the_next(jobs: Jobs, ended: Ended, tmp_path: Path) -> None:
    left = f"setsid sleep 1000 & echo $! >> {tmp_path}/left"
    job_id = jobs.execute(
        counting(tmp_path, f"{left}; [ $n = 1 ] && exit 1; kill -0 $(head -1 {tmp_path}/left); echo $?"),
        options=again("on-failure"),
    ).id
    wait_until(lambda: runs(tmp_path) == 2)
    wait_until(lambda: jobs.output(job_id).stdout.endswith("1\n"))
    jobs.kill(job_id)


@pytest.mark.parametrize("pty", [False, True])
def test_each_run_has_a_stdin_of_its_own(jobs: Jobs, ended: Ended, tmp_path: Path, pty: bool) -> None:
    command = counting(tmp_path, 'read line; echo "got $line"; [ $n = 2 ]')
    job_id = jobs.execute(command, options=again("on-failure"), pty=pty).id
    for number in (1, 2):
        wait_until(lambda number=number: f"run {number}" in jobs.output(job_id).stdout)  # type: ignore[misc]
        jobs.interact(job_id, Typed(f"line {number}"))
    assert ended(job_id).history is not None
    printed = jobs.output(job_id).stdout
    assert "got line 1" in printed
    assert "got line 2" in printed


@pytest.mark.parametrize("whom", ["shim", "guard"])
def test_a_kill_of_shim_or_guard_during_a_pause_loses_nothing(
    jobs: Jobs, ended: Ended, tmp_path: Path, whom: str
) -> None:
    command = counting(tmp_path, "[ $n = 3 ] || exit 9")
    job_id = jobs.execute(command, options=again("on-failure", backoff_s=1.0)).id
    wait_until(lambda: bool((history := jobs.status(job_id).history) and history.pauses))
    victim = (shim_pid if whom == "shim" else guard_pid)(jobs, job_id)
    os.kill(victim, signal.SIGKILL)
    wait_until_gone(victim)
    look = ended(job_id)
    assert isinstance(look.job.state, Exited)
    assert look.job.state.code == 0
    assert jobs.output(job_id).stdout == "run 1\nrun 2\nrun 3\n"
    assert look.history is not None
    assert [run.code for run in look.history.runs] == [9, 9]


@pytest.mark.parametrize("pty", [False, True])
def test_a_kill_of_the_shim_during_a_later_run_loses_nothing(
    jobs: Jobs, ended: Ended, gate: Gate, tmp_path: Path, pty: bool
) -> None:
    command = counting(tmp_path, f"[ $n = 1 ] && exit 9; [ $n = 2 ] && {{ {gate.pause}; exit 8; }}; exit 0")
    job_id = jobs.execute(command, options=again("on-failure"), pty=pty, env={"KEPT": "yes"}).id
    gate.wait_until_reached()
    victim = shim_pid(jobs, job_id)
    os.kill(victim, signal.SIGKILL)
    wait_until_gone(victim)
    gate.open()
    look = ended(job_id)
    assert look.history is not None
    assert [run.code for run in look.history.runs] == [9, 8]
    assert jobs.output(job_id).stdout.split() == ["run", "1", "run", "2", "run", "3"]


def test_silence_is_counted_from_each_runs_own_begin(jobs: Jobs, ended: Ended, tmp_path: Path) -> None:
    """Neither does a pause count, nor is a later run allowed to be silent."""
    command = counting(tmp_path, "[ $n = 1 ] && exit 1; exec sleep 1000")
    job_id = jobs.execute(command, options={**again("on-failure", 1, backoff_s=2.0), "silence_s": 1.5}).id
    look = ended(job_id)
    assert isinstance(look.job.state, OverLimit)
    assert look.job.state.limit == "silence"
    assert runs(tmp_path) == 2
    assert look.job.state.duration_s > 2.0 + 1.5


def test_what_cannot_be_started_again_has_ended_as_its_last_run_has(
    jobs: Jobs, ended: Ended, tmp_path: Path
) -> None:
    (place := tmp_path / "place").mkdir()
    job_id = jobs.execute(f"rmdir {place}; exit 5", cwd=str(place), options=again("always")).id
    state = ended(job_id).job.state
    assert isinstance(state, Exited)
    assert state.code == 5


def test_a_restart_is_an_event(jobs: Jobs, ended: Ended, tmp_path: Path) -> None:
    job_id = jobs.execute(counting(tmp_path, "[ $n = 2 ] || exit 6"), options=again("on-failure")).id
    ended(job_id)
    events = [event for event, _ in event_reader.read(jobs.events_directory, event_log.Cursor(0, 0))]
    (restart,) = [event for event in events if event["kind"] == "restarting"]
    assert (restart["job_id"], restart["exit_code"], restart["restart"]) == (job_id, 6, 1)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"restart": "sometimes"}, "on-failure"),
        ({"restart": "always", "max_restarts": -1}, "max_restarts=-1"),
        ({"restart": "always", "backoff_s": 0}, "backoff_s=0"),
        ({"restarts": "always"}, "'restarts'"),
        ({"max_restarts": 3}, "max_restarts does nothing without restart"),
        ({"restart": "x", "backoff_s": 0, "memory": "1"}, r"(?s)restart='x'.*backoff_s=0.*memory='1'"),
    ],
)
def test_bad_terms_are_errors_that_say_what_is_accepted(
    jobs: Jobs, options: dict[str, object], word: str
) -> None:
    with pytest.raises(InvalidArgument, match=word):
        jobs.execute("true", options=options)


def test_a_job_between_two_runs_refuses_at_once_to_be_paused(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = jobs.execute(counting(tmp_path, "exit 1"), options=again("always", backoff_s=1000)).id
    wait_until(
        lambda: bool((history := jobs.status(job_id).history) and history.pauses), "it is between runs"
    )
    monkeypatch.setattr(pause, "TRIES", 1)  # a second try would not come to a refusal by its history
    with pytest.raises(NotSteerable, match="between two runs, and there is nothing to pause"):
        pause.pause_job(jobs.context, job_id)
    assert jobs.kill(job_id).status == "killed"

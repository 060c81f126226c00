"""Restart policy: a job that fails is run again where it runs, and each run is kept."""

from pathlib import Path

from bgjob.core.job import Exited, Killed
from tests.clusters.target import Target
from tests.support.counted import counting, runs
from tests.support.waiting import wait_until


def again(policy: str, most: int = 5, backoff_s: float = 0.1) -> dict[str, object]:
    return {"restart": policy, "max_restarts": most, "backoff_s": backoff_s}


def test_a_job_that_fails_is_run_again_until_it_succeeds(target: Target, tmp_path: Path) -> None:
    job_id = target.start(counting(tmp_path, "[ $n = 3 ] || exit 9"), options=again("on-failure"))
    status = target.ended(job_id)
    assert isinstance(status.job.state, Exited)
    assert (status.job.state.code, runs(tmp_path)) == (0, 3)
    assert target.jobs.output(job_id).stdout == "run 1\nrun 2\nrun 3\n"
    history = target.jobs.status(job_id).history
    assert history
    assert [run.code for run in history.runs] == [9, 9]
    cursors = [f"{run.log_from}-{run.log_to}" for run in history.runs]
    assert [target.jobs.output(job_id, cursor).stdout for cursor in cursors] == ["run 1\n", "run 2\n"]


def test_a_job_between_two_runs_says_so_and_is_killed(target: Target, tmp_path: Path) -> None:
    job_id = target.start(counting(tmp_path, "exit 4"), options=again("always", backoff_s=1000))

    def pauses() -> bool:
        history = target.jobs.status(job_id).history
        return history is not None and history.pauses

    wait_until(pauses, "it is between two runs")
    assert target.jobs.kill(job_id).status == "killed"
    assert isinstance(target.jobs.status(job_id).job.state, Killed)
    assert runs(tmp_path) == 1

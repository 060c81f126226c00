"""Running a job again, in its place or beside it, and pausing it: wherever it runs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bgjob.api.pause import pause_job, resume_job
from bgjob.api.rerun import rerun_job, restart_job
from bgjob.core.errors import BgjobError, TargetUnreachable
from bgjob.core.job import Exited, Killed, Running
from bgjob.home.jobdir import SPEC
from tests.clusters.engine import Engine
from tests.clusters.held import Held
from tests.clusters.target import NAME, Target, write_targets
from tests.support.counted import counting, runs
from tests.support.gate import Gate
from tests.support.waiting import wait_until

BY = {"client": "test"}
WHY_REFUSED = {
    **dict.fromkeys(("local", "ssh"), "is not a directory that exists"),
    "slurm": "Requested node configuration is not available",
    "ray": "it asks for 999 CPU",
}
STOPPED = ("stopped", "traced")


def test_a_job_is_run_again_as_it_was(target: Target, tmp_path: Path) -> None:
    command = counting(tmp_path, "pwd; [ $n = 2 ] && exit 5")
    first = target.start(command, name="twice", shell="sh", cwd=str(tmp_path))
    target.ended(first)
    again = rerun_job(target.jobs.context, first, by=BY).job
    state = target.state(again.id)
    assert isinstance(state, Exited)
    assert (state.code, runs(tmp_path)) == (5, 2)
    assert (again.spec.name, again.spec.of, again.spec.target) == ("twice", first, target.name)
    assert target.jobs.output(again.id).stdout == f"run 2\n{tmp_path}\n"


def test_a_job_of_which_nothing_was_asked_is_run_again(target: Target) -> None:
    """Neither shell nor directory: its machine has chosen both, and chooses again."""
    first = target.start("echo $BASH_VERSION; pwd")
    target.ended(first)
    again = rerun_job(target.jobs.context, first, by=BY).job
    target.ended(again.id)
    assert target.printed(again.id) == target.printed(first) != b"\n"


def test_a_running_job_is_restarted_and_nothing_of_the_first_is_left(
    target: Target, tmp_path: Path, gate: Gate, held: Held
) -> None:
    first = target.start(counting(tmp_path, f"[ $n = 2 ] && exit 0; {held.take}; {gate.reach}; sleep 1000"))
    gate.wait_until_reached()
    again = restart_job(target.jobs.context, first, by=BY, grace_s=1).job
    assert not held.is_held()
    assert isinstance(target.state(first), Killed)
    assert isinstance(target.state(again.id), Exited)
    assert runs(tmp_path) == 2


def test_if_running_restart_takes_the_place_of_a_job_of_this_name(
    target: Target, gate: Gate, held: Held
) -> None:
    first = target.start(f"{held.take}; {gate.reach}; sleep 1000", name="dev")
    gate.wait_until_reached()
    second = target.jobs.run("exit 6", name="dev", if_running="restart", **target.where)
    assert not second.reused
    assert not held.is_held()
    assert isinstance(target.state(first), Killed)
    assert getattr(target.state(second.job.id), "code", None) == 6


@pytest.mark.parametrize("how", ["restart", "if_running"])
def test_a_target_that_cannot_be_asked_keeps_the_job_that_runs(
    target: Target, gate: Gate, held: Held, how: str
) -> None:
    if target.name is None:
        pytest.skip("this machine can always be asked")
    job_id = target.start(f"{held.take}; {gate.reach}; sleep 1000", name="kept")
    gate.wait_until_reached()
    with target.unreachable(), pytest.raises(TargetUnreachable):
        begin_again(target, how, job_id)
    assert held.is_held()
    assert isinstance(target.jobs.status(job_id).job.state, Running)


@pytest.mark.parametrize("how", ["restart", "if_running"])
def test_a_start_that_would_be_refused_keeps_the_job_that_runs(
    engine: Engine, new_target: Callable[..., Target], tmp_path: Path, gate: Gate, held: Held, how: str
) -> None:
    """A directory that is gone; of a cluster, whose node is not known before the job is there, a lack of resources."""
    target, place = new_target(engine), tmp_path / "place"
    place.mkdir()
    job_id = target.start(f"{held.take}; {gate.reach}; sleep 1000", name="kept", cwd=str(place))
    gate.wait_until_reached()
    asked: dict[str, Any] = {"cwd": str(place)}
    if engine.kind in ("slurm", "ray"):
        asked = {"options": {"cpus": 999}}
        note_resources(target, job_id, cpus=999)
    else:
        place.rmdir()
    with pytest.raises(BgjobError, match=WHY_REFUSED[engine.kind]):
        begin_again(target, how, job_id, **asked)
    assert held.is_held()
    assert isinstance(target.jobs.status(job_id).job.state, Running)


def note_resources(target: Target, job_id: str, **resources: float) -> None:
    """As if the job had been started on a larger cluster: a restart asks for the resources in its spec."""
    path = Path(target.jobs.store.directory(job_id), SPEC)
    path.write_text(json.dumps({**json.loads(path.read_text()), "resources": resources}))


def begin_again(target: Target, how: str, job_id: str, **asked: Any) -> None:
    if how == "restart":
        restart_job(target.jobs.context, job_id, by=BY, grace_s=1)
    else:
        target.jobs.run("true", name="kept", if_running="restart", **target.where, **asked)


def test_a_target_that_is_named_no_more_keeps_the_job_that_runs(
    engine: Engine, new_target: Callable[..., Target], gate: Gate, held: Held
) -> None:
    target = new_target(engine)
    if target.name is None:
        pytest.skip("this machine has no name")
    job_id = target.start(f"{held.take}; {gate.reach}; sleep 1000")
    gate.wait_until_reached()
    write_targets(target.directory / "config", {"other": {"kind": "ssh", "host": "other"}})
    with pytest.raises(BgjobError, match=NAME):
        restart_job(target.open().context, job_id, by=BY, grace_s=1)
    assert held.is_held()


def test_a_paused_job_stands_still_until_it_is_resumed(target: Target, gate: Gate) -> None:
    job_id = target.start(f"{gate.reach}; while :; do echo tick; sleep 0.05; done")
    gate.wait_until_reached()
    target.wait_until_printed(job_id, "tick")
    assert pause_job(target.jobs.context, job_id).status == "paused"
    wait_until(lambda: set(states(target, job_id)) <= set(STOPPED), "all of it is stopped")
    assert isinstance(target.jobs.status(job_id).job.state, Running)
    cursor = target.jobs.output(job_id).cursor
    assert resume_job(target.jobs.context, job_id).status == "resumed"
    assert target.wait(job_id, pattern="tick", since=cursor).met
    assert target.jobs.kill(job_id, grace_s=0).status == "killed"


def states(target: Target, job_id: str) -> list[str]:
    """Of its processes; not empty."""
    activity = target.jobs.status(job_id, detail=True).activity
    return [process.state for process in (activity.tree or ()) if process.state] if activity else ["unknown"]


def test_a_job_that_is_over_can_neither_be_paused_nor_resumed(target: Target) -> None:
    job_id = target.start("true")
    target.ended(job_id)
    assert pause_job(target.jobs.context, job_id).status == "already_terminated"
    assert resume_job(target.jobs.context, job_id).status == "already_terminated"

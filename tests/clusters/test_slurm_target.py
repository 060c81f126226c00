"""Jobs of a Slurm target, as callers see them: who ended them, what is refused, and what a controller's end does."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from anyio.from_thread import BlockingPortal

from bgjob.api.context import open_context
from bgjob.api.targets import target_statuses
from bgjob.cli.outcome import end_line
from bgjob.core.errors import ImpossibleRequest
from bgjob.core.job import Killed, NeverStarted, TimedOut, reason
from tests.clusters.engine import Slurm
from tests.clusters.slurm_cluster import SlurmCluster
from tests.clusters.target import Target
from tests.support.gate import Gate
from tests.support.server import Server
from tests.support.waiting import wait_until

NewTarget = Callable[..., Target]
SACCT = "#!/bin/sh\necho 'CANCELLED by 1007'\n"


@pytest.fixture
def target(new_target: NewTarget, slurm: Slurm) -> Target:
    return new_target(slurm)


def engine_id(target: Target, job_id: str) -> str:
    remote = target.jobs.status(job_id).job.remote
    assert remote
    return str(remote.engine_id)


@pytest.mark.parametrize("keeps_accounts", [False, True])
def test_a_job_that_others_cancel_says_so_in_every_answer(
    new_target: NewTarget,
    slurm: Slurm,
    gate: Gate,
    portal: BlockingPortal,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    keeps_accounts: bool,
) -> None:
    """Only accounting knows who cancelled a job; without it here, sacct is a program of the test."""
    why = "Slurm: cancelled, and not by bgjob"
    if keeps_accounts:
        (tmp_path / "sacct").write_text(SACCT)
        (tmp_path / "sacct").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        why = "Slurm: cancelled by uid 1007"
    target = new_target(slurm)
    job_id = target.start(f"{gate.pause}; sleep 1000")
    gate.wait_until_reached()
    gate.open()
    slurm.cluster.run("scancel", engine_id(target, job_id))
    status = target.ended(job_id)
    assert isinstance(status.job.state, Killed)
    assert reason(status.job.state) == why
    assert end_line(status.job).endswith(f": {why}")
    with contextlib.closing(Server(portal, target.home, target.settings, "auto")) as server:
        assert server.status(job_id)["reason"] == why
        (waited,) = server.call("wait_for_job", job_ids=[job_id])["jobs"]
        assert waited["reason"] == why


def test_a_job_that_we_cancel_was_killed_whoever_sends_the_signal(target: Target, gate: Gate) -> None:
    job_id = target.start(f"{gate.pause}; sleep 1000")
    gate.wait_until_reached()
    gate.open()
    assert target.jobs.kill(job_id).status == "killed"
    state = target.state(job_id)
    assert isinstance(state, Killed)
    assert state.reason is None


def test_a_time_limit_of_slurm_is_told_from_one_of_ours(target: Target, slurm: Slurm, gate: Gate) -> None:
    job_id = target.start(f"{gate.pause}; sleep 1000", options={"time_limit": "1h"})
    gate.wait_until_reached()
    gate.open()
    slurm.cluster.run("scontrol", "update", f"jobid={engine_id(target, job_id)}", "EndTime=now+1")
    state = target.state(job_id)
    assert isinstance(state, TimedOut)
    assert state.reason == "Slurm: it reached its time limit"
    ours = target.state(target.start("sleep 1000", timeout_s=1))
    assert isinstance(ours, TimedOut)
    assert ours.reason is None


@pytest.fixture
def restarted(slurm: Slurm) -> Iterator[SlurmCluster]:
    """Its controller has just been killed and started, and has not heard of its nodes."""
    cluster = slurm.cluster
    for node in cluster.nodes:
        cluster.stop_daemon(node)
    try:
        cluster.kill_daemon("slurmctld")
        cluster.start_controller()
        wait_until(lambda: "unk" in node_states(cluster), "the controller answers", every_s=0.1)
        yield cluster
    finally:
        for node in cluster.nodes:
            cluster.continue_daemon(node)
        cluster.wait_until_ready()


def node_states(cluster: SlurmCluster) -> str:
    with contextlib.suppress(AssertionError):
        return cluster.run("sinfo", "--noheader", "--format=%t")
    return ""


def test_a_job_that_meets_a_controller_at_its_start_is_not_refused(
    target: Target, restarted: SlurmCluster
) -> None:
    """Slurm says that its nodes cannot run it, as it knows of none."""
    job_id = target.begin("exit 3").id
    for node in restarted.nodes:
        restarted.continue_daemon(node)
    assert getattr(target.state(job_id), "code", None) == 3


def test_what_waits_for_ever_is_refused_at_once(new_target: NewTarget, slurm: Slurm) -> None:
    """Slurm itself accepts it."""
    target = new_target(slurm, keys={"partition": "short"})
    with pytest.raises(ImpossibleRequest, match=r"(PartitionConfig|PartitionTimeLimit): it"):
        target.begin("true", options={"time_limit": "2h"})
    assert target.jobs.list().jobs == []
    assert " short " not in slurm.cluster.run("squeue", "--noheader", "--format= %P ")


def test_a_job_whose_partition_shrinks_while_it_waits_ends(
    new_target: NewTarget, slurm: Slurm, gate: Gate
) -> None:
    cluster = slurm.cluster
    target = new_target(slurm, keys={"partition": "changing"})
    first = target.start(gate.pause, options=slurm.whole)
    gate.wait_until_reached()
    second = target.begin("true", options={**slurm.whole, "time_limit": "2h"}).id
    cluster.run("scontrol", "update", "PartitionName=changing", "MaxTime=1")
    try:
        state = target.state(second)
    finally:
        cluster.run("scontrol", "update", "PartitionName=changing", "MaxTime=INFINITE")
        gate.open()
    assert isinstance(state, NeverStarted)
    assert state.reason == "Slurm: PartitionTimeLimit: its time limit is above that of its partition"
    target.ended(first)


@pytest.mark.parametrize(
    ("partition", "why"), [("main", None), ("nowhere", "Invalid partition name specified")]
)
def test_a_check_tries_what_the_entry_says(
    new_target: NewTarget, slurm: Slurm, partition: str, why: str | None
) -> None:
    target = new_target(slurm, keys={"partition": partition})
    (told,) = target_statuses(open_context(target.environ, many=False), check=True)
    assert told.reachable is (why is None)
    if why:
        assert f"Slurm refuses any job with partition '{partition}': " in str(told.why)
        assert why in str(told.why)


def test_a_check_finds_a_home_that_cannot_be_written(new_target: NewTarget, slurm: Slurm) -> None:
    target = new_target(slurm)
    context = open_context(target.environ, many=False)
    assert [each.reachable for each in target_statuses(context, check=True)] == [True]
    (target.far_home / "requests").rmdir()
    (target.far_home / "requests").touch()
    (told,) = target_statuses(context, check=True)
    assert told.reachable is False
    assert f"its directory {target.far_home} cannot be used" in str(told.why)

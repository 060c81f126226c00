"""Jobs in a real Slurm, with both ways in which Slurm knows what is a job's: all of it ends, and nothing is lost."""

import asyncio
import os
import signal
import stat
from pathlib import Path
from uuid import uuid4

import pytest

from bgjob.core.engine import Resources
from bgjob.core.errors import ImpossibleRequest, TargetUnreachable
from bgjob.core.slurm import final_outcome
from bgjob.remote.shared_root import REQUESTS
from bgjob.system import cgroup, processes
from tests.clusters.slurm_cluster import CPUS, SlurmCluster
from tests.clusters.slurm_jobs import NODE_FAILS_S, SlurmJobs, alive_with
from tests.support.gate import Gate
from tests.support.waiting import wait_until

ALL_CPUS = Resources(cpus=CPUS)
TERM_PROOF = "trap '' TERM; "
# Sleeps of this length are this file's alone.
SLEEP = f"97{os.getpid()}"


@pytest.fixture
def cluster(slurm_cluster: SlurmCluster) -> SlurmCluster:
    return slurm_cluster


@pytest.fixture
def jobs(slurm_jobs: SlurmJobs) -> SlurmJobs:
    return slurm_jobs


@pytest.fixture
def by_group(cluster: SlurmCluster) -> None:
    if cluster.track != "cgroup":
        pytest.skip("only with control groups")


@pytest.fixture
def once(cluster: SlurmCluster) -> None:
    """For what takes long, and has nothing to do with how Slurm tracks processes."""
    if cluster.track != "linuxproc":
        pytest.skip("the same however Slurm tracks processes")


# -- a job, from its submission to its end ----------------------------------------------------------


def test_a_job_runs_on_a_node_and_its_exit_code_is_slurms_too(jobs: SlurmJobs) -> None:
    job = jobs.submit("echo out; echo err >&2; exit 7")
    assert jobs.wait_for_end(job).exit_code == 7
    assert jobs.outcome(job)["exit_code"] == 7
    assert jobs.output(job) == b"out\nerr\n"


def test_the_whole_of_a_job_is_below_slurms_own_process(jobs: SlurmJobs, gate: Gate) -> None:
    job = jobs.submit(gate.pause)
    gate.wait_until_reached()
    run = jobs.run_record(job)
    guard = processes.stat_of(run["shim_pid"])[processes.PARENT]
    top = processes.stat_of(guard)[processes.PARENT]
    step = processes.stat_of(top)[processes.PARENT]
    assert processes.stat_of(run["pid"])[processes.PARENT] == run["shim_pid"]
    assert processes.name_of(guard) == processes.GUARD
    assert processes.name_of(step) == "slurmstepd"
    gate.open()
    jobs.wait_for_end(job)


def test_a_signal_that_ends_a_job_is_told_as_a_shell_does(jobs: SlurmJobs) -> None:
    job = jobs.submit("kill -USR1 $$")
    assert jobs.wait_for_end(job).exit_code == 128 + signal.SIGUSR1
    assert jobs.outcome(job)["signal"] == signal.SIGUSR1


def test_a_job_has_its_environment_and_slurms(jobs: SlurmJobs) -> None:
    job = jobs.submit("echo $SECRET $SLURM_JOB_ID $BGJOB_HOME", env={"SECRET": "s3cret"})
    state = jobs.wait_for_end(job)
    assert jobs.output(job).decode() == f"s3cret {state.engine_id}\n"


def test_its_request_is_closed_to_others_and_gone_once_the_job_is_made(jobs: SlurmJobs, gate: Gate) -> None:
    first = jobs.submit(gate.pause, ALL_CPUS, env={"SECRET": "s3cret"})
    gate.wait_until_reached()
    waits = jobs.submit("true", Resources(cpus=CPUS, node=jobs.state(first).node), env={"SECRET": "s3cret"})
    request = jobs.root / REQUESTS / waits
    assert stat.S_IMODE(request.stat().st_mode) == 0o600
    assert "s3cret" in request.read_text()
    gate.open()
    jobs.wait_for_end(waits)
    left = [path.read_text() for path in (jobs.root / REQUESTS).iterdir()]
    assert left
    assert not any("s3cret" in text for text in left)
    jobs.do(jobs.slurm.forget(waits))
    assert not [path for path in (jobs.root / REQUESTS).iterdir() if path.name.startswith(waits)]


def test_what_cannot_be_made_on_the_node_is_said(jobs: SlurmJobs) -> None:
    job = jobs.submit("true", cwd="/nowhere")
    assert jobs.wait_for_end(job).exit_code == 1
    taken = jobs.do(jobs.slurm.taken(job))
    assert taken.error
    assert taken.error["kind"] == "InvalidArgument"
    assert "/nowhere" in taken.error["text"]
    assert "/nowhere" in taken.log


# -- the queue ----------------------------------------------------------------------------------------


def test_a_job_that_waits_says_why_and_runs_in_its_turn(jobs: SlurmJobs, gate: Gate) -> None:
    first = jobs.submit(gate.pause, ALL_CPUS)
    gate.wait_until_reached()
    running = jobs.state(first)
    assert running.phase == "active"
    second = jobs.submit("exit 4", Resources(cpus=CPUS, node=running.node))
    wait_until(lambda: jobs.state(second).reason is not None, every_s=0.1)
    waiting = jobs.state(second)
    assert (waiting.phase, waiting.node) == ("queued", None)
    assert waiting.reason in ("Resources", "Priority")
    gate.open()
    assert jobs.wait_for_end(second).exit_code == 4


@pytest.mark.parametrize(
    ("resources", "why"),
    [
        (Resources(cpus=99), "Requested node configuration is not available"),
        (Resources(gpus=99), "Requested node configuration is not available"),
        (Resources(memory_bytes=1 << 50), "Requested node configuration is not available"),
        (Resources(labels={"kind": "golden"}), "Invalid feature specification"),
        (Resources(labels={"a": "a100", "b": "slow"}), "Requested node configuration is not available"),
        (Resources(partition="nowhere"), "Invalid partition name specified"),
        (Resources(node="nobody"), "Invalid node name specified"),
    ],
)
def test_what_can_never_run_is_refused_in_slurms_words(
    jobs: SlurmJobs, resources: Resources, why: str
) -> None:
    with pytest.raises(ImpossibleRequest) as refusal:
        jobs.submit("true", resources, job_id=(job := str(uuid4())))
    assert refusal.value.why == f"hpc says: '{why}'"
    assert not jobs.knows(job)
    assert not (jobs.root / REQUESTS / job).exists()


def test_labels_choose_the_node(jobs: SlurmJobs, cluster: SlurmCluster) -> None:
    job = jobs.submit("true", Resources(labels={"speed": "slow"}))
    assert jobs.wait_for_end(job).node == cluster.nodes[2]


def test_gpus_are_given_out(jobs: SlurmJobs, cluster: SlurmCluster) -> None:
    job = jobs.submit("echo gpu $CUDA_VISIBLE_DEVICES", Resources(gpus=1))
    assert jobs.wait_for_end(job).node == cluster.nodes[0]
    assert jobs.output(job) in (b"gpu 0\n", b"gpu 1\n")


def test_the_cluster_tells_what_it_has(jobs: SlurmJobs, cluster: SlurmCluster, gate: Gate) -> None:
    job = jobs.submit(gate.pause, Resources(cpus=1, gpus=1, memory_bytes=100 << 20))
    gate.wait_until_reached()
    info = jobs.do(jobs.slurm.info())
    assert [node.name for node in info.nodes] == cluster.nodes
    assert [(node.cpus, node.cpus_free) for node in info.nodes] == [
        (CPUS, CPUS - 1),
        (CPUS, CPUS),
        (CPUS, CPUS),
    ]
    assert [(node.gpus, node.gpus_free) for node in info.nodes] == [(2, 1), (0, 0), (0, 0)]
    assert info.nodes[0].memory_bytes - info.nodes[0].memory_free_bytes == 100 << 20
    assert [list(node.labels) for node in info.nodes] == [["fast", "a100"], ["fast"], ["slow"]]
    assert info.queued == 0
    gate.open()
    jobs.wait_for_end(job)


# -- who is who ---------------------------------------------------------------------------------------


def test_asked_again_with_the_same_id_it_is_the_same_job(jobs: SlurmJobs, gate: Gate) -> None:
    """While it waits, while it runs, and after its end; by a near end that knows nothing of the first."""
    job, request = str(uuid4()), {"command": f"echo ran; {gate.pause}", "asked": {}}
    first = jobs.do(jobs.slurm.submit(job, request, Resources()))
    other = jobs.near_end()
    assert jobs.do(other.submit(job, request, Resources())) == first
    gate.wait_until_reached()
    assert jobs.do(other.submit(job, request, Resources())) == first
    gate.open()
    jobs.wait_for_end(job)
    assert jobs.do(other.submit(job, request, Resources())) == first
    assert jobs.output(job) == b"ran\n"


def test_a_request_that_was_written_and_not_submitted_is_submitted(jobs: SlurmJobs) -> None:
    """The near end was killed between the two."""
    job = str(uuid4())
    path = jobs.root / REQUESTS / job
    path.touch(0o600)
    path.write_text('{"command": "exit 3", "asked": {}}')
    jobs.do(jobs.near_end().submit(job, {"command": "exit 3", "asked": {}}, Resources()))
    assert jobs.wait_for_end(job).exit_code == 3


def test_of_two_submissions_of_one_job_one_runs(
    jobs: SlurmJobs, cluster: SlurmCluster, tmp_path: Path
) -> None:
    """sbatch had been heard, and squeue did not tell of it yet."""
    diary = tmp_path / "diary"
    job = jobs.submit(f"echo ran >> {diary}", Resources(labels={"speed": "fast"}))
    engine_id = jobs.state(job).engine_id
    script = tmp_path / "script"
    script.write_text(cluster.run("scontrol", "write", "batch_script", engine_id, "-"))
    again = cluster.run(
        "sbatch",
        "--parsable",
        f"--comment=bgjob:{job}",
        "--output=/dev/null",
        "--constraint=slow",
        str(script),
    ).strip()
    wait_until(
        lambda: (
            cluster.run("squeue", "-h", "-t", "all", "-j", f"{engine_id},{again}", "-o", "%T").split()
            == ["COMPLETED", "COMPLETED"]
        ),
        every_s=0.1,
    )
    assert diary.read_text() == "ran\n"
    assert jobs.do(jobs.slurm.taken(job)).engine_id is not None


# -- its end, by others -------------------------------------------------------------------------------


def test_a_queued_job_is_cancelled_and_never_runs(jobs: SlurmJobs, gate: Gate) -> None:
    first = jobs.submit(gate.pause, ALL_CPUS)
    gate.wait_until_reached()
    second = jobs.submit("true", Resources(cpus=CPUS, node=jobs.state(first).node))
    jobs.do(jobs.slurm.cancel(second))
    state = jobs.wait_for_end(second)
    assert (state.end, state.node) == ("CANCELLED", None)
    assert final_outcome(None, state) == {"cause": "killed"}
    gate.open()
    jobs.wait_for_end(first)
    assert jobs.do(jobs.slurm.taken(second)).engine_id is None


@pytest.mark.parametrize("trap", ["", TERM_PROOF], ids=["plain", "term-proof"])
def test_cancelled_a_job_leaves_nothing_behind(jobs: SlurmJobs, trap: str, gate: Gate) -> None:
    """Neither what has left its session nor what was forked twice; and its outcome is written."""
    escaped = f"(setsid sleep {SLEEP} &); (sh -c 'setsid sh -c \"{trap} sleep {SLEEP}; sleep {SLEEP}\" &' &)"
    job = jobs.submit(f"{trap} {escaped}; {gate.pause}; sleep {SLEEP}; sleep {SLEEP}")
    gate.wait_until_reached()
    gate.open()
    wait_until(lambda: len(alive_with(SLEEP)) >= 3)
    jobs.do(jobs.slurm.cancel(job))
    state = jobs.wait_for_end(job)
    wait_until(lambda: not alive_with(SLEEP))
    assert state.end == "CANCELLED"
    assert final_outcome(jobs.outcome(job), state)["cause"] == "killed"
    assert processes.marked(job) == []


def test_a_job_that_ends_while_it_is_cancelled_says_so(jobs: SlurmJobs, gate: Gate) -> None:
    job = jobs.submit(f"trap 'echo bye; exit 5' TERM; {gate.pause}; while :; do sleep 0.1; done")
    gate.wait_until_reached()
    gate.open()
    jobs.do(jobs.slurm.cancel(job))
    state = jobs.wait_for_end(job)
    outcome = final_outcome(jobs.outcome(job), state)
    assert (outcome["cause"], outcome["exit_code"]) == ("killed", 5)
    assert b"bye\n" in jobs.output(job)


def test_a_job_over_its_time_is_timed_out(jobs: SlurmJobs, cluster: SlurmCluster, gate: Gate) -> None:
    """Slurm counts minutes, and looks twice a minute: here its time is shortened while it runs."""
    job = jobs.submit(f"{gate.pause}; sleep {SLEEP}", Resources(time_limit_s=3600))
    gate.wait_until_reached()
    gate.open()
    cluster.run("scontrol", "update", f"jobid={jobs.state(job).engine_id}", "EndTime=now+1")
    state = jobs.wait_for_end(job, within_s=120)
    assert state.end == "TIMEOUT"
    assert final_outcome(jobs.outcome(job), state)["cause"] == "timed_out"
    assert processes.marked(job) == []


@pytest.mark.usefixtures("by_group")
@pytest.mark.parametrize("then", ["exit 0", "exit $?"])
def test_a_job_over_its_memory_is_out_of_memory_whatever_its_shell_says(jobs: SlurmJobs, then: str) -> None:
    eats = "python3 -c 'x = bytearray(400 << 20)'"
    job = jobs.submit(f"{eats}; {then}", Resources(memory_bytes=100 << 20))
    state = jobs.wait_for_end(job)
    assert state.end == "OUT_OF_MEMORY"
    outcome = jobs.outcome(job)
    assert (outcome["cause"], outcome["limit"]) == ("over_limit", "memory")
    assert final_outcome(outcome, state) == outcome


def test_a_preempted_job_was_killed_and_says_why(jobs: SlurmJobs, cluster: SlurmCluster, gate: Gate) -> None:
    node = cluster.nodes[1]
    low = jobs.submit(f"{gate.pause}; sleep {SLEEP}", Resources(cpus=CPUS, partition="low", node=node))
    gate.wait_until_reached()
    gate.open()
    high = jobs.submit("true", Resources(cpus=CPUS, partition="high", node=node))
    state = jobs.wait_for_end(low)
    assert state.end == "PREEMPTED"
    outcome = final_outcome(jobs.outcome(low), state)
    assert outcome["cause"] == "killed"
    assert "preempted" in outcome["reason"]
    assert jobs.wait_for_end(high).exit_code == 0


@pytest.mark.usefixtures("by_group")
def test_a_job_stays_in_the_groups_that_slurm_has_made(jobs: SlurmJobs, gate: Gate) -> None:
    """Also one with limits of ours: where Slurm looks for its processes, they are."""
    job = jobs.submit(f"sleep 0.4; {gate.pause}", options={"processes": 100})
    gate.wait_until_reached()
    own = Path(f"/proc/{jobs.run_record(job)['pid']}/cgroup").read_text()
    assert f"{cgroup.PREFIX}{job}" not in own
    assert "/step_batch" in own
    gate.open()
    assert jobs.wait_for_end(job).exit_code == 0


# -- processes of ours are killed ----------------------------------------------------------------------


def test_a_guard_takes_over_from_a_killed_shim_below_slurm(jobs: SlurmJobs, gate: Gate) -> None:
    job = jobs.submit(f"{gate.pause}; echo late; exit 6")
    gate.wait_until_reached()
    os.kill(jobs.run_record(job)["shim_pid"], signal.SIGKILL)
    gate.open()
    assert jobs.wait_for_end(job).exit_code == 6
    assert jobs.output(job) == b"late\n"


def test_a_shim_without_guard_is_waited_for(jobs: SlurmJobs, gate: Gate) -> None:
    job = jobs.submit(f"{gate.pause}; exit 6")
    gate.wait_until_reached()
    shim = jobs.run_record(job)["shim_pid"]
    os.kill(processes.stat_of(shim)[processes.PARENT], signal.SIGKILL)
    gate.open()
    assert jobs.wait_for_end(job).exit_code == 6


def test_a_killed_batch_script_takes_the_job_with_it(jobs: SlurmJobs, gate: Gate) -> None:
    """What is left of it Slurm ends: nothing runs on without an allocation."""
    job = jobs.submit(f"{gate.pause}; sleep {SLEEP}")
    gate.wait_until_reached()
    gate.open()
    guard = processes.stat_of(jobs.run_record(job)["shim_pid"])[processes.PARENT]
    os.kill(processes.stat_of(guard)[processes.PARENT], signal.SIGKILL)
    state = jobs.wait_for_end(job)
    wait_until(lambda: not processes.marked(job) and not alive_with(SLEEP), within_s=60)
    assert state.end in ("FAILED", "CANCELLED")


# -- Slurm's own daemons -------------------------------------------------------------------------------


@pytest.mark.usefixtures("once")
def test_a_controller_that_is_gone_is_unreachable_and_the_job_runs_on(
    jobs: SlurmJobs, cluster: SlurmCluster, gate: Gate
) -> None:
    job = jobs.submit(f"{gate.pause}; exit 9")
    gate.wait_until_reached()
    near = jobs.near_end()
    cluster.wait_until_saved(jobs.state(job).engine_id)
    cluster.kill_daemon("slurmctld")
    try:
        with pytest.raises(TargetUnreachable):
            jobs.do(near.states())
        gate.open()
        assert jobs.outcome(job)["exit_code"] == 9
    finally:
        cluster.start_controller()
    assert jobs.wait_for_end(job).exit_code == 9
    cluster.wait_until_ready()


@pytest.mark.usefixtures("once")
def test_a_controller_that_hangs_is_unreachable_in_seconds(jobs: SlurmJobs, cluster: SlurmCluster) -> None:
    near = jobs.near_end()
    cluster.stop_daemon("slurmctld")
    try:
        with pytest.raises(TargetUnreachable, match="has not answered within 3 s"):
            jobs.do(near.states())
        assert near.due_in_s() > 5
        with pytest.raises(TargetUnreachable):  # at once: what was not answered is not asked again so soon
            jobs.do(asyncio.wait_for(near.states(), timeout=1))
    finally:
        cluster.continue_daemon("slurmctld")
    assert jobs.do(jobs.near_end().states()) is not None
    cluster.wait_until_ready()


@pytest.mark.usefixtures("once")
def test_a_job_outlives_its_node_daemon_and_its_outcome_stays(
    jobs: SlurmJobs, cluster: SlurmCluster, gate: Gate
) -> None:
    """kill -9 of slurmd: Slurm calls the node failed, and the job has gone on."""
    node = cluster.nodes[2]
    job = jobs.submit(f"{gate.pause}; echo done; exit 5", Resources(node=node))
    gate.wait_until_reached()
    cluster.kill_daemon(node)
    try:
        state = jobs.wait_for_end(job, within_s=NODE_FAILS_S)
        assert state.end == "NODE_FAIL"
        gate.open()
        assert final_outcome(jobs.outcome(job), state)["exit_code"] == 5
        assert final_outcome(None, state)["cause"] == "lost"
    finally:
        cluster.start_node(node)
    cluster.wait_until_ready()


# -- held allocations ------------------------------------------------------------------------------------


def test_an_allocation_is_held_under_its_name_and_given_back(jobs: SlurmJobs) -> None:
    first = jobs.do(jobs.slurm.hold("work", Resources(cpus=1)))
    assert jobs.do(jobs.near_end().hold("work", Resources(cpus=1))) == first
    other = jobs.do(jobs.slurm.hold("play", Resources(cpus=1)))
    assert other != first
    sessions = jobs.do(jobs.near_end().sessions())
    assert (sessions["work"].engine_id, sessions["play"].engine_id) == (first, other)
    jobs.do(jobs.slurm.release("work"))
    jobs.do(jobs.slurm.release("play"))
    assert jobs.session_end("work").end == "CANCELLED"
    assert jobs.session_end("play").end == "CANCELLED"
    assert jobs.do(jobs.slurm.hold("work", Resources(cpus=1))) != first
    jobs.do(jobs.slurm.release("work"))
    jobs.session_end("work")


def test_an_allocation_that_nobody_uses_is_given_back(jobs: SlurmJobs) -> None:
    jobs.do(jobs.slurm.hold("idle", Resources(cpus=1), idle_release_s=0.5))
    assert jobs.session_end("idle").end == "COMPLETED"

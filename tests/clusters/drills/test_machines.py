"""Another machine: its login shell, its process ids, its restarts; and several who use it."""

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from bgjob.core.errors import JobLimitReached, TargetUnreachable
from bgjob.core.job import Killed, Lost
from tests.clusters.drills.story import check_goes_on, code_of, running
from tests.clusters.engine import Ssh
from tests.clusters.far_side import FarSide, decoy
from tests.clusters.ssh_hosts import SshHosts, shell_is_noisy
from tests.clusters.target import Target, relays
from tests.support.gate import Gate
from tests.support.queueing import Diary
from tests.support.waiting import wait_until

NewTarget = Callable[..., Target]


@pytest.mark.parametrize("shell", ["sh", "bash", None])
def test_a_noisy_login_shell_disturbs_neither_the_line_nor_the_jobs(
    new_target: NewTarget, ssh_hosts: SshHosts, shell: str | None
) -> None:
    """What it prints is no answer of an agent; and a job's shell is no login shell."""
    if not shell_is_noisy():
        pytest.skip("the login shell reads no file before a command")
    target = new_target(Ssh(ssh_hosts, "h2"))
    job_id = target.start("echo out; bash -c 'echo in another'; echo err >&2; exit 3", shell=shell)
    assert code_of(target, job_id) == 3
    output = target.jobs.output(job_id)
    assert (output.stdout, output.stderr) == ("out\nin another\n", "err\n")


def test_no_process_of_this_machine_is_taken_for_one_of_the_job(
    target: Target, far: FarSide, gate: Gate
) -> None:
    """Its process ids mean nothing here: they are neither looked at nor signalled."""
    job_id = running(target, gate)
    with decoy(job_id) as innocent:
        pretend_run(target, job_id, innocent)
        status = target.open().status(job_id, detail=True)
        assert str(innocent) not in str(status.activity)
        with target.unreachable():
            far.wait_until_unreachable(job_id)
            with pytest.raises(TargetUnreachable):
                target.jobs.kill(job_id, grace_s=0)
            assert target.open().status(job_id).descendants == 0
        far.wait_until_reachable(job_id)
        target.jobs.kill(job_id, grace_s=0)
        assert isinstance(target.jobs.status(job_id).job.state, Killed)


def pretend_run(target: Target, job_id: str, pid: int) -> None:
    """The record of its run, as it is here, has this process."""
    record = target.home / "jobs" / job_id / "run.json"
    wait_until(record.exists, "its record is here")
    told = {**json.loads(record.read_text()), "pid": pid, "shim_pid": pid}
    record.write_text(json.dumps(told))


def test_a_restart_of_the_machine_is_told(target: Target, far: FarSide, gate: Gate) -> None:
    if not far.host.machine.is_real:
        pytest.skip("only root can make other machines")
    job_id = running(target, gate)
    far.host.restart_machine()
    state = target.state(job_id)
    assert isinstance(state, Lost)
    assert "restarted" in state.reason
    assert target.jobs.output(job_id).stdout == "before\n"
    assert code_of(target, target.start("exit 4")) == 4


def test_records_that_are_gone_over_there_are_told(target: Target, far: FarSide, gate: Gate) -> None:
    job_id = running(target, gate)
    with target.unreachable():
        shutil.rmtree(target.far_home / "jobs" / job_id)
    state = target.state(job_id)
    assert isinstance(state, Lost)
    assert "gone" in state.reason
    gate.open()


def test_two_homes_share_a_host_and_its_slots(new_target: NewTarget, ssh: Ssh, gate: Gate) -> None:
    one = new_target(ssh, max_jobs=1)
    other = new_target(ssh, max_jobs=1, far_home=one.far_home)
    job_id = running(one, gate)
    with pytest.raises(JobLimitReached):
        other.start("true")
    waits = other.start("exit 5", queue=True)
    check_goes_on(one, job_id, gate)
    assert code_of(other, waits) == 5
    assert [job.id for job in one.jobs.list().jobs] == [job_id]
    assert [job.id for job in other.jobs.list().jobs] == [waits]


def test_several_callers_start_at_once_and_there_is_one_relay(target: Target, diary: Diary) -> None:
    callers = [target.open() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        ids = list(pool.map(lambda jobs: jobs.execute(diary.entry("ran"), **target.where).id, callers))
    assert [code_of(target, job_id) for job_id in ids] == [0] * 4
    assert diary.words() == ["ran"] * 4
    wait_until(lambda: len(relays(target.home)) == 2, "there are one relay and its keeper")

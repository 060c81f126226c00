"""Jobs of another machine: the same verbs, the same answers, whatever is killed meanwhile."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bgjob.api import Conditions, Jobs, Typed
from bgjob.api.context import open_context
from bgjob.api.pause import pause_job
from bgjob.api.wait import Wait
from bgjob.core.errors import InvalidArgument, InvalidCommand, JobLimitReached, NotRunning, TargetUnreachable
from bgjob.core.job import Exited, Job, Killed, Lost, NeverStarted, Running, TimedOut
from bgjob.system import processes
from tests.support.far_machine import NAME, FarMachine
from tests.support.gate import Gate
from tests.support.waiting import wait_until


@pytest.fixture
def jobs(far: FarMachine) -> Iterator[Jobs]:
    with contextlib.closing(far.open()) as jobs:
        yield jobs


def ended(jobs: Jobs, job_id: str) -> Job:
    (waited,) = jobs.wait_for([job_id], timeout_s=40)
    assert waited.met, waited
    return waited.status.job


def test_a_job_runs_there_and_its_end_is_known_here(jobs: Jobs, far: FarMachine) -> None:
    job = jobs.execute("pwd; echo $BGJOB_ID; echo oops >&2; exit 7", target=NAME)
    done = ended(jobs, job.id)
    assert isinstance(done.state, Exited)
    assert done.state.code == 7
    output = jobs.output(job.id)
    assert output.stdout == f"{far.user_home}\n{job.id}\n"
    assert output.stderr == "oops\n"
    assert done.remote
    assert done.remote.target == NAME
    assert done.spec.cwd == str(far.user_home)
    assert [each.id for each in jobs.list().jobs] == [job.id]


def test_events_of_the_job_are_in_our_log(jobs: Jobs) -> None:
    job = jobs.execute("exit 3", target=NAME, name="there")
    ended(jobs, job.id)
    wait_until(lambda: not jobs.has_shim(job.id), "the relay has told of the end")
    told = {event.kind: event for event in jobs.events("1.0").events}
    assert told["started"].job_id == told["ended"].job_id == job.id
    assert told["ended"].details["exit_code"] == 3


def test_output_is_complete_and_in_its_order(jobs: Jobs) -> None:
    job = jobs.execute("seq 1 200000; seq 1 5 >&2", target=NAME)
    ended(jobs, job.id)
    text = b"".join(chunk.data for chunk in jobs.follow(job.id, wait=False) if chunk.stream == 1)
    assert text == b"".join(b"%d\n" % number for number in range(1, 200001))
    assert jobs.tail(job.id, 2).stderr == "4\n5\n"
    (found,) = jobs.search("^77777$", job_ids=[job.id]).jobs
    assert [match.line for match in found.matches] == ["77777"]


def test_a_job_is_typed_into_and_its_prompt_is_seen(jobs: Jobs) -> None:
    job = jobs.execute(
        "printf 'Name: '; read name; echo Hello $name; printf 'Age: '; read age; echo $age", target=NAME
    )
    (waited,) = jobs.wait_for([job.id], timeout_s=30)
    assert waited.came
    assert waited.came.condition == "input"
    status = jobs.status(job.id)
    assert (status.waits_for_input, status.prompt) == (True, "Name:")
    wait_until(lambda: job.id in jobs.list().asking, "its event of the prompt is here")
    answer = jobs.interact(job.id, Typed("Ada"))
    assert "Hello Ada" in answer.output.stdout
    assert answer.waits_for_input
    assert "7" in jobs.interact(job.id, Typed("7")).output.stdout
    assert isinstance(ended(jobs, job.id).state, Exited)


def test_a_wait_that_ends_at_a_prompt_has_the_prompt(jobs: Jobs, far: FarMachine, gate: Gate) -> None:
    """Also if the job asked between the wait's look at the log and its look at the job."""
    job = jobs.execute(f"echo before; {gate.pause}; printf 'Name: '; read name", target=NAME)
    jobs.wait_for([job.id], pattern="before", timeout_s=30)
    gate.wait_until_reached()
    context = open_context(far.environ, many=False)
    with Wait(context, [job.id], Conditions(for_input=True), "any", {}) as wait:
        assert wait.jobs[0].snapshot.read(lambda log: log.end) == len("before\n")
        gate.open()
        wait_until(lambda: jobs.status(job.id).waits_for_input is True, "it asks")
        wait.run(30.0, None, None)
        (waited,) = wait.result(None)
    assert waited.came
    assert (waited.came.condition, waited.status.prompt) == ("input", "Name:")


def test_a_terminal_has_its_size_there(jobs: Jobs) -> None:
    job = jobs.execute("stty size; read x; stty size; read x", target=NAME, pty=True, rows=10, cols=40)
    jobs.wait_for([job.id], pattern="10 40", timeout_s=30)
    answer = jobs.interact(job.id, Typed("go"), resize=(20, 60))
    jobs.wait_for([job.id], pattern="20 60", timeout_s=30)
    assert answer.job.spec.pty
    jobs.kill(job.id, grace_s=0)


def test_a_kill_leaves_nothing_there(jobs: Jobs, gate: Gate) -> None:
    stubborn = f"trap '' TERM; (setsid sleep 1000 &) ; {gate.pause}"
    job = jobs.execute(stubborn, target=NAME)
    gate.wait_until_reached()
    killed = jobs.kill(job.id, grace_s=0.2)
    assert killed.status == "killed"
    assert killed.job
    assert isinstance(killed.job.state, Killed)
    assert not processes.marked(job.id)
    assert jobs.kill(job.id).status == "already_terminated"


def test_what_its_machine_refuses_is_refused_here_and_leaves_nothing(jobs: Jobs, far: FarMachine) -> None:
    with pytest.raises(InvalidArgument, match="cwd='/no/such'"):
        jobs.execute("true", target=NAME, cwd="/no/such")
    with pytest.raises(InvalidArgument, match="Accepted: local, far"):
        jobs.execute("true", target="nowhere")
    with pytest.raises(InvalidCommand):
        jobs.execute(" ", target=NAME)
    assert jobs.list().jobs == []


def test_its_machine_has_slots_of_its_own(far: FarMachine) -> None:
    config = Path(far.environ["XDG_CONFIG_HOME"], "bgjob/targets.toml")
    config.write_text(config.read_text() + "settings = {max_jobs = 1}\n")
    with contextlib.closing(far.open()) as jobs:
        first = jobs.execute("sleep 1000", target=NAME)
        with pytest.raises(JobLimitReached, match=r"\(1\)"):
            jobs.execute("true", target=NAME)
        second = jobs.execute("echo second", target=NAME, queue=True)
        wait_until(lambda: jobs.status(second.id).job.state != Running(None), "it is known to be queued")
        jobs.kill(first.id, grace_s=0)
        assert isinstance(ended(jobs, second.id).state, Exited)


def test_a_timeout_is_kept_there_without_us(jobs: Jobs, far: FarMachine) -> None:
    job = jobs.execute("sleep 1000", target=NAME, timeout_s=0.5)
    for pid in far.relays():
        os.kill(pid, signal.SIGKILL)
    assert isinstance(ended(jobs, job.id).state, TimedOut)


def test_any_process_between_may_be_killed(jobs: Jobs, far: FarMachine, gate: Gate) -> None:
    job = jobs.execute(f"echo before; {gate.pause}; echo after; exit 7", target=NAME)
    gate.wait_until_reached()
    for pid in [*far.relays(), *far.agents()]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    gate.open()
    done = ended(jobs, job.id)
    assert isinstance(done.state, Exited)
    assert done.state.code == 7
    assert jobs.output(job.id).stdout == "before\nafter\n"


def test_a_machine_that_cannot_be_reached_starts_nothing(jobs: Jobs, far: FarMachine) -> None:
    far.refuse_connections()
    with pytest.raises(TargetUnreachable, match="Connection refused"):
        jobs.execute("true", target=NAME)
    assert jobs.list().jobs == []
    far.accept_connections()
    assert isinstance(ended(jobs, jobs.execute("true", target=NAME).id).state, Exited)


def test_unreachable_is_said_and_is_no_end(jobs: Jobs, far: FarMachine, gate: Gate) -> None:
    job = jobs.execute(f"{gate.pause}; echo done", target=NAME)
    gate.wait_until_reached()
    far.refuse_connections()
    far.cut_line()

    def is_told() -> bool:
        remote = jobs.status(job.id).job.remote
        return bool(remote and remote.unreachable and "refused" in remote.unreachable)

    wait_until(is_told, "it is said that its machine cannot be reached")
    assert isinstance(jobs.status(job.id).job.state, Running)
    with pytest.raises(TargetUnreachable):
        jobs.interact(job.id, Typed("x"))
    with pytest.raises(TargetUnreachable):
        jobs.kill(job.id)
    with pytest.raises(TargetUnreachable):
        pause_job(open_context(far.environ, many=False), job.id)
    gate.open()
    far.accept_connections()
    assert isinstance(ended(jobs, job.id).state, Exited)
    assert jobs.output(job.id).stdout == "done\n"


def bgjob(far: FarMachine, *command: str) -> "subprocess.CompletedProcess[str]":
    argv = [sys.executable, "-m", "bgjob", *command]
    return subprocess.run(argv, env=far.environ, capture_output=True, text=True, check=False)


def test_a_job_that_is_run_again_has_the_environment_of_its_target(jobs: Jobs, far: FarMachine) -> None:
    job = ended(jobs, jobs.execute("true", target=NAME).id)
    again = bgjob(far, "rerun", job.id)
    assert (again.returncode, again.stderr) == (0, "")
    assert isinstance(ended(jobs, again.stdout.strip()).state, Exited)


def test_a_job_of_a_machine_that_never_answers_again_is_given_up(
    jobs: Jobs, far: FarMachine, gate: Gate
) -> None:
    job = jobs.execute(gate.pause, target=NAME)
    gate.wait_until_reached()
    command = ["kill", "--give-up", job.id[:8]]
    assert "its machine can be reached" in bgjob(far, *command).stderr
    far.refuse_connections()
    far.cut_line()
    wait_until(lambda: (jobs.status(job.id).hint or "").count(" ".join(command)) == 1, "it says what to do")
    with pytest.raises(TargetUnreachable, match="bgjob kill --give-up"):
        jobs.kill(job.id)
    assert "bgjob kill --give-up" in bgjob(far, "kill", job.id[:8]).stderr
    assert bgjob(far, *command).returncode == 0
    state = jobs.status(job.id).job.state
    assert isinstance(state, Lost)
    assert state.reason.startswith("given up while its machine could not be reached: ")
    with pytest.raises(NotRunning, match=r"it was lost \(given up while"):
        jobs.interact(job.id, Typed("x"))
    assert bgjob(far, "rm", job.id[:8]).returncode == 0
    far.accept_connections()
    gate.open()


def test_a_command_that_cannot_be_run_there_says_why(jobs: Jobs) -> None:
    with pytest.raises(InvalidArgument, match="shell"):
        jobs.execute("true", target=NAME, shell="tcsh")
    job = jobs.execute("exec /no/such/program", target=NAME)
    state = ended(jobs, job.id).state
    assert isinstance(state, Exited | NeverStarted)


def test_its_processes_and_ports_are_looked_at_there(jobs: Jobs) -> None:
    server = "python3 -c 'import socket; s = socket.create_server((\"127.0.0.1\", 0)); input()'"
    job = jobs.execute(server, target=NAME)
    (waited,) = jobs.wait_for([job.id], port=0, timeout_s=30)
    assert waited.met
    status = jobs.status(job.id, detail=True)
    assert status.descendants >= 1
    assert status.activity
    assert status.activity.listening
    jobs.kill(job.id, grace_s=0)


def test_a_watch_matches_here(jobs: Jobs) -> None:
    job = jobs.execute("echo one; echo ERROR two; exit 1", target=NAME, watch=["ERROR"])
    page = jobs.events("1.0", kinds=["matched"], timeout_s=30)
    assert [(event.job_id, event.details["line"]) for event in page.events] == [(job.id, "ERROR two")]


def test_a_name_is_reused_across_servers(far: FarMachine, jobs: Jobs) -> None:
    first = jobs.run("sleep 1000", target=NAME, name="dev", if_running="reuse")
    with contextlib.closing(far.open()) as other:
        second = other.run("sleep 1000", target=NAME, name="dev", if_running="reuse")
    assert second.reused
    assert second.job.id == first.job.id
    jobs.kill("dev", grace_s=0)

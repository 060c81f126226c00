"""Out of reach: a job that stops its shim, or takes away what it is reached by, is still answered for and ended."""

import argparse
import contextlib
import errno
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bgjob.api import Conditions, Jobs, JobStatus, Typed, open_jobs
from bgjob.api import connect as api_connect
from bgjob.api import interact as api_interact
from bgjob.api import pause as api_pause
from bgjob.api import signal as api_signal
from bgjob.api.context import Context
from bgjob.api.live import LiveJobs
from bgjob.api.processes import is_paused
from bgjob.api.prompt import SHIM_PATIENCE_S
from bgjob.api.survey import survey
from bgjob.api.wait import Wait
from bgjob.cli import signal as cli_signal
from bgjob.cli import status as cli_status
from bgjob.cli.hook_prompts import untold_prompts
from bgjob.core.errors import NotSteerable
from bgjob.core.job import Exited, Lost, Running, TimedOut
from bgjob.link import spawn, sweep
from bgjob.link.control import Answer, ShimConnection
from bgjob.store.records import read_groups
from bgjob.system import cgroup, processes
from tests.support.gate import Gate
from tests.support.process_table import wait_until_gone
from tests.support.requires import linux_only
from tests.support.shims import ask, directory, guard_pid, kill_both, shim_pid, stopped
from tests.support.waiting import wait_until

pytestmark = linux_only
Ended = Callable[[str], JobStatus]
in_groups = pytest.mark.skipif(
    cgroup.place_without_limits() is None, reason="no control group can be made here"
)


def test_a_job_that_stops_its_shim_at_once_is_started_and_has_its_timeout(jobs: Jobs, ended: Ended) -> None:
    """Its guard continues the shim; it may have been stopped before it told that the job runs."""
    job_ids = [jobs.execute("kill -STOP $PPID; exec sleep 1000", timeout_s=1).id for _ in range(10)]
    assert {type(ended(job_id).job.state) for job_id in job_ids} == {TimedOut}


def test_a_shim_that_does_not_come_to_tell_of_its_job_is_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spawn, "PATIENCE_S", 0.1)
    ready, theirs = os.pipe()
    os.write(theirs, b'{"half of')
    assert spawn.Start(ready).finish() == {}
    os.close(theirs)


def test_a_job_that_is_removed_as_it_starts_is_not_said_to_have_never_run(
    jobs: Jobs, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error would have the caller run it again."""
    finish = spawn.Start.finish

    def finish_without_a_word(start: spawn.Start) -> dict[str, object]:
        finish(start)
        for each in (home / "jobs").iterdir():
            shutil.rmtree(each)
        return {}

    monkeypatch.setattr(spawn.Start, "finish", finish_without_a_word)
    ran = jobs.run("sleep 1000", wait_s=20)
    assert isinstance(ran.job.state, Lost)
    assert jobs.kill(ran.job.id).status == "killed"


def test_the_end_of_a_stdin_comes_through_a_stopped_guard(jobs: Jobs, ended: Ended) -> None:
    """The guard holds it too, and is continued whenever its shim has something to say."""
    job_id = jobs.execute("cat; exit 5").id
    os.kill(guard_pid(jobs, job_id), signal.SIGSTOP)
    jobs.interact(job_id, Typed(close_stdin=True))
    assert getattr(ended(job_id).job.state, "code", None) == 5


def test_one_that_was_stopped_with_its_guard_is_killed_all_the_same(jobs: Jobs) -> None:
    job_id = jobs.execute("sleep 1000").id
    with stopped(jobs, job_id):
        assert jobs.kill(job_id).status == "killed"
    assert processes.marked(job_id) == []


def look_as_a_task(context: Context, ids: list[str]) -> None:
    with Wait(context, ids, Conditions(), "all", {}) as wait:
        wait.look()
        wait.result(None)


def look_at_all(context: Context) -> None:
    live = LiveJobs(context)
    live.read_more(time.monotonic() + 1)
    live.look()


def status_of_all(jobs: Jobs, ids: list[str]) -> None:
    asked = argparse.Namespace(ids=ids, json=True)
    cli_status.run(asked, {**os.environ, "BGJOB_HOME": str(jobs.home)})


LOOKS: dict[str, Callable[[Jobs, list[str]], object]] = {
    "wait": lambda jobs, ids: jobs.wait_for(ids, timeout_s=1, mode="all"),
    "wait for input": lambda jobs, ids: jobs.wait_for(ids, timeout_s=1, mode="all", for_input=True),
    "task": lambda jobs, ids: look_as_a_task(jobs.context, ids),
    "list": lambda jobs, ids: jobs.list(),
    "overview": lambda jobs, ids: survey(jobs.context),
    "page": lambda jobs, ids: look_at_all(jobs.context),
    "hook": lambda jobs, ids: untold_prompts(str(jobs.home), dict.fromkeys(ids, "session")),
    "status": status_of_all,
}


class Heard:
    """How long and until when silent shims were waited for, how many were silent, and how many answered."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, answers: bool = True) -> None:
        """`answers`: False if no shim is heard, as if all were silent; then nobody waits."""
        self.waited_s, self.until, self.silent, self.answers = 0.0, 0.0, 0, 0
        receive = ShimConnection.receive

        def noted(shim: ShimConnection, patience_s: float) -> Answer:
            until = time.monotonic() + patience_s
            try:
                answer = receive(shim, patience_s if answers else 0.0)
            except TimeoutError:
                self.waited_s, self.until = self.waited_s + patience_s, max(self.until, until)
                self.silent += 1
                raise
            self.answers += 1
            return answer

        monkeypatch.setattr(ShimConnection, "receive", noted)


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_many_silent_shims_are_waited_for_as_long_as_one(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch, look: Callable[[Jobs, list[str]], object]
) -> None:
    """What they are given is added up: how long it takes depends on how busy the machine is."""
    job_ids = [jobs.execute("read answer").id for _ in range(12)]
    with contextlib.ExitStack() as all_stopped:
        for job_id in job_ids:
            all_stopped.enter_context(stopped(jobs, job_id))
        heard = Heard(monkeypatch)
        look(jobs, job_ids)
    assert 0 < heard.waited_s <= 1 + SHIM_PATIENCE_S


def steer(*command: str) -> Callable[[Jobs, list[str]], object]:
    """As `bgjob signal`, `pause` and `resume` do with several jobs."""

    def act(jobs: Jobs, ids: list[str]) -> None:
        parser = argparse.ArgumentParser(prog=f"bgjob {command[0]}")
        cli_signal.add_arguments(parser)
        options = parser.parse_args([*command[1:], *ids], argparse.Namespace(verb=command[0]))
        assert cli_signal.run(options, {**os.environ, "BGJOB_HOME": str(jobs.home)}) == 1

    return act


ACTS = {
    "signal": steer("signal", "CONT"),
    "pause": steer("pause"),
    "resume": steer("resume"),
}


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_many_silent_shims_are_steered_with_one_deadline_for_all(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch, act: Callable[[Jobs, list[str]], object]
) -> None:
    for module in (api_connect, api_signal, api_pause, cli_signal):
        monkeypatch.setattr(module, "SHIM_PATIENCE_S", 2.0)
    job_ids = [jobs.execute("read answer").id for _ in range(12)]
    with contextlib.ExitStack() as all_stopped:
        for job_id in job_ids:
            all_stopped.enter_context(stopped(jobs, job_id))
        heard, began = Heard(monkeypatch), time.monotonic()
        act(jobs, job_ids)
    assert heard.silent == len(job_ids)
    assert heard.until < began + 12.0  # one after the other it would be 24 s


def test_several_jobs_are_steered_beside_silent_ones(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in (api_connect, api_signal, api_pause, cli_signal):
        monkeypatch.setattr(module, "SHIM_PATIENCE_S", 5.0)
    job_ids = [jobs.execute("read answer").id for _ in range(5)]
    with contextlib.ExitStack() as all_stopped:
        for job_id in job_ids[:-1]:
            all_stopped.enter_context(stopped(jobs, job_id))
        ACTS["pause"](jobs, job_ids)
        assert is_paused(jobs.context, jobs.store.load(job_ids[-1]))
    printed = capsys.readouterr()
    assert printed.out.startswith(f"{job_ids[-1][:8]}  paused (1 process)")
    assert [job_id for job_id in job_ids if job_id in printed.err] == job_ids[:-1]


@pytest.mark.parametrize("typed", [Typed("text"), Typed(keys=["ctrl-c"]), Typed("x" * 5000)])
def test_typing_has_one_deadline_for_all_that_it_asks_a_shim(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch, typed: Typed
) -> None:
    """No answer comes, and none is waited for: how long it would have been waited for is added up."""
    job_id = jobs.execute("read answer", pty=True).id
    monkeypatch.setattr(api_connect, "SHIM_PATIENCE_S", 40.0)
    monkeypatch.setattr(api_interact, "SHIM_PATIENCE_S", 40.0)
    heard = Heard(monkeypatch, answers=False)
    began = time.monotonic()
    with pytest.raises(NotSteerable, match="does not answer in time"):
        jobs.interact(job_id, typed, wait_s=20)
    assert heard.silent == 1
    assert began < heard.until < began + 50.0  # connecting, reading and answering one after the other: 60 s


def test_silent_shims_leave_time_for_those_that_answer(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    job_ids = [jobs.execute("read answer").id for _ in range(5)]
    with contextlib.ExitStack() as all_stopped:
        for job_id in job_ids[1:-1]:
            all_stopped.enter_context(stopped(jobs, job_id))
        heard = Heard(monkeypatch)
        jobs.list()
    assert heard.waited_s > 0
    assert heard.answers == 2


def lose_pidfds(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a Python that was built without them."""
    monkeypatch.delattr(os, "pidfd_open")
    monkeypatch.delattr(signal, "pidfd_send_signal")


def test_a_python_without_pidfds_ends_a_job_whose_supervisors_are_stopped(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = jobs.execute("sleep 1000").id
    with stopped(jobs, job_id):
        lose_pidfds(monkeypatch)
        assert jobs.kill(job_id).status == "killed"
    assert processes.marked(job_id) == []


def test_a_python_without_pidfds_ends_what_is_left_of_a_lost_job(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = jobs.execute("sleep 1000").id
    kill_both(jobs, job_id)
    lose_pidfds(monkeypatch)
    assert jobs.kill(job_id).status == "killed"
    assert processes.marked(job_id) == []


def test_a_kernel_without_pidfds_ends_what_is_left_of_a_lost_job(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    job_id = jobs.execute("sleep 1000").id
    kill_both(jobs, job_id)
    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert jobs.kill(job_id).status == "killed"
    assert processes.marked(job_id) == []


def test_a_socket_that_was_removed_is_there_again_and_outlives_the_shim(jobs: Jobs, ended: Ended) -> None:
    """A client that finds no socket has the shim look; and the guard has the new one."""
    job_id = jobs.execute("while read line; do echo got $line; done; exit 5").id
    (directory(jobs, job_id) / "ctl").unlink()
    assert jobs.interact(job_id, Typed("this"), wait_s=20).output.stdout == "got this\n"
    processes.send(shim := shim_pid(jobs, job_id), signal.SIGKILL)
    wait_until_gone(shim)
    assert jobs.interact(job_id, Typed("that"), wait_s=20).output.stdout == "got that\n"
    jobs.interact(job_id, Typed(close_stdin=True))
    state = ended(job_id).job.state
    assert isinstance(state, Exited)
    assert state.code == 5


def test_what_is_removed_under_a_job_is_noticed_without_a_client_asking(jobs: Jobs) -> None:
    """A new socket; but a job whose directory is gone is ended, because no client can ever ask for it."""
    unreachable, unknown = (jobs.execute("sleep 1000").id for _ in range(2))
    (directory(jobs, unreachable) / "ctl").unlink()
    shutil.rmtree(directory(jobs, unknown))
    wait_until(lambda: processes.marked(unknown) == [], "the job without a directory is ended")
    wait_until((directory(jobs, unreachable) / "ctl").is_socket, "there is a new socket")
    assert ask(jobs, unreachable, op="status")["ok"]


def test_a_job_that_removes_its_directory_can_be_killed_by_its_id(jobs: Jobs, gate: Gate) -> None:
    job_id = jobs.execute(f"trap '' TERM; {gate.reach}; while :; do sleep 1; done").id
    gate.wait_until_reached()
    shutil.rmtree(directory(jobs, job_id))
    assert jobs.kill(job_id, grace_s=0).status == "killed"
    assert processes.marked(job_id) == []
    assert jobs.kill(job_id).status == "not_found"


def test_another_homes_job_is_not_found_and_not_touched(jobs: Jobs, tmp_path: Path) -> None:
    other = open_jobs({**os.environ, "BGJOB_HOME": str(tmp_path / "other")}, many=False)
    job_id = jobs.execute("sleep 1000").id
    assert other.kill(job_id).status == "not_found"
    assert isinstance(jobs.status(job_id).job.state, Running)
    jobs.kill(job_id)


# -- when shim and guard are gone -----------------------------------------------------------------------


@in_groups
def test_a_job_has_a_control_group_as_long_as_it_runs(jobs: Jobs) -> None:
    job_id = jobs.execute("sleep 1000 & sleep 1000").id
    wait_until(lambda: all(cgroup.is_member(pid, job_id) for pid in jobs.processes(job_id)))
    (group,) = read_groups(str(directory(jobs, job_id)))
    jobs.kill(job_id)
    assert not Path(group).exists()


@in_groups
def test_what_has_left_environment_session_and_parent_is_swept_by_its_group(
    jobs: Jobs, gate: Gate, tmp_path: Path
) -> None:
    """It has nothing of the job any more but the group, which it was in from its first moment."""
    pid_file = tmp_path / "pid"
    hide = f"(env -i setsid sh -c 'echo $$ > {pid_file}; exec sleep 1000' &)"
    job_id = jobs.execute(f"{gate.pause}; {hide}; {gate.reach}; sleep 1000").id
    gate.wait_until_reached()
    wait_until(lambda: all(cgroup.is_member(pid, job_id) for pid in processes.marked(job_id)))
    (group,) = read_groups(str(directory(jobs, job_id)))
    gate.open()
    gate.wait_until_reached()
    wait_until(lambda: pid_file.exists() and pid_file.read_text() != "")
    hidden = int(pid_file.read_text())
    kill_both(jobs, job_id)
    assert hidden in jobs.processes(job_id)
    assert jobs.kill(job_id).status == "killed"
    assert processes.alive([hidden]) == []
    assert not Path(group).exists()


def test_what_ends_with_another_process_counts_and_a_reused_pid_is_spared() -> None:
    """As a shell does, once all that it waits for has been killed."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    running = subprocess.Popen(["sleep", "1000"])
    started = processes.stat_of(running.pid)[processes.START_TICKS]
    assert sweep.kill_each({gone.pid: 1, running.pid: started + 1}) == 2
    assert running.poll() is None
    assert sweep.kill_each({running.pid: started}) == 1
    running.wait()


def test_a_process_that_is_gone_has_none_below_it_and_no_program_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    gone = subprocess.Popen(["/bin/true"])
    gone.wait()
    assert processes.descendants(gone.pid) == []


def test_kin_of_what_carries_the_mark_is_the_jobs_and_a_strangers_session_is_not() -> None:
    """A user may have started a process with the environment of a job in a terminal of their own."""
    script = "env -i sleep 1000 & BGJOB_ID=$0 sh -c 'env -i sleep 1000 & wait' & wait"
    stranger = subprocess.Popen(["sh", "-c", script, "some-job"], start_new_session=True)
    try:
        wait_until(lambda: len(processes.descendants(stranger.pid)) == 3, "all are there")
        wait_until(lambda: len(sweep.members("some-job")) == 2, "the marked one and its child")
        assert stranger.pid not in sweep.members("some-job")
        assert sweep.kill("some-job") == 2
        assert sweep.members("some-job") == []
        assert len(processes.alive(processes.descendants(stranger.pid))) == 1
    finally:
        os.killpg(stranger.pid, signal.SIGKILL)
        stranger.wait()

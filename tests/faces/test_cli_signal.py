"""bgjob signal, pause and resume: every process of the job gets the signal, and nothing else of it does."""

import json
from pathlib import Path

import pytest

from bgjob.api import Jobs
from bgjob.api.processes import is_paused
from bgjob.core.job import Killed, PastRuns
from tests.faces.command_line import Cli, Ended, assert_one_line_of_error
from tests.support.gate import Gate
from tests.support.process_table import is_stopped, parent_of
from tests.support.requires import linux_only
from tests.support.shims import kill_both
from tests.support.waiting import wait_until


def paused(jobs: Jobs, job_id: str) -> bool:
    return is_paused(jobs.context, jobs.store.load(job_id))


def at_the_gate(jobs: Jobs, gate: Gate, command: str = "{}; exit 7", **options: object) -> str:
    job_id = jobs.execute(command.format(gate.pause), **options).id  # type: ignore[arg-type]
    gate.wait_until_reached()
    return job_id


class TestSignal:
    def test_it_reaches_every_process_and_the_job_runs_on(
        self, cli: Cli, jobs: Jobs, gate: Gate, ended: Ended, tmp_path: Path
    ) -> None:
        note = f"trap 'echo heard >> {tmp_path}/heard' USR1"
        child = f"({note}; echo > {tmp_path}/ready; while [ ! -e {tmp_path}/over ]; do sleep 0.01; done) &"
        job_id = at_the_gate(
            jobs, gate, f"{note}; {child} while [ ! -e {tmp_path}/ready ]; do sleep 0.01; done; {{}}; wait"
        )
        sent = cli("signal", "usr1", job_id)
        assert sent.stdout.startswith("SIGUSR1 to ")
        gate.open()
        wait_until((tmp_path / "heard").exists)
        wait_until(lambda: (tmp_path / "heard").read_text() == "heard\nheard\n")
        (tmp_path / "over").touch()
        assert getattr(ended(job_id).job.state, "code", None) is not None

    @pytest.mark.parametrize("name", ["NOPE", "", "99", "-1"])
    def test_one_that_is_none_is_an_error(self, cli: Cli, jobs: Jobs, gate: Gate, name: str) -> None:
        job_id = at_the_gate(jobs, gate)
        refused = cli("signal", "--", name, job_id)
        assert_one_line_of_error(refused, "is not a signal", "TERM, INT, HUP")

    def test_a_job_that_has_ended_gets_none(self, cli: Cli, jobs: Jobs, ended: Ended) -> None:
        job_id = jobs.execute("true").id
        ended(job_id)
        assert_one_line_of_error(cli("signal", "HUP", job_id), f"Job {job_id} has ended")

    def test_nor_does_one_in_the_queue(self, cli: Cli) -> None:
        job_id = cli.run("--delay", "1000", "true")
        assert_one_line_of_error(cli("signal", "HUP", job_id), "it is queued")

    def test_one_that_fails_leaves_the_others_theirs(
        self, cli: Cli, jobs: Jobs, ended: Ended, gate: Gate
    ) -> None:
        over, running = jobs.execute("true").id, at_the_gate(jobs, gate)
        ended(over)
        sent = cli("signal", "--json", "CONT", over, running)
        assert sent.returncode == 1
        (said,) = map(json.loads, sent.stdout.splitlines())
        assert said == {"job_id": running, "status": "signaled", "processes": 1, "signal": "SIGCONT"}
        assert over in sent.stderr

    @pytest.mark.parametrize("arguments", [["signal"], ["signal", "HUP"], ["pause"], ["resume"]])
    def test_wrong_usage_is_exit_code_2(self, cli: Cli, arguments: list[str]) -> None:
        assert cli(*arguments).returncode == 2


@linux_only
class TestPause:
    def test_all_processes_stop_and_go_on(self, cli: Cli, jobs: Jobs, gate: Gate) -> None:
        job_id = at_the_gate(jobs, gate, "sleep 1000 & {}; exit 7", name="build")
        assert not paused(jobs, job_id)
        assert cli("pause", "build").stdout == "paused (2 processes)\n"
        pids = jobs.processes(job_id)
        assert len(pids) == 2
        assert all(map(is_stopped, pids))
        assert paused(jobs, job_id)
        assert cli("resume", "build").stdout == "resumed (2 processes)\n"
        assert not any(map(is_stopped, pids))
        assert not paused(jobs, job_id)
        gate.open()
        wait_until(lambda: getattr(jobs.status(job_id).job.state, "code", None) == 7)

    def test_its_shim_is_not_stopped(self, cli: Cli, jobs: Jobs, gate: Gate) -> None:
        job_id = at_the_gate(jobs, gate)
        cli("pause", job_id)
        (pid,) = jobs.processes(job_id)
        shim = parent_of(pid)
        assert not is_stopped(shim)
        assert not is_stopped(parent_of(shim))
        assert jobs.status(job_id).descendants == 1

    def test_a_job_that_forks_all_the_time_is_stopped_whole(self, cli: Cli, jobs: Jobs, gate: Gate) -> None:
        job_id = at_the_gate(jobs, gate, "while :; do (:) & (:) & wait; done & {}")
        assert cli("pause", job_id).returncode == 0
        assert paused(jobs, job_id)

    def test_what_goes_on_is_said(self, cli: Cli, jobs: Jobs, gate: Gate) -> None:
        job_id = at_the_gate(jobs, gate, timeout_s=9000.0, options={"silence_s": 8000})
        said = cli("pause", job_id)
        assert "its timeout of 9000 s, its limit of silence of 8000 s" in said.stderr
        assert (said.stdout, said.returncode) == ("paused (1 process)\n", 0)

    def test_without_limits_nothing_is(self, cli: Cli, jobs: Jobs, gate: Gate) -> None:
        assert cli("pause", at_the_gate(jobs, gate)).stderr == ""

    def test_a_paused_job_can_be_killed_and_may_clean_up(self, cli: Cli, jobs: Jobs, gate: Gate) -> None:
        job_id = at_the_gate(jobs, gate, "trap 'echo cleaned up; exit 5' TERM; {}")
        cli("pause", job_id)
        assert cli("kill", "--grace", "60", job_id).stdout == "killed (1 process)\n"
        state = jobs.status(job_id).job.state
        assert isinstance(state, Killed)
        assert (state.code, jobs.output(job_id).stdout) == (5, "cleaned up\n")

    def test_what_is_not_paused_is_not_said_to_be_resumed(self, cli: Cli, jobs: Jobs, gate: Gate) -> None:
        job_id = at_the_gate(jobs, gate)
        assert cli("resume", job_id).stdout == "was not paused\n"

    def test_between_two_runs_there_is_nothing_to_pause(self, cli: Cli, jobs: Jobs) -> None:
        job_id = jobs.execute("false", options={"restart": "always", "backoff_s": 1000}).id

        def pauses() -> bool:
            history = jobs.status(job_id).history
            return isinstance(history, PastRuns) and history.pauses

        wait_until(pauses)
        assert_one_line_of_error(cli("pause", job_id), "it is between two runs")

    def test_what_a_job_left_running_can_be_paused(self, cli: Cli, jobs: Jobs) -> None:
        job_id = jobs.execute("sleep 1000 & exit 3").id
        wait_until(lambda: jobs.status(job_id).left_running == 1)
        assert cli("pause", job_id).stdout == "paused (1 process)\n"
        assert paused(jobs, job_id)

    def test_a_job_without_a_shim_can_only_be_killed(self, cli: Cli, jobs: Jobs, gate: Gate) -> None:
        job_id = at_the_gate(jobs, gate)
        kill_both(jobs, job_id)
        assert_one_line_of_error(
            cli("pause", job_id), "its shim is gone; only a kill ends what is left of it"
        )

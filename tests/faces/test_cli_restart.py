"""bgjob rerun and restart: the same job again, as a new job that says of which it is."""

import json
import subprocess
from pathlib import Path

import pytest

from bgjob.api import Conditions, Jobs
from bgjob.api.rerun import environment_of
from bgjob.core.job import Killed, NeverStarted, Queued, Running, Spec
from bgjob.store.store import Store
from tests.faces.command_line import BGJOB, UUID, Cli, Ended, Result, assert_one_line_of_error
from tests.support.gate import Gate
from tests.support.queueing import Diary, occupy
from tests.support.requires import linux_only
from tests.support.stores import ended_job

NOT_KEPT = "(its environment is not kept: started with yours)\n"
OWN = ("id", "created_at", "by", "of")


def new_id(result: Result, stderr: str = "") -> str:
    assert (result.returncode, result.stderr) == (0, stderr)
    assert UUID.fullmatch(result.stdout)
    return result.stdout.strip()


def spec_of(jobs: Jobs, job_id: str) -> Spec:
    return jobs.store.load(job_id).spec


def asked_for(spec: Spec) -> dict[str, object]:
    return {name: value for name, value in vars(spec).items() if name not in OWN}


def is_running(jobs: Jobs, job_id: str) -> bool:
    return isinstance(jobs.status(job_id).job.state, Running)


class TestRerun:
    def test_it_is_the_same_job_and_says_of_which(
        self, cli: Cli, jobs: Jobs, ended: Ended, tmp_path: Path
    ) -> None:
        options = {"open_files": 50, "output": "1MB", "restart": "on-failure", "max_restarts": 2}
        old = jobs.execute(
            "pwd; stty size",
            cwd=str(tmp_path),
            name="build",
            timeout_s=500.0,
            shell="sh",
            pty=True,
            rows=30,
            cols=99,
            watch=["error"],
            options=options,
        ).id
        ended(old)
        new = new_id(cli("rerun", "build"), NOT_KEPT)
        ended(new)
        assert asked_for(spec_of(jobs, new)) == asked_for(spec_of(jobs, old))
        assert (spec_of(jobs, new).of, spec_of(jobs, new).by["client"]) == (old, "bgjob")
        assert jobs.output(new).stdout.split() == [str(tmp_path), "30", "99"]

    def test_without_an_id_it_is_the_newest(self, cli: Cli, jobs: Jobs, ended: Ended) -> None:
        for word in ("older", "newer"):
            ended(cli.run(f"echo {word}"))
        new = new_id(cli("rerun"), NOT_KEPT)
        ended(new)
        assert jobs.output(new).stdout == "newer\n"

    def test_several_are_each_run_again(self, cli: Cli, jobs: Jobs, ended: Ended) -> None:
        old = [cli.run(f"exit {code}") for code in (3, 4)]
        for job_id in old:
            ended(job_id)
        new = cli("rerun", *old).stdout.split()
        assert [spec_of(jobs, job_id).of for job_id in new] == old

    def test_its_record_is_read_again(self, cli: Cli, ended: Ended, home: Path) -> None:
        old = cli.run("true")
        ended(old)
        new = new_id(cli("rerun", old), NOT_KEPT)
        ended(new)
        assert json.loads((home / "jobs" / new / "spec.json").read_text())["of"] == old
        assert Store(str(home)).load(new).spec.of == old

    def test_what_it_waited_for_once_is_over(self, cli: Cli, jobs: Jobs, ended: Ended) -> None:
        first = cli.run("true")
        ended(first)
        old = cli.run("--after", first, "echo then")
        ended(old)
        new = new_id(cli("rerun", old), NOT_KEPT)
        ended(new)
        assert jobs.output(new).stdout == "then\n"
        assert spec_of(jobs, new).queue["after"] == []

    def test_a_job_in_the_queue_is_queued_twice(self, cli: Cli, jobs: Jobs) -> None:
        old = cli.run("--delay", "1000", "--priority", "7", "true")
        queued = cli("rerun", old)
        assert queued.stderr.startswith(f"{NOT_KEPT}(it waits: ")
        new = queued.stdout.strip()
        place = jobs.status(new).place
        assert place is not None
        assert place.priority == 7
        assert spec_of(jobs, new).queue == spec_of(jobs, old).queue
        assert isinstance(jobs.status(old).job.state, Queued)


@linux_only
class TestTheEnvironment:
    def running(self, cli: Cli, gate: Gate, again: Path, show: str, **environment: str) -> str:
        """A job that runs on; run again, it shows something instead."""
        old = cli(
            "run", f"[ -e {again} ] || {{ {gate.pause}; }}; echo {show}", env=environment
        ).stdout.strip()
        gate.wait_until_reached()
        again.touch()
        return old

    def test_of_a_running_job_is_kept(
        self, cli: Cli, jobs: Jobs, gate: Gate, ended: Ended, tmp_path: Path
    ) -> None:
        old = self.running(cli, gate, tmp_path / "again", "$COLOUR,$BGJOB_ID,$MCP_BG_MAX_JOBS", COLOUR="über")
        new = new_id(cli("rerun", old, env={"COLOUR": "red"}))
        ended(new)
        assert jobs.output(new).stdout == f"über,{new},\n"

    def test_of_an_ended_one_is_the_callers_and_that_is_said(
        self, cli: Cli, jobs: Jobs, ended: Ended
    ) -> None:
        old = cli("run", "echo $COLOUR", env={"COLOUR": "blue"}).stdout.strip()
        ended(old)
        new = new_id(cli("rerun", old, env={"COLOUR": "red"}), NOT_KEPT)
        ended(new)
        assert jobs.output(new).stdout == "red\n"

    def test_that_a_program_was_started_without_is_not_known(self, cli: Cli, jobs: Jobs) -> None:
        old = cli.run("exec env -i /bin/cat")
        assert jobs.wait([old], Conditions(for_input=True), timeout_s=30)[0].met
        new_id(cli("rerun", old), NOT_KEPT)

    def test_hidden_variables_stay_hidden(
        self, cli: Cli, jobs: Jobs, gate: Gate, ended: Ended, tmp_path: Path
    ) -> None:
        old = self.running(cli, gate, tmp_path / "again", "[$API_KEY]", API_KEY="secret")
        new = new_id(cli("rerun", old, env={"MCP_BG_HIDDEN_VARIABLES": "*_KEY"}))
        ended(new)
        assert jobs.output(new).stdout == "[]\n"


class TestRestart:
    def test_the_old_one_ends_first(self, cli: Cli, jobs: Jobs) -> None:
        old = cli.run("--name", "server", "exec cat")
        new = new_id(cli("restart", "server"))
        assert isinstance(jobs.status(old).job.state, Killed)
        assert (is_running(jobs, new), spec_of(jobs, new).of) == (True, old)

    def test_what_it_left_running_ends_too(self, cli: Cli, jobs: Jobs, ended: Ended) -> None:
        old = cli.run("sleep 1000 & exit 3")
        ended(old)
        new_id(cli("restart", old), NOT_KEPT)
        assert jobs.processes(old) == []

    def test_an_ended_one_is_run_again(self, cli: Cli, jobs: Jobs, ended: Ended) -> None:
        old = cli.run("exit 3")
        ended(old)
        new = new_id(cli("restart", old), NOT_KEPT)
        assert getattr(ended(new).job.state, "code", None) == 3

    def test_its_slot_may_be_taken_and_it_is_not_lost(
        self, cli: Cli, one: Jobs, gate: Gate, diary: Diary
    ) -> None:
        """A job that waited takes the slot of the one that is stopped: then ours waits behind it."""
        old = occupy(one, gate)
        waiting = one.execute(f"{diary.entry('waited')}; exec cat", queue=True).id
        restarted = cli("restart", old, env={"MCP_BG_MAX_JOBS": "1"})
        assert restarted.returncode == 0
        new = restarted.stdout.strip()
        assert {type(one.status(each).job.state) for each in (waiting, new)} <= {Running, Queued}
        for job_id in (waiting, new):
            one.kill(job_id, grace_s=0)

    def test_a_job_in_the_queue_has_not_started(self, cli: Cli, jobs: Jobs) -> None:
        old = cli.run("--delay", "1000", "true")
        assert_one_line_of_error(cli("restart", old), "it is queued", "nothing to restart")
        assert isinstance(jobs.status(old).job.state, Queued)

    def test_not_of_the_job_that_asks_for_it(self, cli: Cli, jobs: Jobs, ended: Ended) -> None:
        job_id = cli.run(f"{BGJOB} restart $BGJOB_ID")
        assert getattr(ended(job_id).job.state, "code", None) == 1
        assert "you are in it" in jobs.output(job_id).stderr

    def test_too_little_of_an_id_stops_nothing(self, cli: Cli, jobs: Jobs) -> None:
        old = cli.run("exec cat")
        assert_one_line_of_error(cli("restart", old[:2]), "too little of an id")
        assert is_running(jobs, old)


class TestWhatCannotBeRunAgain:
    @pytest.fixture
    def running(self, cli: Cli, tmp_path: Path) -> str:
        (tmp_path / "there").mkdir()
        return cli.run("--cwd", str(tmp_path / "there"), "cat")

    @pytest.mark.parametrize("verb", ["rerun", "restart"])
    def test_what_the_allow_list_refuses(self, cli: Cli, jobs: Jobs, running: str, verb: str) -> None:
        refused = cli(verb, running, env={"MCP_BG_ALLOWED_COMMANDS": "ls"})
        assert_one_line_of_error(refused, "Invalid command")
        assert is_running(jobs, running)

    @pytest.mark.parametrize("verb", ["rerun", "restart"])
    def test_what_ran_where_the_allow_list_does_not_reach(
        self, cli: Cli, jobs: Jobs, running: str, verb: str, tmp_path: Path
    ) -> None:
        allowed = {"MCP_BG_ALLOWED_COMMANDS": "cat", "MCP_BG_WORKING_DIR": str(tmp_path / "gate")}
        (tmp_path / "gate").mkdir(exist_ok=True)
        assert_one_line_of_error(cli(verb, running, env=allowed), "MCP_BG_WORKING_DIR")
        assert is_running(jobs, running)

    def test_under_an_allow_list_the_environment_is_the_callers(
        self, cli: Cli, jobs: Jobs, tmp_path: Path
    ) -> None:
        """Variables can change what a command runs."""
        old = cli("run", "--cwd", str(tmp_path), "cat", env={"COLOUR": "blue"}).stdout.strip()
        allowed = {"MCP_BG_ALLOWED_COMMANDS": "cat", "MCP_BG_WORKING_DIR": str(tmp_path)}
        new = new_id(cli("restart", old, env=allowed), NOT_KEPT)
        assert spec_of(jobs, new).restricted
        assert "COLOUR" not in (environment_of(jobs.store.load(new)) or {})

    def test_what_ran_in_a_directory_that_is_gone(
        self, cli: Cli, jobs: Jobs, running: str, tmp_path: Path
    ) -> None:
        (tmp_path / "there").rmdir()
        assert_one_line_of_error(cli("restart", running), "is not a directory that exists")
        assert is_running(jobs, running)

    def test_what_is_of_a_group_that_is_not_known_here(self, cli: Cli, jobs: Jobs) -> None:
        started = cli("run", "--group", "gpu", "exec cat", env={"MCP_BG_GROUPS": "gpu=1"})
        old = started.stdout.strip()
        assert_one_line_of_error(cli("restart", old), "its group 'gpu' is not in MCP_BG_GROUPS")
        assert is_running(jobs, old)

    def test_what_cannot_be_read(self, cli: Cli, home: Path) -> None:
        job_id = ended_job(Store(str(home)))
        (home / "jobs" / job_id / "spec.json").write_text("{}")
        assert_one_line_of_error(cli("rerun", job_id), "cannot be run again", "spec.json cannot be read")

    def test_one_that_fails_leaves_the_others(self, cli: Cli, home: Path, ended: Ended) -> None:
        fine = cli.run("true")
        ended(fine)
        bad = ended_job(Store(str(home)), command="true", shell="/no/such/shell")
        both = cli("rerun", bad, fine)
        assert len(both.stdout.split()) == 2
        assert isinstance(ended(both.stdout.split()[0]).job.state, NeverStarted)

    def test_a_stdout_that_is_closed_stops_nothing(self, cli: Cli, jobs: Jobs, running: str) -> None:
        closed = subprocess.run(
            ["/bin/sh", "-c", f"{BGJOB} restart {running} >&-"],
            env=cli.environment,
            capture_output=True,
            check=False,
        )
        assert closed.returncode == 74
        assert is_running(jobs, running)

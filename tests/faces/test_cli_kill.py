"""bgjob kill of several jobs: by their names, by a filter, or all of them; side by side, and not without asking."""

import json
import shlex
from pathlib import Path

import pytest

from bgjob.api import Jobs
from bgjob.core.job import Killed, Running
from tests.faces.command_line import BGJOB, Cli, assert_one_line_of_error
from tests.support.gate import Gate
from tests.support.queueing import Diary
from tests.support.requires import needs
from tests.support.tmux import Terminal, terminal
from tests.support.waiting import wait_until


def running(jobs: Jobs, job_id: str) -> bool:
    return isinstance(jobs.status(job_id).job.state, Running)


class TestSeveral:
    def test_each_has_a_line(self, cli: Cli, jobs: Jobs) -> None:
        first, second = cli.run("--name", "one", "exec cat"), cli.run("--name", "two", "exec cat")
        said = cli("kill", "one", second[:8], "one")
        assert sorted(said.stdout.splitlines()) == sorted(
            [f"{first[:8]}  killed (1 process)  one", f"{second[:8]}  killed (1 process)  two"]
        )
        assert said.returncode == 0
        assert not running(jobs, first)
        assert not running(jobs, second)

    def test_one_that_is_not_there_keeps_all_alive(self, cli: Cli, jobs: Jobs) -> None:
        """A typo is told before anything is done that cannot be undone."""
        job_id = cli.run("exec cat")
        assert_one_line_of_error(cli("kill", job_id, "nobody"), "Job nobody not found")
        assert running(jobs, job_id)

    def test_as_json(self, cli: Cli) -> None:
        ids = [cli.run("exec cat") for _ in range(2)]
        said = [json.loads(line) for line in cli("kill", "--json", *ids).stdout.splitlines()]
        assert sorted(said, key=lambda each: ids.index(each["job_id"])) == [
            {"job_id": job_id, "status": "killed", "processes": 1} for job_id in ids
        ]

    def test_they_are_ended_side_by_side(self, cli: Cli, jobs: Jobs, tmp_path: Path) -> None:
        """None of them ends before all have got the signal: one after the other, SIGKILL would end the first."""
        count = 6
        ids = []
        for number in range(count):
            asked = shlex.quote(f"{tmp_path}/asked")
            wait = f"while [ $(ls {asked}.* | wc -l) -lt {count} ]; do sleep 0.02; done"
            trap = f"trap 'touch {asked}.{number}; {wait}; exit 0' TERM"
            ids.append(cli.run(f"{trap}; touch {tmp_path}/ready.{number}; while :; do sleep 0.02; done"))
        wait_until(lambda: len(list(tmp_path.glob("ready.*"))) == count)
        assert cli("kill", "--grace", "100", *ids).returncode == 0
        assert {getattr(jobs.status(job_id).job.state, "code", None) for job_id in ids} == {0}

    def test_too_little_of_an_id_is_an_error(self, cli: Cli, jobs: Jobs) -> None:
        job_id = cli.run("exec cat")
        assert_one_line_of_error(cli("kill", job_id[:2]), "too little of an id", "at least 3 characters")
        assert running(jobs, job_id)


class TestAll:
    def test_what_runs_and_what_waits_ends_and_nothing_starts(
        self, cli: Cli, jobs: Jobs, gate: Gate, diary: Diary
    ) -> None:
        one_slot = {"MCP_BG_MAX_JOBS": "1"}
        first = cli("run", gate.pause, env=one_slot).stdout.strip()
        gate.wait_until_reached()
        waiting = [
            cli("run", "--queue", diary.entry("started"), env=one_slot).stdout.strip() for _ in range(3)
        ]
        said = cli("kill", "--all", "-y", "--grace", "0")
        assert (said.returncode, len(said.stdout.splitlines())) == (0, 4)
        assert all(isinstance(jobs.status(job_id).job.state, Killed) for job_id in [first, *waiting])
        assert diary.words() == []

    def test_what_was_left_running_ends_too(self, cli: Cli, jobs: Jobs) -> None:
        job_id = cli.run("sleep 1000 & exit 3")
        wait_until(lambda: jobs.status(job_id).left_running == 1)
        assert cli("kill", "--all", "-y").stdout.startswith(f"{job_id[:8]}  killed (1 process)")

    def test_a_filter_chooses(self, cli: Cli, jobs: Jobs, tmp_path: Path) -> None:
        (tmp_path / "there").mkdir()
        web = cli.run("--name", "web", "--cwd", str(tmp_path / "there"), "exec cat")
        db = cli.run("--name", "db", "exec cat")
        assert cli("kill", "--filter", "name=web", "--filter", f"cwd={tmp_path}", "-y").returncode == 0
        assert (running(jobs, web), running(jobs, db)) == (False, True)
        assert cli("kill", "--all", "--filter", "db", "-y").returncode == 0
        assert not running(jobs, db)

    def test_nothing_that_fits_is_no_error(self, cli: Cli) -> None:
        said = cli("kill", "--all", "-y")
        assert (said.returncode, said.stdout, said.stderr) == (0, "", "(no such job runs or waits)\n")

    @pytest.mark.parametrize("rule", [["--all"], ["--filter", "cat"]])
    def test_without_a_terminal_it_needs_a_yes(self, cli: Cli, jobs: Jobs, rule: list[str]) -> None:
        job_id = cli.run("exec cat")
        assert_one_line_of_error(cli("kill", *rule), "there is no terminal to ask on", "-y")
        assert running(jobs, job_id)

    @pytest.mark.parametrize(
        "arguments", [["--all", "x"], ["--filter", "x", "y"], ["-y"], ["--all", "--grace", "soon"]]
    )
    def test_wrong_usage_is_exit_code_2(self, cli: Cli, arguments: list[str]) -> None:
        refused = cli("kill", *arguments)
        assert (refused.returncode, refused.stderr.startswith("usage: bgjob kill")) == (2, True)

    @pytest.mark.parametrize("bad", [["--signal", "NOPE"], ["--filter", "status=gone"]])
    def test_a_bad_option_kills_nothing(self, cli: Cli, jobs: Jobs, bad: list[str]) -> None:
        job_id = cli.run("exec cat")
        assert_one_line_of_error(cli("kill", "--all", "-y", *bad), bad[0].removeprefix("--"))
        assert running(jobs, job_id)


@needs("tmux")
class TestAtATerminal:
    def ask(self, cli: Cli, opened: Terminal, answer: str) -> None:
        opened.wait_for("kill these 2 jobs? [y/N]")
        assert "web server" in opened.screen
        assert "database" in opened.screen
        opened.type(answer)
        opened.press("Enter")

    def command(self, *arguments: str) -> list[str]:
        return ["sh", "-c", f"{shlex.join([BGJOB, *arguments])}; echo code=$?; read _"]

    @pytest.mark.parametrize(
        ("answer", "code", "are_killed"), [("y", 0, True), ("n", 1, False), ("", 1, False)]
    )
    def test_it_shows_what_it_would_kill_and_asks(
        self, cli: Cli, jobs: Jobs, tmp_path: Path, answer: str, code: int, are_killed: bool
    ) -> None:
        ids = [cli.run("--name", name, "exec cat") for name in ("web server", "database")]
        with terminal(self.command("kill", "--all"), tmp_path, cli.environment) as opened:
            self.ask(cli, opened, answer)
            opened.wait_for(f"code={code}")
            assert ("nothing was killed" in opened.screen) is not are_killed
        assert {running(jobs, job_id) for job_id in ids} == {not are_killed}

    def test_one_job_is_killed_without_a_question(self, cli: Cli, jobs: Jobs, tmp_path: Path) -> None:
        job_id = cli.run("exec cat")
        with terminal(self.command("kill", "--filter", "cat"), tmp_path, cli.environment) as opened:
            opened.wait_for("code=0")
        assert not running(jobs, job_id)

    def test_ctrl_c_at_the_question_kills_nothing(self, cli: Cli, jobs: Jobs, tmp_path: Path) -> None:
        ids = [cli.run("--name", name, "exec cat") for name in ("web server", "database")]
        script = f"trap : INT; {shlex.join([BGJOB, 'kill', '--all'])}; echo code=$?; read _"
        with terminal(["sh", "-c", script], tmp_path, cli.environment) as opened:
            opened.wait_for("[y/N]")
            opened.press("C-c")
            opened.wait_for("code=130")
            assert "Traceback" not in opened.screen
        assert all(running(jobs, job_id) for job_id in ids)

"""The command line, as a person or a script meets it: a process with arguments, two streams and an exit code."""

import re
import signal
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from bgjob.api import Jobs
from bgjob.core.job import TimedOut
from bgjob.system.own_package import full_version
from tests.faces.command_line import BGJOB, Cli, Ended, assert_one_line_of_error
from tests.support.gate import Gate
from tests.support.homes import end_all_jobs
from tests.support.server import StartServer
from tests.support.shims import ask
from tests.support.stores import job_with


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("cli") / "home"
    yield home
    end_all_jobs(home)


@pytest.fixture(scope="module")
def cli(home: Path) -> Cli:
    return Cli(home)


class TestRun:
    def test_it_prints_the_id_of_a_job_that_outlives_it(self, cli: Cli, gate: Gate, ended: Ended) -> None:
        job_id = cli.run(f"{gate.pause}; exit 7")
        gate.wait_until_reached()
        gate.open()
        assert getattr(ended(job_id).job.state, "code", None) == 7

    def test_one_quoted_text_is_a_command_of_the_shell(self, cli: Cli, ended: Ended) -> None:
        job_id = cli.run("--", "X=3; echo $((X + 1)) | tr 4 5 && echo 'a  b'")
        ended(job_id)
        assert cli("logs", job_id).stdout == "5\na  b\n"

    def test_several_words_are_a_program_and_its_arguments_as_they_are(self, cli: Cli, ended: Ended) -> None:
        words = ["a b", "$HOME", "it's", '"', "*", ";", "", "-x", "--", "ü\n"]
        job_id = cli.run("--", "printf", "<%s>", *words)
        ended(job_id)
        assert cli("logs", job_id).stdout == "".join(f"<{word}>" for word in words)

    def test_it_runs_where_the_caller_is(self, cli: Cli, ended: Ended, tmp_path: Path) -> None:
        job_id = cli.run("pwd", cwd=tmp_path)
        ended(job_id)
        assert cli("logs", job_id).stdout == f"{tmp_path}\n"

    def test_or_where_the_caller_says(self, cli: Cli, ended: Ended, tmp_path: Path) -> None:
        (tmp_path / "there").mkdir()
        job_id = cli.run("--cwd", str(tmp_path / "there"), "pwd", cwd=tmp_path)
        ended(job_id)
        assert cli("logs", job_id).stdout == f"{tmp_path}/there\n"

    def test_a_relative_place_is_seen_from_the_caller(self, cli: Cli, ended: Ended, tmp_path: Path) -> None:
        (tmp_path / "there").mkdir()
        job_id = cli.run("--cwd", "there", "pwd", cwd=tmp_path)
        ended(job_id)
        assert cli("logs", job_id).stdout == f"{tmp_path}/there\n"

    def test_a_timeout_stops_it(self, cli: Cli, ended: Ended) -> None:
        job_id = cli.run("--timeout", "0.2", "--", "sleep", "1000")
        assert isinstance(ended(job_id).job.state, TimedOut)

    def test_a_timeout_of_years_leaves_the_job_alone(self, cli: Cli, ended: Ended) -> None:
        """Those are more milliseconds than the kernel takes in one wait."""
        job_id = cli.run("--timeout", str(5 * 365 * 86_400), "--", "exit 3")
        assert getattr(ended(job_id).job.state, "code", None) == 3

    @pytest.mark.parametrize("timeout", ["0", "-1", "nan", "inf", "soon"])
    def test_a_timeout_that_is_none_is_an_error(self, cli: Cli, timeout: str) -> None:
        refused = cli("run", "--timeout", timeout, "--", "true")
        assert refused.returncode in (1, 2)
        assert (refused.stdout, "timeout" in refused.stderr) == ("", True)

    @pytest.mark.parametrize(
        ("arguments", "word"),
        [
            ([" "], "Invalid command"),
            (["rm -rf /"], "Invalid command"),
            (["--cwd", "/no/such", "ls"], "cwd="),
        ],
    )
    def test_what_cannot_run_is_one_line_of_error(self, cli: Cli, arguments: list[str], word: str) -> None:
        assert_one_line_of_error(cli("run", *arguments), word)

    def test_limits_are_given_by_name_and_ps_names_the_one_that_ended_it(
        self, cli: Cli, ended: Ended
    ) -> None:
        job_id = cli.run(
            "--limit", "silence_s=0.2", "--limit", "open_files=50", "--name", "mute", "sleep 1000"
        )
        assert ended(job_id).limits == {"open_files": 50, "silence_s": 0.2}
        (line,) = cli("ps", "--filter", job_id).stdout.splitlines()[1:]
        assert line.split()[1:3] == ["silence", "mute"]

    @pytest.mark.parametrize(
        ("limit", "word"),
        [
            ("memory", "is not NAME=VALUE"),
            ("memory=", "is not NAME=VALUE"),
            ("memory=lots", "Accepted: a size"),
            ("colour=red", "Accepted: memory, cpu_s"),
            ("priority=3", "Unknown option"),
        ],
    )
    def test_a_limit_that_is_none_is_an_error(self, cli: Cli, limit: str, word: str) -> None:
        refused = cli("run", "--limit", limit, "true")
        assert refused.returncode in (1, 2)
        assert (refused.stdout, word in refused.stderr) == ("", True)

    def test_the_limit_holds_here_too(self, cli: Cli, tmp_path: Path) -> None:
        lonely = {"BGJOB_HOME": str(tmp_path / "lonely"), "MCP_BG_MAX_JOBS": "1"}
        assert cli("run", "cat", env=lonely).returncode == 0
        assert_one_line_of_error(cli("run", "cat", env=lonely), "Job limit reached")
        end_all_jobs(tmp_path / "lonely")


class TestPs:
    def test_it_shows_each_job_with_how_it_ended(self, cli: Cli, ended: Ended, home: Path) -> None:
        names = {"fine": "exit 0", "broken": "exit 3", "shot": "kill -9 $$"}
        for name, command in names.items():
            ended(cli.run("--name", name, command))
        lines = [re.split(r" {2,}", line) for line in cli("ps", "--limit", "3").stdout.splitlines()]
        assert lines[0][:3] + lines[0][-1:] == ["ID", "STATUS", "NAME", "COMMAND"]
        shown = [line[1:3] + line[-1:] for line in lines if line[2] in names]
        assert shown == [
            ["SIGKILL", "shot", "kill -9 $$"],
            ["exit 3", "broken", "exit 3"],
            ["exit 0", "fine", "exit 0"],
        ]

    def test_it_shows_only_the_status_asked_for(self, cli: Cli, gate: Gate) -> None:
        job_id = cli.run("--name", "the one", gate.pause)
        gate.wait_until_reached()
        lines = cli("ps", "--status", "running").stdout.splitlines()
        assert [line[:8] for line in lines[1:]] == [job_id[:8]]
        assert re.split(r" {2,}", lines[1])[1:3] == ["running", "the one"]
        cli("kill", job_id)

    def test_what_a_job_left_running_is_shown_and_killed(self, cli: Cli, ended: Ended) -> None:
        job_id = cli.run("--name", "daemon", "sleep 1000 & exit 3")
        ended(job_id)
        (row,) = [line for line in cli("ps", "--status", "running").stdout.splitlines() if "daemon" in line]
        assert re.split(r" {2,}", row)[1:3] == ["exit 3, 1 left", "daemon"]
        assert cli("kill", job_id).stdout == "killed (1 process)\n"
        assert job_id[:8] not in cli("ps", "--status", "running").stdout

    def test_each_job_has_one_line_whatever_its_command(self, cli: Cli, ended: Ended) -> None:
        """And none of its bytes steer the terminal."""
        job_id = cli.run("true\n# \x1b[2J\x07 \x9b31m")
        ended(job_id)
        shown = cli("ps", "--filter", job_id).stdout
        assert len(shown.splitlines()) == 2
        assert all(letter.isprintable() for letter in shown.replace("\n", ""))

    def test_a_terminal_without_unicode_gets_something_too(self, cli: Cli, ended: Ended) -> None:
        ended(cli.run("echo ünï ☃"))
        shown = cli("ps", "--limit", "1", env={"PYTHONIOENCODING": "ascii"})
        assert shown.returncode == 0
        assert "Traceback" not in shown.stderr
        assert "echo" in shown.stdout

    @pytest.mark.parametrize("limit", ["0", "-5", "many"])
    def test_a_limit_that_is_none_is_an_error(self, cli: Cli, limit: str) -> None:
        refused = cli("ps", "--limit", limit)
        assert refused.returncode in (1, 2)
        assert "limit" in refused.stderr


class TestLogs:
    def test_stdout_and_stderr_stay_apart_byte_for_byte(self, cli: Cli, ended: Ended) -> None:
        job_id = cli.run(r"printf 'out \377\000 no newline'; echo err >&2")
        ended(job_id)
        result = subprocess.run([BGJOB, "logs", job_id], env=cli.environment, capture_output=True, check=True)
        assert (result.stdout, result.stderr) == (b"out \xff\0 no newline", b"err\n")

    def test_without_follow_it_shows_what_there_is_and_ends(self, cli: Cli, gate: Gate, jobs: Jobs) -> None:
        job_id = cli.run(f"echo so far; {gate.pause}")
        gate.wait_until_reached()
        ask(jobs, job_id, op="wait", beyond=6)
        assert cli("logs", job_id).stdout == "so far\n"
        cli("kill", job_id)

    def test_following_the_job_of_a_server_ends_when_the_job_ends(
        self, cli: Cli, start_server: StartServer, gate: Gate
    ) -> None:
        job_id = start_server().execute(f"echo before; {gate.pause}; echo after; echo aside >&2; exit 3")
        gate.wait_until_reached()
        with cli.begin("logs", "-f", job_id) as follower:
            assert pipe(follower.stdout).readline() == "before\n"
            gate.open()
            stdout, stderr = follower.communicate(timeout=120)
        assert stdout == "after\n"
        assert re.fullmatch(r"aside\n\[exit 3 after \d+\.\d s\]\n", stderr)
        assert follower.returncode == 3

    def test_following_ends_without_a_word_on_ctrl_c(self, cli: Cli) -> None:
        job_id = cli.run("echo ready; cat")
        with cli.begin("logs", "--follow", job_id) as follower:
            assert pipe(follower.stdout).readline() == "ready\n"
            follower.send_signal(signal.SIGINT)
            assert follower.communicate(timeout=120) == ("", "")
        assert follower.returncode == 130
        assert cli("kill", job_id).stdout.startswith("killed")

    @pytest.mark.parametrize("follow", [[], ["-f"]])
    def test_a_reader_that_has_enough_ends_it_quietly(
        self, cli: Cli, ended: Ended, follow: list[str]
    ) -> None:
        job_id = cli.run("seq 1 300000")
        ended(job_id)
        with (
            cli.begin("logs", *follow, job_id) as logs,
            subprocess.Popen(["head", "-1"], stdin=logs.stdout, stdout=subprocess.PIPE, text=True) as head,
        ):
            pipe(logs.stdout).close()
            assert head.communicate(timeout=120)[0] == "1\n"
            assert pipe(logs.stderr).read() == ""
        assert logs.returncode == 0


def pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


class TestKill:
    def test_it_ends_the_job_and_says_so(self, cli: Cli) -> None:
        job_id = cli.run("cat")
        assert re.fullmatch(r"killed \([12] process(es)?\)\n", cli("kill", job_id).stdout)
        assert cli("kill", job_id).stdout == "already_terminated (0 processes)\n"

    def test_the_first_signal_is_the_callers(self, cli: Cli, gate: Gate) -> None:
        job_id = cli.run(f"trap 'echo interrupted; exit' INT; {gate.reach}; while :; do sleep 0.01; done")
        gate.wait_until_reached()
        assert cli("kill", "--signal", "INT", job_id).returncode == 0
        assert cli("logs", job_id).stdout == "interrupted\n"

    @pytest.mark.parametrize("options", [["--signal", "NOPE"], ["--grace", "nan"], ["--grace", "soon"]])
    def test_a_bad_option_is_an_error_and_the_job_runs_on(
        self, cli: Cli, jobs: Jobs, options: list[str]
    ) -> None:
        job_id = cli.run("cat")
        refused = cli("kill", *options, job_id)
        assert (refused.returncode in (1, 2), "Traceback" in refused.stderr) == (True, False)
        assert jobs.kill(job_id, grace_s=0).status == "killed"


class TestNamingAJob:
    def test_the_beginning_of_its_id_is_enough(self, cli: Cli, ended: Ended) -> None:
        job_id = cli.run("echo found")
        ended(job_id)
        assert cli("logs", job_id[:13]).stdout == "found\n"

    def test_so_is_its_name_and_the_newest_one_has_it(self, cli: Cli, ended: Ended) -> None:
        for word in ("older", "newer"):
            ended(cli.run("--name", "twins", f"echo {word}"))
        assert cli("logs", "twins").stdout == "newer\n"

    def test_a_name_comes_before_what_only_begins_like_it(self, cli: Cli, ended: Ended) -> None:
        other = cli.run("echo other")
        ended(cli.run("--name", other[:4], "echo named"))
        assert cli("logs", other[:4]).stdout == "named\n"
        ended(other)
        assert cli("logs", other[:8]).stdout == "other\n"

    @pytest.mark.parametrize("command", ["logs", "kill"])
    def test_a_beginning_that_fits_several_is_an_error_that_shows_them(
        self, cli: Cli, home: Path, command: str
    ) -> None:
        twins = {
            job_with(home, id=f"0facade0-0000-4000-8000-{uuid.uuid4().hex[:12]}", name="twin") for _ in "ab"
        }
        assert_one_line_of_error(cli(command, "0facade0"), "'0facade0' fits ", *twins, "Give more of the id")

    @pytest.mark.parametrize(
        "wrong", ["zzz", "", "../..", "00000000-0000-4000-8000-000000000000", "x" * 5000]
    )
    @pytest.mark.parametrize("command", ["logs", "kill"])
    def test_what_fits_none_is_one_line_of_error(self, cli: Cli, command: str, wrong: str) -> None:
        result = cli(command, wrong)
        assert_one_line_of_error(result, "not found")
        assert len(result.stderr) < 300

    @pytest.mark.parametrize("command", ["logs", "status", "kill"])
    def test_a_word_that_nearly_fits_gets_the_name_that_may_be_meant(
        self, cli: Cli, ended: Ended, command: str
    ) -> None:
        ended(cli.run("--name", "integration", "true"))
        said = cli(command, "intergation").stderr
        assert said == (
            "bgjob: Job intergation not found. Did you mean 'integration'? bgjob ps shows the jobs that exist.\n"
        )

    def test_or_the_id_as_a_list_shows_it(self, cli: Cli, home: Path) -> None:
        job_with(home, id="5eadbee5-0000-4000-8000-000000000000")
        assert "Did you mean '5eadbee5'?" in cli("logs", "5eadbee6").stderr

    def test_to_read_the_beginning_of_a_name_is_enough_if_it_is_the_only_one(
        self, cli: Cli, ended: Ended
    ) -> None:
        for name in ("quartz-one", "quartz-two"):
            ended(cli.run("--name", name, f"echo {name}"))
        assert cli("logs", "quartz-o").stdout == "quartz-one\n"
        assert_one_line_of_error(cli("logs", "quartz"), "'quartz' fits 2 names", "Give more of it, or an id")

    def test_to_kill_takes_the_whole_name_or_three_characters_of_the_id(self, cli: Cli) -> None:
        job_id = cli.run("--name", "precious", "cat")
        assert_one_line_of_error(cli("kill", "preciou"), "Did you mean 'precious'?")
        assert_one_line_of_error(cli("kill", job_id[:2]), "is too little of an id")
        assert cli("kill", "precious").stdout.startswith("killed")

    def test_to_run_after_what_is_not_there_is_one_line_of_error(self, cli: Cli) -> None:
        assert_one_line_of_error(cli("run", "--after", "nobody", "true"), "Job nobody not found")


class TestTheProgram:
    def test_its_version(self, cli: Cli) -> None:
        assert cli("--version").stdout == f"bgjob {full_version()}\n"

    @pytest.mark.parametrize("command", [[], ["run"], ["ps"], ["logs"], ["kill"], ["mcp"]])
    def test_help_is_on_stdout(self, cli: Cli, command: list[str]) -> None:
        shown = cli(*command, "--help")
        assert (shown.returncode, shown.stderr) == (0, "")
        assert shown.stdout.startswith(" ".join(["usage: bgjob", *command]))

    @pytest.mark.parametrize(
        "arguments",
        [
            ["fly"],
            ["run"],
            ["run", "--name"],
            ["kill"],
            ["ps", "--what"],
            ["ps", "--status", "lost"],
            ["mcp", "x"],
        ],
    )
    def test_wrong_usage_is_exit_code_2_with_the_usage(self, cli: Cli, arguments: list[str]) -> None:
        refused = cli(*arguments)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert refused.stderr.startswith("usage: bgjob")

    def test_a_bad_setting_is_one_line_of_error(self, cli: Cli) -> None:
        assert_one_line_of_error(cli("ps", env={"MCP_BG_MAX_JOBS": "x"}), "MCP_BG_MAX_JOBS='x'", "1 to 1000")

    def test_a_home_that_cannot_be_is_one_line_of_error(self, cli: Cli, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        assert_one_line_of_error(cli("ps", env={"BGJOB_HOME": str(tmp_path / "file" / "home")}), "home")

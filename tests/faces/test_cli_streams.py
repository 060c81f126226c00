"""Output that cannot be written, and errors: one line that says what is wrong, in words that can be typed."""

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bgjob.api import Jobs, open_jobs
from bgjob.cli.words import in_our_words
from bgjob.core.errors import BgjobError, InvalidArgument, WorkingDirectoryGone
from bgjob.mcp.tools import TOOLS
from tests.faces.command_line import BGJOB, Cli, Ended, Result, assert_one_line_of_error
from tests.support.gate import Gate
from tests.support.homes import end_all_jobs
from tests.support.server import StartServer, ToolError

OUTPUT_FAILED = 74


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("streams") / "home"
    yield home
    end_all_jobs(home)


@pytest.fixture(scope="module")
def cli(home: Path) -> Cli:
    return Cli(home)


def redirected(cli: Cli, redirection: str, *arguments: str, **environment: str) -> Result:
    return subprocess.run(
        ["/bin/sh", "-c", f'"$0" "$@" {redirection}', BGJOB, *arguments],
        env={**cli.environment, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def assert_output_failed(result: Result, *words: str) -> None:
    (line,) = result.stderr.splitlines()
    assert line.startswith("bgjob: ")
    assert all(word in line for word in (*words, "standard output cannot be written"))
    assert result.returncode == OUTPUT_FAILED


def job_ids(jobs: Jobs) -> set[str]:
    return {job.id for job in jobs.list(limit=1000).jobs}


class TestAStdoutThatTakesNothing:
    @pytest.mark.parametrize(
        ("arguments", "redirection", "why"),
        [
            ("ps", ">&-", "it is closed"),
            ("ps", "1</dev/null", "it is closed"),
            ("ps", ">/dev/full", "No space left"),
            ("--help", ">/dev/full", "No space left"),
        ],
    )
    def test_is_one_line_of_error(self, cli: Cli, arguments: str, redirection: str, why: str) -> None:
        assert_output_failed(redirected(cli, redirection, arguments, PYTHONUNBUFFERED=""), why)

    def test_is_the_same_where_nothing_is_buffered(self, cli: Cli) -> None:
        assert_output_failed(redirected(cli, ">/dev/full", "--help", PYTHONUNBUFFERED="1"), "No space left")

    def test_is_one_for_logs_too(self, cli: Cli, ended: Ended) -> None:
        job_id = cli.run("echo something")
        ended(job_id)
        assert_output_failed(redirected(cli, ">&-", "logs", job_id), "it is closed")
        assert_output_failed(redirected(cli, ">/dev/full", "logs", "-f", job_id), "No space left")

    @pytest.mark.parametrize("redirection", [">&-", "<&- >&-"])
    def test_has_nothing_started_whose_id_could_not_be_told(
        self, cli: Cli, jobs: Jobs, redirection: str
    ) -> None:
        before = job_ids(jobs)
        assert_output_failed(redirected(cli, redirection, "run", "true"), "it is closed")
        assert job_ids(jobs) == before

    def test_that_was_not_known_before_the_start_is_told_with_the_id(self, cli: Cli, jobs: Jobs) -> None:
        before = job_ids(jobs)
        failed = redirected(cli, ">/dev/full", "run", "true")
        (started,) = job_ids(jobs) - before
        assert_output_failed(failed, f"job {started} was started, but ")

    def test_does_not_keep_a_job_from_being_killed(self, cli: Cli, jobs: Jobs) -> None:
        job_id = cli.run("cat")
        assert_output_failed(redirected(cli, ">&-", "kill", job_id), "killed (", "), but ")
        assert jobs.status(job_id).descendants == 0

    def test_with_a_stderr_that_takes_nothing_either_leaves_the_exit_code(self, cli: Cli) -> None:
        failed = redirected(cli, ">/dev/full 2>/dev/full", "ps", PYTHONUNBUFFERED="")
        assert (failed.returncode, failed.stdout, failed.stderr) == (OUTPUT_FAILED, "", "")

    def test_a_closed_stderr_puts_nothing_into_stdout(self, cli: Cli, ended: Ended) -> None:
        job_id = cli.run("echo out; echo err >&2; exit 3")
        ended(job_id)
        shown = redirected(cli, "2>&-", "logs", "-f", job_id)
        assert (shown.stdout, shown.returncode) == ("out\n", 3)


class TestHowFollowingEnds:
    @pytest.mark.parametrize(
        ("command", "options", "code", "said"),
        [
            ("exit 0", [], 0, r"exit 0 after \d+\.\d s"),
            ("exit 2", [], 2, r"exit 2 after \d+\.\d s"),
            ("kill -9 $$", [], 137, r"SIGKILL after \d+\.\d s"),
            ("sleep 1000", ["--timeout", "0.1"], 124, r"timed out after \d+\.\d s"),
        ],
    )
    def test_it_says_how_the_job_ended_and_exits_so(
        self, cli: Cli, command: str, options: list[str], code: int, said: str
    ) -> None:
        followed = cli("logs", "-f", cli.run(*options, "--", command))
        assert followed.returncode == code
        assert re.fullmatch(rf"\[{said}\]\n", followed.stderr)

    def test_to_read_a_log_is_not_to_fail(self, cli: Cli, ended: Ended) -> None:
        job_id = cli.run("echo err >&2; exit 3")
        ended(job_id)
        read = cli("logs", job_id)
        assert (read.returncode, read.stderr) == (0, "err\n")


TOOL_WORDS = re.compile(rf"\b(?:{'|'.join(TOOLS.tools)})\b|[a-z_]+=\S|\b[Pp]ass\b")
SAMPLES = {str: "X", object: "X", int: 3, OSError: OSError(28, "No space left on device")}


class TestErrors:
    @pytest.mark.parametrize("kind", BgjobError.__subclasses__(), ids=lambda kind: kind.__name__)
    def test_none_speaks_of_tools(self, kind: type[BgjobError]) -> None:
        parameters = inspect.signature(kind).parameters.values()
        required = [each.annotation for each in parameters if each.default is each.empty]
        error = kind(*(SAMPLES[annotation] for annotation in required))  # type: ignore[arg-type]
        assert TOOL_WORDS.findall(in_our_words(error)) == []

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["run", "--timeout", "0", "true"], "--timeout=0.0 is not a time"),
            (["run", "--limit", "memory=lots", "true"], "--limit memory='lots' is not valid"),
            (["events", "--since", "1-2"], "Give one exactly as bgjob printed it, or a time, e.g. 8h"),
            (["run", "--shell", "fish", "true"], "--shell='fish' is not one we can use here"),
        ],
        ids=lambda value: " ".join(value)[:30] if isinstance(value, list) else "",
    )
    def test_they_name_the_option(self, cli: Cli, arguments: list[str], said: str) -> None:
        assert_one_line_of_error(cli(*arguments), said)

    def test_no_free_slot_is_told_with_the_option_that_waits_for_one(self, cli: Cli, tmp_path: Path) -> None:
        lonely = {"BGJOB_HOME": str(tmp_path / "lonely"), "MCP_BG_MAX_JOBS": "1"}
        try:
            assert cli("run", "cat", env=lonely).returncode == 0
            refused = cli("run", "cat", env=lonely)
            assert_one_line_of_error(refused, "Job limit reached", "bgjob run --queue", "bgjob kill")
            assert TOOL_WORDS.findall(refused.stderr) == []
        finally:
            end_all_jobs(tmp_path / "lonely")

    def test_an_option_has_its_own_name_only_here(self) -> None:
        error = InvalidArgument("=0 is not a time.", argument="timeout_s")
        assert (str(error), in_our_words(error)) == (
            "timeout_s=0 is not a time.",
            "--timeout=0 is not a time.",
        )


class TestADirectoryThatWasDeleted:
    def in_a_deleted_directory(self, cli: Cli, place: Path, *arguments: str) -> Result:
        place.mkdir()
        return subprocess.run(
            ["/bin/sh", "-c", 'rmdir "$PWD" && exec "$0" "$@"', BGJOB, *arguments],
            env=cli.environment,
            cwd=place,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )

    @pytest.mark.parametrize("options", [[], ["--cwd", "there"]], ids=" ".join)
    def test_is_one_line_of_error_where_the_job_was_to_run_there(
        self, cli: Cli, tmp_path: Path, options: list[str]
    ) -> None:
        refused = self.in_a_deleted_directory(cli, tmp_path / "gone", "run", *options, "true")
        assert_one_line_of_error(refused, "was deleted. Nothing was run.", "--cwd with an absolute path")

    def test_does_not_matter_where_it_was_not(self, cli: Cli, ended: Ended, tmp_path: Path) -> None:
        started = self.in_a_deleted_directory(cli, tmp_path / "gone", "run", "--cwd", "/", "pwd")
        assert (started.returncode, started.stderr) == (0, "")
        ended(started.stdout.strip())
        assert (
            self.in_a_deleted_directory(cli, tmp_path / "gone", "logs", started.stdout.strip()).stdout
            == "/\n"
        )

    def test_is_told_by_a_server_which_goes_on_elsewhere(
        self, start_server: StartServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (place := tmp_path / "gone").mkdir()
        monkeypatch.chdir(place)
        server = start_server()
        place.rmdir()
        for options in ({}, {"cwd": "there"}):
            with pytest.raises(ToolError, match=r"was deleted\. Nothing was run\. Pass an absolute cwd"):
                server.execute("pwd", **options)
        assert server.call("execute_command", command="pwd", cwd="/", wait_s=30)["stdout"] == "/\n"

    def test_may_also_be_the_one_of_the_settings(self, tmp_path: Path) -> None:
        (place := tmp_path / "gone").mkdir()
        jobs = open_jobs({"BGJOB_HOME": str(tmp_path / "home"), "MCP_BG_WORKING_DIR": str(place)}, many=False)
        place.rmdir()
        with pytest.raises(WorkingDirectoryGone, match=str(place)):
            jobs.execute("pwd")

    def test_is_no_place_that_an_allow_list_allows(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (place := tmp_path / "gone").mkdir()
        monkeypatch.chdir(place)
        jobs = open_jobs({"BGJOB_HOME": str(tmp_path / "home"), "MCP_BG_ALLOWED_COMMANDS": "pwd"}, many=False)
        place.rmdir()
        with pytest.raises(WorkingDirectoryGone):
            jobs.execute("pwd", cwd="/")


class TestSecrets:
    def test_go_by_the_environment_and_are_in_no_command(
        self, cli: Cli, ended: Ended, gate: Gate, jobs: Jobs
    ) -> None:
        """The caller's own variable is only named: its value is in nobody's arguments, the caller's or the job's."""
        environment = {"MCP_BG_MAX_JOBS": "99", "TOKEN": "s3cret"}
        started = cli(
            "run", "--env", "TOKEN", "--env", "MCP_BG_MAX_JOBS", "--env", "MODE=a=b", "--",
            f'{gate.pause}; echo "$TOKEN $MCP_BG_MAX_JOBS $MODE"', env=environment,
        )  # fmt: skip
        job_id = started.stdout.strip()
        gate.wait_until_reached()
        run = jobs.status(job_id).job.run
        assert run is not None
        arguments = Path(f"/proc/{run.pid}/cmdline").read_bytes() if sys.platform == "linux" else b""
        gate.open()
        ended(job_id)
        assert cli("logs", job_id).stdout == "s3cret 99 a=b\n"
        assert b"s3cret" not in arguments

    def test_a_variable_that_the_caller_does_not_have_is_an_error(self, cli: Cli) -> None:
        assert "NO_SUCH" not in os.environ
        refused = cli("run", "--env", "NO_SUCH", "true")
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "'NO_SUCH' is not in your environment" in refused.stderr

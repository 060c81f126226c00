"""bgjob run: what it starts, how it stays with it, and as which exit code."""

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from bgjob.api import Jobs
from tests.faces.command_line import BGJOB, UUID, Cli, Ended
from tests.support.gate import Gate
from tests.support.homes import end_all_jobs
from tests.support.tmux import terminal

AFTER = r"after \d+\.\d s\]\n"
ENDS = [
    ("exit 0", [], 0, rf"\[exit 0 {AFTER}"),
    ("exit 7", [], 7, rf"\[exit 7 {AFTER}"),
    ("exit 125", [], 125, rf"\[exit 125 {AFTER}"),
    ("kill -9 $$", [], 137, rf"\[SIGKILL {AFTER}"),
    ("kill -TERM $$", [], 143, rf"\[SIGTERM {AFTER}"),
    ("sleep 1000", ["--timeout", "0.1"], 124, rf"\[timed out {AFTER}"),
    ("trap '' TERM; exit 3", ["--after", "{failed}"], 125, r"\[did not start: .*\]\n"),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("run") / "home"
    yield home
    end_all_jobs(home)


@pytest.fixture(scope="module")
def cli(home: Path) -> Cli:
    return Cli(home)


@pytest.fixture(scope="module")
def failed(cli: Cli) -> str:
    """A job that has failed."""
    job_id = cli.run("exit 1")
    assert cli("wait", job_id).returncode == 1
    return job_id


def job_ids(jobs: Jobs) -> set[str]:
    return {job.id for job in jobs.list(limit=1000).jobs}


class TestTheExitCode:
    @pytest.mark.parametrize(("command", "options", "code", "said"), ENDS)
    def test_waited_for_it_is_that_of_the_job(
        self, cli: Cli, failed: str, command: str, options: list[str], code: int, said: str
    ) -> None:
        waited = cli("run", "--wait", *(option.format(failed=failed) for option in options), "--", command)
        assert waited.returncode == code
        assert UUID.fullmatch(waited.stdout)
        assert re.fullmatch(said, waited.stderr), waited.stderr

    @pytest.mark.parametrize(("command", "options", "code", "said"), ENDS)
    def test_followed_it_is_too(
        self, cli: Cli, failed: str, command: str, options: list[str], code: int, said: str
    ) -> None:
        followed = cli("run", "-f", *(option.format(failed=failed) for option in options), "--", command)
        assert (followed.returncode, followed.stdout) == (code, "")
        assert re.fullmatch(said, followed.stderr), followed.stderr

    @pytest.mark.parametrize(
        ("until", "command", "code", "said"),
        [
            ("pattern=rea.y", "echo it is ready; exec cat", 0, r"\[printed: it is ready\]\n"),
            ("input", "printf 'Name: '; read name", 0, r"\[waits for input: Name:\]\n"),
            ("silence=0.2s", "exec cat", 0, r"\[has fallen silent\]\n"),
            ("pattern=ready", "exit 0", 1, rf"\[exit 0 {AFTER}"),
            ("port=5999", "exit 3", 3, rf"\[exit 3 {AFTER}"),
        ],
    )
    def test_until_something_it_is_0_where_that_came_true(
        self, cli: Cli, until: str, command: str, code: int, said: str
    ) -> None:
        waited = cli("run", "--until", until, "--", command)
        assert waited.returncode == code
        assert UUID.fullmatch(waited.stdout)
        assert re.fullmatch(said, waited.stderr), waited.stderr

    @pytest.mark.parametrize("stay", [["--wait"], ["-f"], ["--until", "input"], ["-it"]], ids=" ".join)
    def test_an_error_of_bgjob_is_125(self, cli: Cli, jobs: Jobs, stay: list[str]) -> None:
        before = job_ids(jobs)
        refused = cli("run", *stay, "--cwd", "/no/such/place", "true")
        assert (refused.returncode, refused.stdout) == (125, "")
        assert len(refused.stderr.splitlines()) == 1
        assert job_ids(jobs) == before

    def test_a_pattern_that_is_none_is_told_before_anything_is_started(self, cli: Cli, jobs: Jobs) -> None:
        before = job_ids(jobs)
        refused = cli("run", "--until", "pattern=(", "true")
        assert (refused.returncode, "is not valid: missing )" in refused.stderr) == (125, True)
        assert job_ids(jobs) == before

    @pytest.mark.parametrize(
        "arguments",
        [
            ["-f", "--wait"],
            ["-f", "--until", "input"],
            ["--until", "port=x"],
            ["--until", "nothing"],
            ["--until", "pattern="],
            ["--until", "port=1", "--until", "port=2"],
            ["--json", "-f"],
            ["--pty", "--stdin", "null"],
            ["--stdin", "closed"],
            ["-x"],
            ["-fx"],
        ],
        ids=" ".join,
    )
    def test_wrong_usage_is_2_and_nothing_is_started(
        self, cli: Cli, jobs: Jobs, arguments: list[str]
    ) -> None:
        before = job_ids(jobs)
        refused = cli("run", *arguments, "true")
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "Traceback" not in refused.stderr
        assert job_ids(jobs) == before


class TestStaying:
    def test_followed_it_prints_the_output_as_it_comes_and_no_id(self, cli: Cli, gate: Gate) -> None:
        command = f"echo out; echo err >&2; {gate.pause}; echo more; exit 4"
        with cli.begin("run", "-f", "--", command) as following:
            assert following.stdout is not None
            assert following.stderr is not None
            assert (following.stdout.readline(), following.stderr.readline()) == ("out\n", "err\n")
            gate.wait_until_reached()
            gate.open()
            stdout, stderr = following.communicate(timeout=120)
        assert (stdout, following.returncode) == ("more\n", 4)
        assert re.fullmatch(rf"\[exit 4 {AFTER}", stderr)

    @pytest.mark.parametrize("stay", [["-f"], ["--wait"], ["--until", "pattern=never"]], ids=" ".join)
    def test_ctrl_c_ends_the_staying_and_the_job_goes_on(
        self, cli: Cli, jobs: Jobs, gate: Gate, stay: list[str]
    ) -> None:
        before = job_ids(jobs)
        with cli.begin("run", *stay, "--", f"echo ready; {gate.pause}; exit 3") as staying:
            gate.wait_until_reached()
            (job_id,) = job_ids(jobs) - before
            assert staying.stdout is not None
            assert staying.stdout.readline() == ("ready\n" if stay == ["-f"] else f"{job_id}\n")
            staying.send_signal(signal.SIGINT)
            stdout, stderr = staying.communicate(timeout=120)
        assert (staying.returncode, stdout) == (130, "")
        assert stderr == f"[the job goes on; bgjob kill {job_id[:8]} ends it]\n"
        gate.open()
        assert cli("wait", job_id).returncode == 3

    def test_at_a_terminal_too(self, cli: Cli, jobs: Jobs, gate: Gate, tmp_path: Path) -> None:
        """There the ctrl-c goes to all processes of the terminal: the job is not one of them."""
        before = job_ids(jobs)
        shell = [
            "sh",
            "-c",
            f"trap : INT; {BGJOB} run -f -- 'echo ready; {gate.pause}; exit 3'; echo code $?; exec cat",
        ]
        with terminal(shell, tmp_path, cli.environment) as opened:
            gate.wait_until_reached()
            (job_id,) = job_ids(jobs) - before
            opened.wait_for("ready")
            opened.press("C-c")
            opened.wait_for("code 130")
            assert f"[the job goes on; bgjob kill {job_id[:8]} ends it]" in opened.screen
        gate.open()
        assert cli("wait", job_id).returncode == 3

    def test_as_json_the_job_is_an_object(self, cli: Cli) -> None:
        started = json.loads(cli("run", "--json", "--name", "it", "true").stdout)
        assert (started["name"], started["command"]) == ("it", "true")
        waited = json.loads(cli("run", "--json", "--wait", "exit 3").stdout)
        assert (waited["status"], waited["exit_code"], waited["met"]) == ("failed", 3, True)

    def test_to_enter_it_needs_a_terminal(self, cli: Cli, jobs: Jobs) -> None:
        before = job_ids(jobs)
        refused = cli("run", "-it", "bash")
        assert (refused.returncode, refused.stdout) == (125, "")
        assert refused.stderr.startswith(
            "bgjob: -i needs a terminal on stdin and on stdout. Nothing was run."
        )
        assert job_ids(jobs) == before


class TestWhatIsStarted:
    @pytest.mark.parametrize(
        ("arguments", "printed"),
        [
            (["printf", "%s|", "-f", "--name", "x", "--"], "-f|--name|x|--|"),
            (["--", "printf", "%s|", "-it"], "-it|"),
            (["--name=it", "printf", "%s|", "--wait"], "--wait|"),
            (["--name", "it", "--", "printf", "%s|", "a b"], "a b|"),
            (["--env", "X=-y", "--", 'printf "%s|" "$X"'], "-y|"),
            (["--env=X=1=2", 'printf "%s|" "$X"'], "1=2|"),
            (["-t", "printf", "%s|", "-t"], "-t|"),
            (["--until", "pattern=never", "printf", "%s|", "--until"], "--until|"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_what_follows_the_first_word_of_the_command_is_its_own(
        self, cli: Cli, ended: Ended, arguments: list[str], printed: str
    ) -> None:
        started = cli("run", *arguments)
        ended(started.stdout.strip())
        assert cli("logs", started.stdout.strip()).stdout == printed

    @pytest.mark.parametrize("stay", ["-f", "--follow"])
    def test_so_it_is_after_an_option_without_a_value(self, cli: Cli, stay: str) -> None:
        assert cli("run", stay, "printf", "%s|", "-f", "--json").stdout == "-f|--json|"

    @pytest.mark.parametrize(
        "arguments", [["-f"], ["--name", "x"], ["--name", "x", "--"], ["--"]], ids=" ".join
    )
    def test_without_a_command_it_asks_for_one(self, cli: Cli, arguments: list[str]) -> None:
        refused = cli("run", *arguments)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "what is to be run?" in refused.stderr

    def test_a_terminal_of_its_own_is_as_large_as_this_one(self, cli: Cli, tmp_path: Path) -> None:
        shell = ["sh", "-c", f"{BGJOB} run -f --pty -- 'test -t 0 && stty size'; exec cat"]
        with terminal(shell, tmp_path, cli.environment, columns=101, lines=33) as opened:
            opened.wait_for("33 101")

    def test_or_of_the_usual_size(self, cli: Cli) -> None:
        assert cli("run", "-f", "--pty", "stty size").stdout == "24 80\n"

    def test_its_stdin_may_be_at_its_end(self, cli: Cli) -> None:
        assert cli("run", "-f", "--stdin", "null", "cat; echo end").stdout == "end\n"

    @pytest.mark.parametrize("shell", ["sh", "bash"])
    def test_its_shell_is_the_callers_choice(self, cli: Cli, shell: str) -> None:
        assert cli("run", "-f", "--shell", shell, 'echo "$0"').stdout.strip().endswith(shell)

    def test_a_shell_that_is_none_is_told_with_those_that_are(self, cli: Cli) -> None:
        refused = cli("run", "--shell", "fish", "true")
        assert (refused.returncode, refused.stdout) == (1, "")
        assert re.match(r"bgjob: --shell='fish' is not one we can use here\. Accepted: .*sh", refused.stderr)

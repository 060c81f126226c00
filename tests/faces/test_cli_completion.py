"""Completion in real shells: what a tab inserts is the command, the option, or exactly the job that is meant."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bgjob.api import Jobs
from bgjob.core.job import Killed
from tests.faces.command_line import BGJOB, Cli, Ended
from tests.support.requires import needs
from tests.support.tmux import Terminal, terminal

READY = "READY> "
START = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}
# its history and its questions about the terminal are not what is tested here
PREPARE = {
    "bash": f"""PS1='{READY}'; set +H; eval "$(bgjob completion bash)" """,
    "zsh": f"""autoload -Uz compinit; compinit -u -D; eval "$(bgjob completion zsh)"; PS1='{READY}'""",
    "fish": f"""bgjob completion fish | source; function fish_prompt; echo -n '{READY}'; end""",
}
NAMES = [
    "plain",
    "two words",
    "$(touch pwned)",
    "`touch pwned`",
    "a;touch pwned",
    "a && touch pwned",
    "> pwned",
    "${IFS}$HOME",
    "it's",
    'say "hi"',
    "back\\slash",
    "~root",
    "#comment",
    "star*[a-z]?{a,b}",
    "colon:and=equals@at",
    "!history",
    "-dash",
    "ünï 木",
    "%s %d",
    "(sub)",
    "^caret",
]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where the shell runs: empty, so that whatever a tab or a line makes there is seen."""
    (tmp_path / "place").mkdir()
    return tmp_path / "place"


@pytest.fixture
def cli(home: Path) -> Cli:
    return Cli(home)


@pytest.fixture(
    params=["bash", pytest.param("zsh", marks=needs("zsh")), pytest.param("fish", marks=needs("fish"))]
)
def shell(request: pytest.FixtureRequest, home: Path, place: Path, tmp_path: Path) -> Iterator[Terminal]:
    """At its prompt, with the completion of bgjob."""
    (tmp_path / "bin").mkdir()
    shutil.copy("/bin/true", tmp_path / "bin" / "uncommon-program")
    environment = {
        "PATH": f"{tmp_path / 'bin'}:{Path(BGJOB).parent}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "LANG": "C.UTF-8",
        "BGJOB_HOME": str(home),
    }
    with terminal(START[request.param], place, environment) as opened:
        opened.wait_for("$", "%", ">", "#")
        opened.type(PREPARE[request.param])
        opened.press("Enter")
        wait_for_prompt(opened)
        yield opened


def wait_for_prompt(shell: Terminal) -> None:
    def is_at_prompt() -> bool:
        lines = shell.screen.rstrip().splitlines()
        return bool(lines) and lines[-1].rstrip() == READY.rstrip()

    shell.wait_until(is_at_prompt, "the shell is at its prompt")


@needs("tmux")
class TestAShell:
    def test_completes_commands_options_and_values(self, shell: Terminal) -> None:
        for typed, whole in (
            ("bgjob prio", "bgjob priority"),
            ("bgjob run --max-re", "bgjob run --max-restarts"),
            ("bgjob ps --status runn", "bgjob ps --status running"),
            ("bgjob ps --status=runn", "bgjob ps --status=running"),
            ("bgjob token rem", "bgjob token remove"),
            ("bgjob completion zs", "bgjob completion zsh"),
        ):
            shell.type(typed)
            shell.press("Tab")
            shell.wait_for(f"{READY}{whole}")
            shell.press("C-u")
            wait_for_prompt(shell)

    def test_inserts_any_name_so_that_it_is_the_job_and_nothing_is_run(
        self, cli: Cli, shell: Terminal, jobs: Jobs, ended: Ended, place: Path
    ) -> None:
        """The newest jobs have ended: only the one that is meant can still be killed, and a tab finds it."""
        for name in NAMES:
            meant = cli.run(f"--name={name}", "--", "sleep", "1000")
            ended(cli.run("true"))
            shell.type("bgjob kill ")
            shell.press("Tab", "Enter")
            shell.wait_for("killed (1 process)")
            assert isinstance(jobs.status(meant).job.state, Killed)
            shell.press("C-l")
            shell.wait_until(lambda: "killed" not in shell.screen, "the screen is cleared")
            wait_for_prompt(shell)
        assert list(place.iterdir()) == []

    @pytest.mark.parametrize("typed", ["'two wo", '"two wo', "two\\ wo"])
    def test_goes_on_within_the_quotes_that_were_typed(self, cli: Cli, shell: Terminal, typed: str) -> None:
        for name in ("two words", "two others"):
            cli.run("--name", name, "--", "sleep", "1000")
        shell.type(f"bgjob kill {typed}")
        shell.press("Tab", "Enter")
        shell.wait_for("killed (1 process)")

    def test_leaves_files_and_the_commands_of_others_to_the_shell(self, shell: Terminal, place: Path) -> None:
        (place / "certificate.pem").touch()
        for typed, whole in (
            ("bgjob serve --tls-cert certif", "bgjob serve --tls-cert certificate.pem"),
            ("bgjob run --name x -- uncommon-pr", "bgjob run --name x -- uncommon-program"),
        ):
            shell.type(typed)
            shell.press("Tab")
            shell.wait_for(f"{READY}{whole}")
            shell.press("C-u")
            wait_for_prompt(shell)

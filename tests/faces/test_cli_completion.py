"""Completion in real shells: what a tab inserts is the command, the option, or exactly the job that is meant."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bgjob.api import Jobs
from bgjob.cli.completion.bash_words import cursor_at
from bgjob.core.job import Killed
from tests.faces.command_line import BGJOB, Cli, Ended
from tests.support.requires import needs
from tests.support.stores import job_with
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
PRINTABLE = st.text(
    st.characters(min_codepoint=32, exclude_categories=["C", "Z"], include_characters=" "), min_size=1
)


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


@given(st.lists(PRINTABLE, min_size=1, max_size=20))
def test_bash_reads_what_is_inserted_as_the_name(names: list[str]) -> None:
    completed = [
        (name, f"{quote}{word}{quote}")
        for name in names
        for quote in ("", "'", '"')
        if (word := cursor_at(f"bgjob logs {quote}", ":=").completed(name)) is not None
    ]
    script = f"printf '%s\\n' {' '.join(word for _, word in completed)}"
    told = subprocess.run(["bash", "-c", script], capture_output=True, encoding="utf-8", check=True)
    assert told.stderr == ""
    assert told.stdout.split("\n")[:-1] == [name for name, _ in completed]


class TestTheWords:
    """As a shell is given them."""

    def test_of_jobs_are_names_and_the_ids_of_those_without_newest_first(self, cli: Cli, home: Path) -> None:
        unnamed = job_with(home, command="make all")
        for name in ("web", "web", "api"):
            job_with(home, name=name)
        told = cli("completion", "--complete", "zsh", "bgjob", "logs", "").stdout.splitlines()
        assert told[0] == "words"
        assert [line.split("\t")[0] for line in told[1:]][:2] == ["api", "web"]
        assert told[-1] == f"{unnamed[:8]}\tended: make all"

    def test_of_jobs_are_ids_too_once_something_is_typed(self, cli: Cli, home: Path) -> None:
        job_id = job_with(home, name="web")
        told = cli("completion", "--complete", "bash", f"bgjob logs {job_id[:2]}", ":").stdout
        assert told == f"words\n{job_id[:8]}\n"

    @pytest.mark.parametrize(
        "name", ["a\x1b[31mb", "a\nb", "a\tb", "a\u202eb", "\ud800", "-x", "~x", 5, ["a"]]
    )
    def test_of_a_job_with_a_name_that_no_line_can_have_are_its_id(
        self, cli: Cli, home: Path, name: object
    ) -> None:
        job_id = job_with(home, name=name, command="echo \x1b[2J\n\ttrue")
        told = cli("completion", "--complete", "zsh", "bgjob", "logs", "").stdout
        assert told.startswith(f"words\n{job_id[:8]}\tended: echo ")
        assert told.count("\n") == 2
        assert "\x1b" not in told

    def test_of_a_home_that_others_could_have_changed_are_none(self, cli: Cli, home: Path) -> None:
        job_with(home, name="web")
        home.chmod(0o777)
        told = cli("completion", "--complete", "zsh", "bgjob", "logs", "")
        home.chmod(0o700)
        assert (told.stdout, told.stderr, told.returncode) == ("words\n", "", 0)

    def test_look_makes_no_home(self, cli: Cli, home: Path) -> None:
        assert cli("completion", "--complete", "zsh", "bgjob", "logs", "").stdout == "words\n"
        assert not home.exists()

    @pytest.mark.parametrize(
        ("line", "kind", "words"),
        [
            ("bgjob run --restart ", "words", {"no", "on-failure", "always"}),
            ("bgjob run --name x --", "words", {"--queue", "--restart"}),
            ("bgjob run --cwd ", "directories", set()),
            ("bgjob run --name make ", "command 4", set()),
            ("bgjob run -- make --", "command 3", set()),
            ("bgjob run make --", "command 2", set()),
            ("bgjob notify add ", "words", {"desktop", "bell", "webhook"}),
            ("bgjob notify add bell --t", "words", {"--tty"}),
            ("bgjob help do", "words", {"doctor"}),
            ("bgjob config keep_d", "words", {"keep_days"}),
            ("bgjob nonsense ", "words", set()),
            ("bgjob logs -- --", "words", set()),
        ],
    )
    def test_are_those_that_the_command_accepts_there(
        self, cli: Cli, line: str, kind: str, words: set[str]
    ) -> None:
        told = cli("completion", "--complete", "bash", line, " :=").stdout.splitlines()
        assert told[0] == kind
        assert words <= {*told[1:]}
        assert bool(words) == bool(told[1:])

    @pytest.mark.parametrize("arguments", [[], ["bash"], ["tcsh", "bgjob "], ["zsh"], ["zsh", "bgjob"]])
    def test_of_a_wrong_call_are_no_error(self, cli: Cli, arguments: list[str]) -> None:
        told = cli("completion", "--complete", *arguments)
        assert (told.returncode, told.stderr) == (0, "")

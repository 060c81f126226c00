"""`bgjob top` in a real terminal: what it shows, what its keys do, and what it leaves behind."""

import os
import re
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import wcwidth  # type: ignore[import-untyped, unused-ignore]

from bgjob.api import Jobs
from bgjob.store.store import Store
from tests.faces.command_line import BGJOB, Cli, Ended, assert_one_line_of_error
from tests.support.escapes import ESCAPES, PWNED, STEERS, UNSEEN, as_text
from tests.support.gate import Gate
from tests.support.stores import ended_job, job_with
from tests.support.tmux import Terminal, terminal
from tests.support.waiting import wait_until

NAME_CHARACTERS = 150
UTF8 = {"LANG": "C.UTF-8"}


@pytest.fixture
def cli(home: Path) -> Cli:
    return Cli(home)


@contextmanager
def top(
    cli: Cli, *arguments: str, columns: int = 100, lines: int = 30, env: dict[str, str] | None = None
) -> Iterator[Terminal]:
    """In a terminal of this size, when it shows the list."""
    command = [BGJOB, "top", *arguments]
    environment = {**variables(cli), **(env or {})}
    with terminal(command, Path("/"), environment, columns, lines) as opened:
        opened.resize(columns, lines)
        opened.wait_for("STATE")
        yield opened


def variables(cli: Cli) -> dict[str, str]:
    ours = {name: value for name, value in cli.environment.items() if name.startswith(("BGJOB", "MCP_BG"))}
    return {**ours, **UTF8, "PATH": os.environ["PATH"]}


def row_of(shown: Terminal, name: str) -> str:
    """The row of the list with this job; empty if there is none."""
    rows = shown.screen.splitlines()[2:]
    return next((row for row in rows if re.match(rf"\S+(?: \S+)? +{re.escape(name)}\b", row)), "")


def wait_for_row(shown: Terminal, name: str, *words: str) -> None:
    shown.wait_until(
        lambda: all(word in row_of(shown, name) for word in [name, *words]), f"{name} is listed with {words}"
    )


def wait_for_title(shown: Terminal, name: str) -> None:
    shown.wait_until(lambda: f"── {name} ·" in shown.screen, f"{name} is selected")


def listed(shown: Terminal) -> list[str]:
    """The names in the list, from above."""
    rows = shown.screen.split("──")[0].splitlines()[2:]
    return [re.split(r" {2,}", row)[1].split()[0] for row in rows if row.strip()]


class TestTheList:
    def test_who_waits_for_a_person_is_first_then_what_runs_is_queued_and_ended(
        self, cli: Cli, ended: Ended, gate: Gate
    ) -> None:
        cli.run("--name", "asks", "printf 'Really deploy? [y/N] '; read answer")
        ended(cli.run("--name", "good", "true"))
        ended(cli.run("--name", "bad", "exit 3"))
        cli.run("--name", "runs", gate.pause)
        gate.wait_until_reached()
        cli.run("--name", "later", "--delay", "1000", "true")
        with top(cli) as shown:
            wait_for_row(shown, "asks", "waits", "Really deploy? [y/N]")
            wait_for_row(shown, "runs", "running", "0%")
            wait_for_row(shown, "later", "queued", "it is to start in")
            wait_for_row(shown, "bad", "exit 3")
            wait_for_row(shown, "good", "exit 0")
            assert listed(shown) == ["asks", "runs", "later", "bad", "good"]
            counts = shown.screen.splitlines()[0]
            assert re.match(r"bgjob  1 waits for you  1 running  1 queued  2 ended +1/5$", counts)
        gate.open()

    def test_ends_have_their_cause(self, cli: Cli, ended: Ended) -> None:
        ended(cli.run("--name", "late", "--timeout", "0.1", "sleep 100"))
        ended(cli.run("--name", "shot", "kill -SEGV $$"))
        killed = cli.run("--name", "stopped", "sleep 100")
        assert cli("kill", killed).returncode == 0
        with top(cli) as shown:
            wait_for_row(shown, "late", "timeout")
            wait_for_row(shown, "shot", "SIGSEGV")
            wait_for_row(shown, "stopped", "killed")

    def test_what_starts_and_ends_later_is_seen(self, cli: Cli, gate: Gate) -> None:
        with top(cli) as shown:
            shown.wait_for("There are no jobs yet")
            cli.run("--name", "new", gate.pause)
            gate.wait_until_reached()
            wait_for_row(shown, "new", "running")
            gate.open()
            wait_for_row(shown, "new", "exit 0")

    def test_a_busy_job_has_a_line_of_its_cpu_and_is_first_by_cpu(self, cli: Cli) -> None:
        cli.run("--name", "busy", "while :; do :; done")
        cli.run("--name", "idle", "sleep 1000")
        with top(cli, "--sort", "cpu") as shown:
            shown.wait_until(
                lambda: re.search(r"[1-9]\d*% +[▁▂▃▄▅▆▇█]{2,}", row_of(shown, "busy")) is not None,
                "its CPU is drawn",
            )
            assert listed(shown) == ["busy", "idle"]
            assert re.search(r" 0% +▁+ ", row_of(shown, "idle"))

    def test_without_utf8_it_is_drawn_in_ascii(self, cli: Cli) -> None:
        cli.run("--name", "busy", "echo ünï; while :; do :; done")
        with top(cli, env={"LC_ALL": "C"}) as shown:
            shown.wait_until(
                lambda: re.search(r"\d% +[_.=+*%#-]{2,}", row_of(shown, "busy")) is not None, "a line"
            )
            shown.wait_for("?n?")
            assert shown.screen.isascii()

    @pytest.mark.parametrize(("env", "is_coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
    def test_colours_can_be_refused(
        self, cli: Cli, ended: Ended, env: dict[str, str], is_coloured: bool
    ) -> None:
        cli.run("--name", "asks", "printf 'Really? '; read answer")
        ended(cli.run("--name", "bad", "exit 3"))
        with top(cli, env=env) as shown:
            wait_for_row(shown, "asks", "waits", "Really?")
            wait_for_row(shown, "bad", "exit 3")
            assert bool(re.search(r"\x1b\[(?:\d+;)*3[0-7]m", shown.screen_with_colours)) == is_coloured

    def test_the_port_of_a_server_is_shown(self, cli: Cli) -> None:
        program = "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); s.accept()"
        cli.run("--name", "server", sys.executable, "-c", program)
        with top(cli) as shown:
            shown.wait_until(lambda: re.search(r" :\d+ ", row_of(shown, "server")) is not None, "a port")


class TestKeys:
    def test_they_go_through_more_jobs_than_there_is_room_for(self, cli: Cli, home: Path) -> None:
        store, now = Store(str(home)), time.time()
        for number in range(1200):
            ended_job(store, created_at=now - number, ended_at=now - number, name=f"job{number:04}")
        with top(cli) as shown:
            shown.wait_for("1,200 ended")
            steps = [
                ("Down", "job0001"),
                ("j", "job0002"),
                ("Up", "job0001"),
                ("k", "job0000"),
                ("End", "job1199"),
                ("Home", "job0000"),
                ("PageDown", "job0015"),
                ("PageDown", "job0030"),
                ("PageUp", "job0015"),
            ]
            for key, name in steps:
                shown.press(key)
                wait_for_title(shown, name)
                assert name in listed(shown)
            assert "16/1,200" in shown.screen

    def test_the_filter_applies_while_it_is_typed(self, cli: Cli, home: Path) -> None:
        for name in ("apple", "apricot", "banana"):
            ended_job(Store(str(home)), name=name)
        with top(cli) as shown:
            shown.wait_for("3 ended")
            shown.type("/")
            shown.type("name=ap")
            shown.wait_until(lambda: sorted(listed(shown)) == ["apple", "apricot"], "two fit")
            shown.type("r")
            shown.wait_until(lambda: listed(shown) == ["apricot"], "one fits")
            shown.press("Enter")
            shown.wait_for("filter name=apr")
            shown.press("Escape")
            shown.wait_until(lambda: len(listed(shown)) == 3, "all are shown again")
            shown.type("/status=x")
            shown.wait_for("is no status. Accepted: queued, running")

    def test_filter_and_order_can_be_given(self, cli: Cli, home: Path) -> None:
        now = time.time()
        for age, name in enumerate(("new", "newer", "old", "oldest")):
            ended_job(Store(str(home)), created_at=now - age, ended_at=now + age, name=name)
        with top(cli, "--filter", "name=new", "--sort", "age") as shown:
            shown.wait_until(lambda: listed(shown) == ["new", "newer"], "the newest is first")
            shown.press("s")
            shown.wait_until(lambda: listed(shown) == ["newer", "new"], "the last end is first")

    def test_a_kill_asks_first(self, cli: Cli, jobs: Jobs) -> None:
        job_id = cli.run("--name", "victim", "sleep 1000")
        with top(cli) as shown:
            wait_for_row(shown, "victim", "running")
            shown.press("x")
            shown.wait_for(f"Kill victim ({job_id[:8]}) and all it started? y/n")
            shown.press("n")
            shown.wait_for("enter attach")
            assert "running" in row_of(shown, "victim")
            shown.press("x")
            shown.wait_for("Kill victim")
            shown.press("y")
            wait_for_row(shown, "victim", "killed")
            shown.wait_for("victim: killed (1 process)")
        assert jobs.status(job_id).descendants == 0

    def test_a_pause_holds_everything_still(self, cli: Cli, gate: Gate) -> None:
        with top(cli) as shown:
            shown.wait_for("There are no jobs yet")
            shown.press("Space")
            shown.wait_for("paused")
            cli.run("--name", "new", gate.pause)
            gate.wait_until_reached()
            assert row_of(shown, "new") == ""
            shown.press("Space")
            wait_for_row(shown, "new", "running")
            assert "paused" not in shown.screen
            gate.open()

    def test_help_tells_of_them_all(self, cli: Cli) -> None:
        with top(cli, columns=60, lines=20) as shown:
            shown.press("?")
            shown.wait_for("kill it, with everything it started")
            assert "quit; the jobs go on" in shown.screen
            shown.press("Escape")
            shown.wait_for("STATE")


class TestThePreview:
    def test_it_follows_what_the_selected_job_prints(self, cli: Cli, gate: Gate) -> None:
        cli.run("--name", "talks", f"echo first; {gate.pause}; echo second; {gate.pause}")
        with top(cli) as shown:
            shown.wait_for("\nfirst\n")
            gate.wait_until_reached()
            gate.open()
            shown.wait_for("\nfirst\nsecond\n")
            gate.wait_until_reached()
            gate.open()

    def test_of_a_full_screen_job_it_is_the_screen(self, cli: Cli, jobs: Jobs) -> None:
        jobs.execute(r"printf '\033[?1049h\033[H\033[2J\033[2;6Hsecond row'; read x", pty=True, name="paints")
        with top(cli) as shown:
            wait_for_title(shown, "paints")
            shown.wait_until(
                lambda: shown.screen.partition("── paints")[2].splitlines()[1:3] == ["", "     second row"],
                "its second row is the second of the preview",
            )

    def test_output_has_all_of_the_screen_and_scrolls_to_its_beginning(self, cli: Cli, ended: Ended) -> None:
        ended(cli.run("--name", "counts", f"seq 1 3000; printf '{'x' * 150}\\n'"))
        with top(cli) as shown:
            wait_for_title(shown, "counts")
            shown.press("l")
            shown.wait_for("q back")
            shown.wait_until(lambda: len(shown.screen.splitlines()) == 30, "it fills the screen")
            assert shown.screen.splitlines()[-3:-1] == ["x" * 100, "x" * 50]
            shown.press("Home")
            shown.wait_until(lambda: shown.screen.splitlines()[1:3] == ["1", "2"], "it begins")
            shown.press("End")
            shown.wait_until(lambda: "x" * 100 in shown.screen, "it ends")
            shown.press("q")
            wait_for_row(shown, "counts", "exit 0")


class TestTheSize:
    @pytest.mark.parametrize(("columns", "lines"), [(60, 20), (100, 30), (200, 50), (40, 10)])
    def test_it_fits(self, cli: Cli, home: Path, columns: int, lines: int) -> None:
        for name in (
            "x",
            "integration tests of everything",
            "日本語の名前はとても長いです",
            "👨‍👩‍👧 family",
            "e\u0301" * 30,
        ):
            job_with(home, name=name, command=f"echo {name} " * 20)
        cli.run("--name", "asks", "printf 'Really deploy? [y/N] '; read answer")
        with top(cli, columns=columns, lines=lines) as shown:
            wait_for_row(shown, "asks", "waits", "Really")
            shown.wait_for("5 ended" if columns > 40 else "1 wa")
            rows = shown.screen.splitlines()
            assert len(rows) == lines
            assert max(map(wcwidth.wcswidth, rows)) <= columns
            assert rows[-1].startswith("enter attach  l output")
            assert rows[1].split()[:2] == ["STATE", "NAME"]

    def test_columns_stay_side_by_side_whatever_names_are_made_of(self, cli: Cli, home: Path) -> None:
        for name in ("plain", "日本語の名前", "👨‍👩‍👧 family", "e\u0301e\u0301", "❤️"):
            job_with(home, name=name, command="echo COMMAND")
        with top(cli) as shown:
            shown.wait_for("5 ended")
            rows = [row for row in shown.screen.splitlines() if row.endswith("echo COMMAND")]
            assert len(rows) == 5
            assert {wcwidth.wcswidth(row) for row in rows} == {wcwidth.wcswidth(rows[0])}

    def test_another_size_is_drawn_at_once(self, cli: Cli, home: Path) -> None:
        ended_job(
            Store(str(home)),
            name="it",
            command="a command of more than thirty columns",
        )
        with top(cli) as shown:
            shown.wait_for("thirty columns")
            shown.resize(60, 20)
            shown.wait_until(
                lambda: (
                    len(shown.screen.splitlines()) == 20 and "it" in listed(shown) and "…" in shown.screen
                ),
                "it fits",
            )
            shown.resize(30, 8)
            shown.wait_for("30x8 is too small:\nbgjob top needs 40x10.")
            shown.resize(120, 40)
            shown.wait_for("thirty columns")
            assert len(shown.screen.splitlines()) == 40


# -- what is left behind ----------------------------------------------------------------------------


class InShell:
    """`bgjob top` as a shell runs it, which looks at the terminal before and after."""

    def __init__(self, cli: Cli, directory: Path, term: str = "xterm-256color") -> None:
        self._directory = directory
        inner = shlex.join(["sh", "-c", f'echo $$ > {directory}/pid; exec "$0" top', BGJOB])
        script = (
            f"echo what was there before; stty -g > {directory}/before; TERM={term} {inner}; "
            f"echo $? > {directory}/code; stty -g > {directory}/after; echo THE END; exec cat"
        )
        self.terminal = Terminal(["bash", "-c", script], Path("/"), variables(cli), 100, 30)
        self.terminal.wait_for("STATE")

    @property
    def pid(self) -> int:
        return int((self._directory / "pid").read_text())

    def assert_ended_with(self, code: int) -> None:
        """The terminal is as it was: its modes, its screen, its cursor."""
        self.terminal.wait_for("THE END")
        assert int((self._directory / "code").read_text()) == code
        assert (self._directory / "before").read_text() == (self._directory / "after").read_text()
        shown = [line for line in self.terminal.screen.splitlines() if line]
        assert shown[0] == "what was there before"
        assert shown[-1] == "THE END"
        assert "Traceback" not in self.terminal.screen
        assert (self.terminal.tell("alternate_on"), self.terminal.tell("cursor_flag")) == ("0", "1")
        assert self.terminal.tell("mouse_any_flag") == "0"


@pytest.fixture
def in_shell(cli: Cli, tmp_path: Path) -> Iterator[InShell]:
    cli.run("--name", "it", "echo ready; sleep 1000")
    shell = InShell(cli, tmp_path)
    yield shell
    shell.terminal.close()


class TestTheTerminalAfterwards:
    def test_it_is_as_before_when_a_person_quits(self, in_shell: InShell) -> None:
        in_shell.terminal.press("q")
        in_shell.assert_ended_with(0)
        assert [line for line in in_shell.terminal.screen.splitlines() if line] == [
            "what was there before",
            "THE END",
        ]

    def test_it_is_at_ctrl_c(self, in_shell: InShell) -> None:
        in_shell.terminal.press("C-c")
        in_shell.assert_ended_with(130)

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT])
    def test_it_is_when_a_signal_ends_the_view(self, in_shell: InShell, number: signal.Signals) -> None:
        os.kill(in_shell.pid, number)
        in_shell.assert_ended_with(128 + number)

    def test_it_is_while_a_question_is_open_too(self, in_shell: InShell) -> None:
        in_shell.terminal.press("x")
        in_shell.terminal.wait_for("Kill it")
        os.kill(in_shell.pid, signal.SIGTERM)
        in_shell.assert_ended_with(143)

    def test_it_is_when_the_home_was_removed(self, in_shell: InShell, cli: Cli, home: Path) -> None:
        assert cli("kill", "it").returncode == 0
        home.rename(home.with_name("elsewhere"))
        in_shell.terminal.wait_for("deleted or moved away")
        in_shell.terminal.press("j")
        home.with_name("elsewhere").rename(home)
        in_shell.terminal.wait_for("enter attach")
        in_shell.terminal.press("q")
        in_shell.assert_ended_with(0)


@pytest.mark.parametrize("term", ["xterm", "screen", "tmux", "vt100"])
def test_it_knows_the_usual_terminals(cli: Cli, tmp_path: Path, term: str) -> None:
    cli.run("--name", "it", "echo ready; sleep 1000")
    shell = InShell(cli, tmp_path, term)
    try:
        wait_for_row(shell.terminal, "it", "running")
        for key, shown in [
            ("l", "q back"),
            ("q", "enter attach"),
            ("?", "any key"),
            ("Down", "enter attach"),
        ]:
            shell.terminal.press(key)
            shell.terminal.wait_for(shown)
        shell.terminal.press("q")
        shell.terminal.wait_for("THE END")
        assert (tmp_path / "before").read_text() == (tmp_path / "after").read_text()
    finally:
        shell.terminal.close()


def test_ctrl_z_gives_the_terminal_back_until_the_shell_continues_it(cli: Cli, tmp_path: Path) -> None:
    cli.run("--name", "it", "echo ready; sleep 1000")
    with terminal(["bash", "--norc", "-i"], tmp_path, {**variables(cli), "PS1": "shell> "}, 100, 30) as shown:
        shown.wait_for("shell>")
        shown.type(f"stty -g > before; {BGJOB} top\r")
        wait_for_row(shown, "it", "running")
        shown.press("C-z")
        shown.wait_for("Stopped")
        shown.type("echo still $((6 * 7)) > seen\r")
        wait_until((tmp_path / "seen").exists)
        shown.type("fg\r")
        wait_for_row(shown, "it", "running")
        shown.press("q")
        shown.wait_until(lambda: shown.screen.rstrip().endswith("shell>"), "the shell goes on")
        shown.type("stty -g > after\r")
        wait_until((tmp_path / "after").exists)
        shown.wait_until(lambda: (tmp_path / "after").read_text() != "", "it is written")
        assert (tmp_path / "before").read_text() == (tmp_path / "after").read_text()


def test_it_ends_with_its_terminal(cli: Cli, tmp_path: Path) -> None:
    shell = InShell(cli, tmp_path)
    pid = shell.pid
    shell.terminal.close()
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "it has ended")


# -- attach -----------------------------------------------------------------------------------------


def test_enter_attaches_and_a_detach_comes_back_to_the_list(cli: Cli, jobs: Jobs) -> None:
    job = jobs.execute("PYTHONSTARTUP= exec python3 -q", pty=True, name="repl")
    with top(cli) as shown:
        wait_for_row(shown, "repl")
        shown.press("Enter")
        shown.wait_until(lambda: shown.screen.lstrip().startswith(">>>"), "the job is entered")
        shown.type("print(6 * 7)\r")
        shown.wait_for("\n42\n")
        shown.press("C-]")
        shown.wait_for("enter attach")
        wait_for_row(shown, "repl")
        assert shown.tell("alternate_on") == "1"
    assert "42" in jobs.output(job.id).stdout


# -- what jobs print and are called -----------------------------------------------------------------


# What curses writes to steer the terminal: none of it asks, names, copies or switches anything of a person's.
OF_CURSES = re.compile(
    r"\x1b(?:\[[0-9;]*[ABCDGHJKLMPSTXZ@bdfhlmr]|\[\?(?:1|7|12|25|1049)[hl]|\([0B]|[=>78M])|[\b\r\n\t]"
)


def test_nothing_that_a_job_is_called_or_prints_steers_the_terminal(
    cli: Cli, home: Path, tmp_path: Path, ended: Ended
) -> None:
    (tmp_path / "data").write_bytes(b"".join(escape + b"<\n" for escape in ESCAPES.values()))
    ended(cli.run("--name", "prints", f"cat {shlex.quote(str(tmp_path / 'data'))}"))
    text, recorded = "|".join(map(as_text, ESCAPES.values())), tmp_path / "recorded"
    for at in range(0, len(text), NAME_CHARACTERS):
        job_with(home, name=text[at : at + NAME_CHARACTERS], command=f": {text[at:]}")
    count = len(list((home / "jobs").iterdir()))
    with top(cli, columns=200, lines=50) as shown:
        title = shown.tell("pane_title")
        shown.wait_for(f"{count} ended")
        shown.record(recorded)
        shown.press("C-l")
        for number in range(2, count + 1):
            shown.press("j")
            shown.wait_for(f"{number}/{count}")
        shown.wait_for("NED<")  # the last one is the one that prints
        shown.press("l")
        shown.wait_for("q back")
        shown.press("q", "?")
        shown.wait_for("any key goes back")
        shown.wait_until(lambda: b"any key goes back" in recorded.read_bytes(), "it is recorded")
        assert shown.tell("pane_title") == title
    written = OF_CURSES.sub("", recorded.read_bytes().decode())
    assert PWNED in written
    assert "^[]52;c;" in written
    assert not STEERS.search(written)
    assert not UNSEEN.search(written)


# -- without a terminal -----------------------------------------------------------------------------


class TestWithoutATerminal:
    def test_it_says_what_does_without(self, cli: Cli) -> None:
        assert_one_line_of_error(cli("top"), "top needs a terminal", "bgjob ps --watch")

    @pytest.mark.parametrize(
        ("term", "why"), [("dumb", "place its cursor"), ("no-such", "does not know"), ("", "TERM")]
    )
    def test_so_it_does_at_one_that_cannot_be_drawn_on(
        self, cli: Cli, tmp_path: Path, term: str, why: str
    ) -> None:
        script = f"TERM={term} {BGJOB} top; echo code $?; exec cat"
        with terminal(["sh", "-c", script], tmp_path, variables(cli)) as shown:
            shown.wait_for("code 1")
            assert why in shown.screen
            assert "bgjob ps --watch" in shown.screen
            assert "Traceback" not in shown.screen

    def test_a_filter_that_is_none_is_refused(self, cli: Cli) -> None:
        assert_one_line_of_error(cli("top", "--filter", "status=x"), "--filter", "Accepted: queued, running")

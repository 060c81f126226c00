"""`bgjob attach` in real terminals: a person enters a job that runs on one, and leaves it as it was."""

import os
import re
import shlex
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import pytest

from bgjob.api import Jobs, Typed
from bgjob.core.errors import HeldByPerson
from bgjob.core.job import Job
from tests.faces.command_line import BGJOB, Cli
from tests.faces.own_terminal import terminal
from tests.support.attached import Person
from tests.support.escapes import ESCAPES, as_text
from tests.support.process_table import wait_until_gone
from tests.support.requires import needs
from tests.support.server import StartServer, ToolError
from tests.support.shims import guard_pid, shim_pid
from tests.support.waiting import wait_until

pytestmark = needs("tmux")
Enter = Callable[..., Person]


@pytest.fixture
def person(home: Path, tmp_path: Path) -> Iterator[Enter]:
    """person("ann", columns=80, lines=24): each has a terminal."""
    with ExitStack() as opened:

        def come(name: str, columns: int = 80, lines: int = 24) -> Person:
            (place := tmp_path / name).mkdir()
            environment = {"BGJOB_HOME": str(home), "HOME": str(place)}
            return opened.enter_context(closing(Person(place, environment, name, columns, lines)))

        yield come


def repl(jobs: Jobs) -> Job:
    job = jobs.execute("PYTHONSTARTUP= exec python3 -q", pty=True, name="repl")
    jobs.wait_for([job.id], for_input=True)
    return job


def shown_size(jobs: Jobs, job_id: str) -> tuple[int, int]:
    rows, columns = jobs.store.terminal_sizes(jobs.status(job_id).job)[-1][1:]
    return rows, columns


def has_size(jobs: Jobs, job_id: str, size: tuple[int, int]) -> bool:
    return shown_size(jobs, job_id) == size


class TestAtTheTerminal:
    def test_it_shows_the_screen_with_its_colours_then_what_is_typed_live(
        self, jobs: Jobs, person: Enter
    ) -> None:
        job = jobs.execute(
            r"printf '\033[1;31mred\033[0m \033[44mblue\033[0m\n'; PYTHONSTARTUP= exec python3 -q", pty=True
        )
        jobs.wait_for([job.id], for_input=True)
        ann = person("ann")
        ann.enter(job.id, ">>>")
        assert "\x1b[1m\x1b[31mred" in ann.styled_screen
        assert "\x1b[44mblue" in ann.styled_screen
        ann.run("print(6 * 7)")
        ann.wait_for("\n42\n")

    def test_what_the_terminal_showed_before_is_in_its_scrollback(self, jobs: Jobs, person: Enter) -> None:
        job, ann = repl(jobs), person("ann")
        ann.run("echo my own work")
        ann.wait_for("\nmy own work")
        ann.run(f"{BGJOB} attach {job.id}")
        ann.wait_for(">>>")
        assert "my own work" not in ann.screen
        assert "my own work" in ann.scrollback

    def test_a_detach_leaves_the_job_and_a_terminal_as_before(self, jobs: Jobs, person: Enter) -> None:
        job, ann = repl(jobs), person("ann")
        before = ann.state()
        ann.enter(job.id, ">>>")
        ann.run(r"print('\033[?1000h\033[?2004h\033[?1h\033=\033[2;5r\033[?6h\033[4h\033[?7l\033[?25l')")
        ann.run("x = 'kept'")
        ann.detach()
        assert ann.state() == before
        assert "kept" in jobs.interact(job.id, Typed("x")).output.stdout

    def test_what_was_typed_before_a_detach_is_typed(self, jobs: Jobs, person: Enter) -> None:
        job, ann = repl(jobs), person("ann")
        for number in range(8):
            ann.enter(job.id, ">>>")
            ann.press(*f"n={number}", "Enter", "C-]")  # in one go
            ann.wait_for("[detached from")
            assert jobs.interact(job.id, Typed("'n is', n")).output.stdout.endswith(
                f"('n is', {number})\n>>> "
            )
            ann.run("clear")
            ann.wait_until(lambda: ">>>" not in ann.screen, "the screen is clear")

    def test_a_full_screen_program_is_entered_edited_and_left(
        self, jobs: Jobs, person: Enter, tmp_path: Path
    ) -> None:
        text = tmp_path / "text"
        text.write_text("first\n")
        job = jobs.execute(f"vim -u NONE -N {text}", pty=True, rows=20, cols=70)
        jobs.wait_for([job.id], pattern="first")
        ann = person("ann")
        before = ann.state()
        ann.enter(job.id, "first")
        assert "alternate_on=1" in ann.modes
        ann.type("osecond")
        ann.press("Escape")
        ann.wait_for("\nsecond")
        ann.detach()
        assert ann.state() == before
        ann.enter(job.id, "second")
        ann.run(":wq")
        ann.wait_for("[exit 0 after")
        assert text.read_text() == "first\nsecond\n"
        assert ann.state() == before

    def test_its_exit_code_is_that_of_a_job_that_ends_meanwhile(self, jobs: Jobs, person: Enter) -> None:
        job, ann = repl(jobs), person("ann")
        ann.enter(job.id, ">>>")
        ann.run("import os; os._exit(3)")
        ann.wait_for("[exit 3 after")
        ann.run("echo code $?")
        ann.wait_for("\ncode 3")

    def test_the_size_follows_the_terminal(self, jobs: Jobs, person: Enter) -> None:
        job, ann = repl(jobs), person("ann", columns=90, lines=20)
        ann.enter(job.id, ">>>")
        wait_until(lambda: shown_size(jobs, job.id) == (20, 90), "the job has the size of the terminal")
        ann.resize(101, 31)
        wait_until(lambda: shown_size(jobs, job.id) == (31, 101), "the job has its new size")
        ann.run("import os; print(*os.get_terminal_size())")
        ann.wait_for("\n101 31")

    def test_a_flood_does_not_keep_a_person_from_interrupting_it(self, jobs: Jobs, person: Enter) -> None:
        job, ann = repl(jobs), person("ann")
        ann.enter(job.id, ">>>")
        ann.run("while True: print('flood ' * 10)")
        ann.run("")
        ann.wait_for("flood flood")
        ann.press("C-c")
        ann.wait_for("KeyboardInterrupt")
        ann.run("print(6 * 7)")
        ann.wait_for("\n42\n")


class TestQuestionsOfAJobToItsTerminal:
    ASKS = (
        "import os, re, sys, tty; tty.setraw(0)\n"
        "def ask(): sys.stdout.write('\\033[6n'); sys.stdout.flush()\n"
        "ask()\n"
        "while True:\n"
        "    for key in re.findall(rb'\\x1b\\[[0-9;]*R|.', os.read(0, 100)):\n"
        "        sys.stdout.write('got %r\\r\\n' % key); sys.stdout.flush()\n"
        "        if key == b'a': ask()\n"
    )

    @pytest.fixture
    def job(self, jobs: Jobs, tmp_path: Path) -> Job:
        (program := tmp_path / "asks.py").write_text(self.ASKS)
        job = jobs.execute(f"exec python3 {program}", pty=True)
        jobs.wait_for([job.id], pattern=r"\[6n")
        return job

    def test_a_job_neither_renames_nor_resets_the_terminal_nor_learns_what_it_is(
        self, jobs: Jobs, person: Enter
    ) -> None:
        """It is in tmux, which would answer with what it is, and whose history a reset would clear."""
        asks = r"printf '\033]2;PWNED\007\033c\033[>0q\033[6n'; head -c 17 | od -An -c; echo asked"
        job = jobs.execute(f"stty raw -echo; read _; {asks}; cat", pty=True)
        ann = person("ann", columns=90)
        ann.run("echo before")
        ann.wait_for("\nbefore")
        ann.run(f"{BGJOB} attach {job.id}")
        wait_until(lambda: shown_size(jobs, job.id) == (24, 90), "she is attached")
        ann.press("C-j")
        wait_until(lambda: "asked" in jobs.output(job.id).stdout, "its questions are answered")
        said = "".join(jobs.output(job.id).stdout.split())
        assert "033P>|bgjob033\\033[1;1R" in said
        assert "tmux" not in said
        assert "PWNED" not in ann.modes
        assert "before" in ann.scrollback

    def test_a_question_of_the_past_is_not_answered(self, jobs: Jobs, job: Job, person: Enter) -> None:
        ann = person("ann", columns=90)
        ann.run(f"{BGJOB} attach {job.id}")
        wait_until(lambda: shown_size(jobs, job.id) == (24, 90), "she is attached")
        ann.type("b")
        ann.wait_for("got b'b'")
        assert "got b'\\x1b[" not in jobs.output(job.id).stdout

    def test_a_question_of_now_is_answered_by_one_terminal(self, jobs: Jobs, job: Job, person: Enter) -> None:
        ann, ben = person("ann", columns=90), person("ben", columns=91)
        for each, size in ((ann, (24, 90)), (ben, (24, 91))):
            each.run(f"{BGJOB} attach {job.id}")
            each.type("x")
            wait_until(partial(has_size, jobs, job.id, size), "it has the size of the one who typed")
        ben.type("b")
        ben.wait_for("got b'b'")
        ann.wait_for("got b'b'")
        ann.type("a")
        ann.wait_for("R'")
        ann.type("c")
        for each in (ann, ben):
            each.wait_for("got b'c'")
        assert jobs.output(job.id).stdout.count("got b'\\x1b[") == 1


class TestSeveralPeople:
    def test_both_edit_and_the_last_who_typed_decides_the_size(
        self, jobs: Jobs, person: Enter, tmp_path: Path
    ) -> None:
        text = tmp_path / "text"
        job = jobs.execute(f"vim -u NONE -N {text}", pty=True)
        jobs.wait_for([job.id], pattern="~")
        ann, ben = person("ann", columns=100, lines=30), person("ben", columns=60, lines=15)
        ann.enter(job.id, "~")
        wait_until(lambda: shown_size(jobs, job.id) == (30, 100), "it has the size of the first")
        ben.enter(job.id, "~")
        ben.type("iby ben")
        for each in (ann, ben):
            each.wait_for("by ben")
        wait_until(lambda: shown_size(jobs, job.id) == (15, 60), "it has the size of the one who typed")
        ann.press("Enter")
        ann.type("by ann")
        for each in (ann, ben):
            each.wait_for("by ben\nby ann")
        wait_until(lambda: shown_size(jobs, job.id) == (30, 100), "it has the size of the one who typed last")
        ann.press("C-]")
        ann.wait_for("[detached from")
        wait_until(lambda: shown_size(jobs, job.id) == (15, 60), "it has the size of the one who is left")
        ben.press("Escape")
        ben.run(":wq")
        ben.wait_for("[exit 0 after")
        assert text.read_text() == "by ben\nby ann\n"

    def test_a_repl_is_used_by_two_at_once(self, jobs: Jobs, person: Enter) -> None:
        job = repl(jobs)
        ann, ben = person("ann", columns=100, lines=30), person("ben", columns=60, lines=15)
        ann.enter(job.id, ">>>")
        ben.enter(job.id, ">>>")
        ann.run("x = 41")
        ben.wait_for("x = 41\n>>>")  # what she typed is shown before she presses Enter
        ben.run("print(x + 1)")
        for each in (ann, ben):
            each.wait_for("\n42\n")

    def test_who_only_looks_types_nothing_and_has_no_size(self, jobs: Jobs, person: Enter) -> None:
        job = repl(jobs)
        ben = person("ben", columns=60, lines=15)
        ben.enter(job.id, ">>>", "-r")
        ben.run("print('typed')")
        jobs.interact(job.id, Typed("print('agent')"))
        ben.wait_for("\nagent\n")
        ben.detach()
        assert "typed" not in jobs.output(job.id).stdout
        assert shown_size(jobs, job.id) == (24, 80)


class TestHold:
    def test_while_a_person_types_an_agent_is_told_who_holds_the_job(
        self, cli: Cli, jobs: Jobs, start_server: StartServer, person: Enter
    ) -> None:
        server, job, ann = start_server(), repl(jobs), person("ann")
        ann.enter(job.id, ">>>")
        server.call("interact_with_job", job_id=job.id, input="before = 1")  # she only looks so far
        ann.run("print('her' + 's')")
        ann.wait_for("\nhers\n")
        with pytest.raises(
            ToolError, match=r"held by a person .*\(ann at pts/\d+, since 20\d\d-.*Nothing was typed"
        ):
            server.call("interact_with_job", job_id=job.id, input="print('agent')")
        for what in ({"keys": ["ctrl-c"]}, {"rows": 30, "cols": 90}, {"close_stdin": True}):
            with pytest.raises(ToolError, match="held by a person"):
                server.call("interact_with_job", job_id=job.id, **what)
        assert server.call("get_job_status", job_id=job.id)["status"] == "running"
        assert "held by   ann at pts/" in cli("status", job.id).stdout
        ann.detach()
        assert "held by" not in cli("status", job.id).stdout
        assert "agent" in server.call("interact_with_job", job_id=job.id, input="print('agent')")["stdout"]
        assert "agent" not in jobs.output(job.id).stdout.partition("hers")[0]

    def test_it_ends_with_a_person_whose_terminal_is_closed(self, jobs: Jobs, person: Enter) -> None:
        job, ann = repl(jobs), person("ann")
        ann.enter(job.id, ">>>")
        ann.run("x = 5")
        ann.wait_for("x = 5\n>>>")
        with pytest.raises(HeldByPerson):
            jobs.interact(job.id, Typed("x"))
        ann.close()
        wait_until(lambda: not is_held(jobs, job.id), "the job is free")
        assert "5" in jobs.interact(job.id, Typed("x")).output.stdout

    def test_events_tell_who_typed_and_how_much_but_never_what(
        self, jobs: Jobs, person: Enter, home: Path
    ) -> None:
        job, ann = repl(jobs), person("ann")
        ann.enter(job.id, ">>>")
        ann.run("s3cret = 1")
        ann.wait_for("s3cret = 1\n>>>")
        ann.detach()
        (typed,) = jobs.events(kinds=["typed"]).events
        assert typed.details["bytes"] == len("s3cret = 1\r")
        assert typed.details["by"].startswith("ann at pts/")
        assert not any(b"s3cret" in segment.read_bytes() for segment in (home / "events").iterdir())


def is_held(jobs: Jobs, job_id: str) -> bool:
    try:
        jobs.interact(job_id, Typed(""))
    except HeldByPerson:
        return True
    return False


class TestKilledInTheMiddle:
    def test_the_server_that_started_the_job(
        self, jobs: Jobs, start_server: StartServer, person: Enter
    ) -> None:
        server, ann = start_server(), person("ann")
        job_id = server.execute("PYTHONSTARTUP= exec python3 -q", pty=True)
        jobs.wait_for([job_id], for_input=True)
        ann.enter(job_id, ">>>")
        ann.run("x = 41")
        server.kill()
        ann.run("print(x + 1)")
        ann.wait_for("\n42\n")

    def test_the_shim_and_then_its_guard_goes_on_with_the_same_person(
        self, jobs: Jobs, person: Enter
    ) -> None:
        job, ann = repl(jobs), person("ann")
        ann.enter(job.id, ">>>")
        ann.run("x = 41")
        ann.wait_for("x = 41\n>>>")
        shim, guard = shim_pid(jobs, job.id), guard_pid(jobs, job.id)
        os.kill(shim, signal.SIGKILL)
        wait_until(lambda: shim_pid(jobs, job.id) == guard, "the guard has taken over")
        wait_until(lambda: is_held(jobs, job.id), "she holds it again, without a key")
        ann.run("print(x + 1)")
        ann.wait_for("\n42\n")
        ann.detach()
        (typed,) = jobs.events(kinds=["typed"]).events
        assert typed.details["bytes"] == len("x = 41\rprint(x + 1)\r")

    @pytest.mark.parametrize("which", [0, 1], ids=["the one the shell waits for", "the one at the terminal"])
    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
    def test_the_viewer_leaves_a_terminal_as_before(
        self, jobs: Jobs, person: Enter, which: int, number: signal.Signals, tmp_path: Path
    ) -> None:
        job = jobs.execute(f"vim -u NONE -N {tmp_path / 'text'}", pty=True)
        jobs.wait_for([job.id], pattern="~")
        ann = person("ann")
        before = ann.state()
        ann.enter(job.id, "~")
        ann.type("ihers")
        ann.wait_for("hers")
        pids = ann.pids()
        os.kill(pids[which], number)
        for pid in pids:  # then whichever of them was left has given the terminal back
            wait_until_gone(pid)
        wait_until(lambda: not is_held(jobs, job.id), "the job is free")
        assert ann.state() == before
        assert jobs.status(job.id).job.run is not None


class TestWithoutATerminalOfTheJob:
    def test_lines_go_in_and_what_it_prints_comes_out(self, jobs: Jobs, person: Enter) -> None:
        job = jobs.execute("seq 100; sed -u 's/^/got /'")
        jobs.wait_for([job.id], pattern="100")
        ann = person("ann")
        before = ann.state()
        ann.enter(job.id, "100")
        assert "90\n" not in ann.screen
        ann.run("hello")
        ann.wait_for("got hello")
        with pytest.raises(HeldByPerson):
            jobs.interact(job.id, Typed("agent"))
        ann.type("half a line")
        ann.detach()
        assert ann.state() == before
        assert jobs.interact(job.id, Typed("agent")).output.stdout == "got agent\n"
        assert "half" not in jobs.output(job.id).stdout

    def test_ctrl_d_ends_its_input(self, jobs: Jobs, person: Enter) -> None:
        job = jobs.execute("cat; echo end; exit 4")
        ann = person("ann")
        ann.enter(job.id, "ctrl-d ends its input")
        ann.run("last words")
        ann.press("C-d")
        ann.wait_for("[exit 4 after")
        assert jobs.output(job.id).stdout == "last words\nend\n"

    def test_ctrl_c_interrupts_it(self, jobs: Jobs, person: Enter) -> None:
        job = jobs.execute("trap 'echo interrupted; exit 5' INT; echo armed; while :; do sleep 0.01; done")
        ann = person("ann")
        ann.enter(job.id, "armed")
        ann.press("C-c")
        ann.wait_for("[exit 5 after")

    def test_nothing_that_it_prints_steers_the_terminal(self, jobs: Jobs, person: Enter) -> None:
        job = jobs.execute(r"printf '\033[?1049h\033]0;PWNED\007\033[6n'; cat")
        ann = person("ann")
        ann.enter(job.id, "^[[?1049h")
        assert "alternate_on=0" in ann.modes
        assert "PWNED" not in ann.modes


class TestRunIt:
    def test_a_job_is_started_and_entered_at_once(self, jobs: Jobs, person: Enter) -> None:
        ann = person("ann", columns=90)
        ann.run(f"clear; {BGJOB} run -it --name own -- python3 -q")
        ann.wait_for(">>>")
        ann.run("import os; print(*os.get_terminal_size())")
        ann.wait_for("\n90 24")
        ann.detach()
        ann.enter("own", ">>>")
        ann.run("raise SystemExit(9)")
        ann.wait_for("[exit 9 after")
        ann.run("echo code $?")
        ann.wait_for("\ncode 9")


class TestWhatAJobPrints:
    @pytest.mark.parametrize("pty", [True, False])
    def test_nothing_of_it_acts_beyond_the_screen(
        self, cli: Cli, jobs: Jobs, tmp_path: Path, pty: bool
    ) -> None:
        """The whole corpus, printed before and while a person is attached; and as the name of the job."""
        (tmp_path / "data").write_bytes(b"\n".join(ESCAPES.values()) + b"\x1b\\\n")
        hostile = as_text(ESCAPES["clipboard set, ended by BEL"] + ESCAPES["title report"])
        program = f"stty -echo; cat {tmp_path / 'data'}; echo before; read -r line; cat {tmp_path / 'data'}; echo after"
        job_id = job_with_name(jobs, hostile, program, pty=pty)
        jobs.wait_for([job_id], pattern="^before")
        with terminal(cli, "attach", job_id) as opened:
            opened.read_until(b"\x1b[2J" if pty else b"before")  # what was printed may have any looks by then
            opened.type(b"\r" if pty else b"\n")
            seen = opened.read_to_the_end()
        assert b"after" in seen
        strings = rb"\x1b\](?:52|9|777|1337|7);|\x1b[_^X]|\x1bP(?![$+]q)"  # the terminal in control answers questions
        others = rb"\x1b\[(?:21t|5i|3J)|\x05|\xc2[\x80-\x9f]"
        assert re.findall(strings + b"|" + others, seen) == []


def job_with_name(jobs: Jobs, name: str, command: str, *, pty: bool) -> str:
    """Names with control characters are refused; the title of a terminal is made of the command, too."""
    return jobs.execute(f": {shlex.quote(name)}; {command}", pty=pty).id


class TestWhereItCannotBe:
    def test_without_a_terminal_it_says_what_to_use(self, cli: Cli, jobs: Jobs) -> None:
        job = jobs.execute("cat")
        refused = cli("attach", job.id)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "must be a terminal. bgjob logs -f and bgjob send work without one" in refused.stderr

    @pytest.mark.parametrize("pty", [True, False])
    def test_a_job_that_has_ended_is_not_entered(self, jobs: Jobs, person: Enter, pty: bool) -> None:
        job = jobs.execute("exit 7", pty=pty)
        jobs.wait_for([job.id])
        ann = person("ann")
        ann.run(f"{BGJOB} attach {job.id}")
        ann.wait_for("failed with exit code 7")

    @pytest.mark.parametrize("key", ["x", "enter-twice", "up", ""])
    def test_a_detach_key_that_is_none_is_an_error(self, jobs: Jobs, person: Enter, key: str) -> None:
        job, ann = jobs.execute("cat", pty=True), person("ann")
        ann.run(f"{BGJOB} attach --detach-key '{key}' {job.id}")
        ann.wait_for("bgjob: ")
        assert "Traceback" not in ann.screen

    def test_another_detach_key_does_it_too(self, jobs: Jobs, person: Enter) -> None:
        job, ann = repl(jobs), person("ann")
        ann.enter(job.id, ">>>", "--detach-key", "ctrl-a")
        ann.press("C-a")
        ann.wait_for("[detached from repl")


@pytest.fixture
def cli(home: Path) -> Cli:
    return Cli(home)

"""bgjob send: what is typed reaches the job as it was typed, and its answer is printed."""

import hashlib
import shlex
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from bgjob.api import Conditions, Jobs, feed, interact
from bgjob.api.context import Context
from bgjob.api.feed import feed_job
from bgjob.api.interact import Sent
from bgjob.link.control import ShimConnection
from tests.faces.command_line import BGJOB, Cli, Ended, assert_one_line_of_error
from tests.faces.own_terminal import assert_only_shown, seen
from tests.support.escapes import ESCAPES
from tests.support.gate import Gate
from tests.support.requires import linux_only
from tests.support.shims import ask
from tests.support.waiting import wait_until

PATIENT = ["--wait", "60"]
PIPE_BYTES = 1 << 16
ECHO_LINES = 'while read -r line; do echo "<$line>"; done'


def reading(jobs: Jobs, command: str, **options: bool) -> str:
    """A job that is known to wait for what is typed."""
    job_id = jobs.execute(command, **options).id  # type: ignore[arg-type]
    (waited,) = jobs.wait([job_id], Conditions(for_input=True), timeout_s=30)
    assert waited.met
    return job_id


def piped(cli: Cli, data: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [BGJOB, "send", *arguments], input=data, env=cli.environment, capture_output=True, check=False
    )


class TestText:
    def test_a_line_is_typed_and_the_answer_printed(self, cli: Cli, jobs: Jobs) -> None:
        job_id = reading(jobs, ECHO_LINES)
        said = cli("send", *PATIENT, job_id, "first line")
        assert (said.stdout, said.stderr, said.returncode) == ("<first line>\n", "", 0)
        assert cli("send", *PATIENT, job_id, "second").stdout == "<second>\n"

    @pytest.mark.parametrize(
        ("arguments", "typed"),
        [
            (["several", "words"], "several words"),
            (["a", *PATIENT, "b"], "a b"),
            ([*PATIENT, "--", "-x", "--key"], "-x --key"),
            (["--wait=60", "--", "--"], "--"),
            (["  kept  "], "  kept  "),
            ([""], ""),
        ],
    )
    def test_words_are_joined_wherever_options_are(
        self, cli: Cli, jobs: Jobs, arguments: list[str], typed: str
    ) -> None:
        job_id = reading(jobs, ECHO_LINES.replace("read", "IFS= read"))
        assert cli("send", *PATIENT, job_id, *arguments).stdout == f"<{typed}>\n"

    def test_without_enter_the_line_goes_on(self, cli: Cli, jobs: Jobs) -> None:
        job_id = reading(jobs, ECHO_LINES)
        assert cli("send", "-n", "-q", job_id, "one ").returncode == 0
        assert cli("send", *PATIENT, job_id, "line").stdout == "<one line>\n"

    def test_quiet_prints_no_answer(self, cli: Cli, jobs: Jobs) -> None:
        job_id = reading(jobs, ECHO_LINES)
        assert cli("send", "-q", job_id, "x").stdout == ""
        wait_until(lambda: jobs.output(job_id).stdout == "<x>\n")

    def test_both_streams_stay_apart(self, cli: Cli, jobs: Jobs) -> None:
        job_id = reading(jobs, "while read -r line; do echo out; echo err >&2; done")
        said = cli("send", *PATIENT, job_id, "")
        assert (said.stdout, said.stderr) == ("out\n", "err\n")

    def test_it_says_how_the_job_ended_of_it(self, cli: Cli, jobs: Jobs) -> None:
        job_id = reading(jobs, "read -r line; exit $line")
        said = cli("send", *PATIENT, job_id, "3")
        assert said.stderr.startswith("[bgjob: failed with exit code 3 after ")


class TestKeys:
    def test_are_pressed_after_the_text(self, cli: Cli, jobs: Jobs, ended: Ended) -> None:
        job_id = reading(jobs, 'read -r line; echo "<$line>"', pty=True)
        assert cli("send", *PATIENT, job_id, "abx", "--key", "backspace", "--key", "enter").returncode == 0
        ended(job_id)
        assert "<ab>" in jobs.output(job_id).stdout

    def test_ctrl_c_interrupts_a_job_without_a_terminal(self, cli: Cli, jobs: Jobs, ended: Ended) -> None:
        job_id = reading(jobs, "trap 'echo interrupted; exit 0' INT; read -r line")
        cli("send", *PATIENT, job_id, "--key", "ctrl-c")
        ended(job_id)
        assert jobs.output(job_id).stdout == "interrupted\n"

    def test_one_that_is_none_is_an_error_that_knows_a_better_one(self, cli: Cli, jobs: Jobs) -> None:
        job_id = reading(jobs, "cat")
        assert_one_line_of_error(cli("send", job_id, "--key", "entre"), "Did you mean 'enter'?")


class TestTheEndOfInput:
    def test_comes_after_the_text_and_the_answer_is_all_of_it(self, cli: Cli, jobs: Jobs) -> None:
        job_id = reading(jobs, "sort")
        assert cli("send", "-q", job_id, "b").returncode == 0
        assert cli("send", *PATIENT, job_id, "a", "--eof").stdout == "a\nb\n"

    def test_on_a_terminal_is_its_character(self, cli: Cli, jobs: Jobs, ended: Ended) -> None:
        job_id = reading(jobs, "cat; echo over", pty=True)
        cli("send", *PATIENT, job_id, "--eof")
        ended(job_id)
        assert "over" in jobs.output(job_id).stdout


class TestStdin:
    def test_is_sent_as_it_is(self, cli: Cli, jobs: Jobs) -> None:
        data = bytes(range(256)) + b"no newline"
        job_id = reading(jobs, "od -An -tx1 -v | tr -d ' \\n'")
        assert piped(cli, data, *PATIENT, job_id, "-", "--eof").stdout.decode() == data.hex()

    @linux_only
    def test_waits_for_a_job_that_does_not_read(self, cli: Cli, jobs: Jobs, gate: Gate, ended: Ended) -> None:
        """What the job has not read stays with the sender."""
        data = bytes(range(251)) * 20_000
        job_id = jobs.execute(f"{gate.pause}; sha256sum").id
        gate.wait_until_reached()
        with cli.begin("send", *PATIENT, job_id, "-", "--eof", stdin=subprocess.PIPE) as sender:
            assert sender.stdin
            threading.Thread(target=lambda: (sender.stdin.buffer.write(data), sender.stdin.close())).start()  # type: ignore[union-attr]
            wait_until(lambda: ask(jobs, job_id, op="status")["unread"] == PIPE_BYTES)  # full
            assert sender.poll() is None
            gate.open()
            sender.wait()
        ended(job_id)
        assert jobs.output(job_id).stdout.split()[0] == hashlib.sha256(data).hexdigest()

    def test_what_is_offered_again_arrives_once(
        self, jobs: Jobs, gate: Gate, ended: Ended, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A shim that could not write all of a piece in its time says how much it wrote."""
        offers = list[bytes]()

        def offer(context: Context, shim: ShimConnection, job_id: str, sent: Sent, *until: float) -> Any:
            offers.append(sent.data)
            return interact.feed(context, shim, job_id, sent, *until)

        monkeypatch.setattr(feed, "TURN_S", 0.02)
        monkeypatch.setattr(feed, "feed", offer)
        data = bytes(range(251)) * 2_000
        job_id = jobs.execute(f"{gate.pause}; sha256sum").id
        gate.wait_until_reached()
        pieces = [data[at : at + 100_000] for at in range(0, len(data), 100_000)]
        feeder = threading.Thread(
            target=feed_job, args=[jobs.context, job_id, pieces], kwargs={"close_stdin": True}
        )
        feeder.start()
        wait_until(lambda: len(offers) > 3)
        gate.open()
        feeder.join()
        ended(job_id)
        assert jobs.output(job_id).stdout.split()[0] == hashlib.sha256(data).hexdigest()
        assert offers[0] == pieces[0]
        assert pieces[0].endswith(offers[1])
        assert 0 < len(offers[1]) < len(pieces[0])

    def test_a_line_that_a_terminal_would_cut_is_refused(self, cli: Cli, jobs: Jobs) -> None:
        job_id = reading(jobs, "cat", pty=True)
        refused = piped(cli, b"x" * 5000, job_id, "-")
        assert refused.returncode == 1
        assert b"has a line of more than 4095 bytes" in refused.stderr

    def test_that_is_empty_is_an_error(self, cli: Cli, jobs: Jobs) -> None:
        job_id = reading(jobs, "cat")
        refused = piped(cli, b"", job_id, "-")
        assert (refused.returncode, b"the input is empty" in refused.stderr) == (1, True)


class TestWhatIsShown:
    def test_a_full_screen_program_shows_its_screen(self, cli: Cli, jobs: Jobs) -> None:
        draw = r"printf '\033[?1049h\033[2J\033[2;3Hmenu'; read -r x; printf '\033[5;1Hchosen'; read -r y"
        job_id = reading(jobs, draw, pty=True)
        said = cli("send", *PATIENT, job_id, "1")
        assert "\x1b" not in said.stdout
        assert said.stdout.splitlines()[1].startswith("  menu")
        assert "chosen" in said.stdout

    def test_of_a_terminal_the_text_is_shown_without_what_draws(self, cli: Cli, jobs: Jobs) -> None:
        job_id = reading(jobs, r"read -r x; printf '\033[31mred\033[0m\033[K\n'; read -r y", pty=True)
        assert cli("send", *PATIENT, job_id, "go").stdout == "go\nred\n"

    def test_no_escape_of_the_job_reaches_the_terminal(self, cli: Cli, jobs: Jobs, tmp_path: Path) -> None:
        lines = b"".join(b"<%s>\n" % escape for escape in ESCAPES.values())
        (tmp_path / "data").write_bytes(lines)
        job_id = reading(jobs, f"read -r line; cat {shlex.quote(str(tmp_path / 'data'))}; read -r line")
        shown = assert_only_shown(seen(cli, "send", *PATIENT, job_id, "now"))
        assert len(shown.splitlines()) == len(ESCAPES)


class TestErrors:
    @pytest.mark.parametrize(
        "arguments", [[], ["x"], ["x", "--wait", "soon", "y"], ["x", "-", "--key", "up"], ["x", "-z"]]
    )
    def test_wrong_usage_is_exit_code_2(self, cli: Cli, arguments: list[str]) -> None:
        refused = cli("send", *arguments)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert refused.stderr.startswith("usage: bgjob send")

    def test_a_job_that_does_not_read_is_told(self, cli: Cli, jobs: Jobs, gate: Gate) -> None:
        job_id = jobs.execute(gate.pause).id
        gate.wait_until_reached()
        refused = cli("send", "--wait", "0.2", job_id, "x" * 100_000)
        assert_one_line_of_error(refused, " of 100001 bytes, and does not read the rest")

    def test_a_job_that_has_ended_cannot_be_typed_into(self, cli: Cli, jobs: Jobs, ended: Ended) -> None:
        job_id = jobs.execute("exit 3").id
        ended(job_id)
        assert_one_line_of_error(cli("send", job_id, "x"), "is not running", "failed with exit code 3")

    def test_nor_one_without_a_stdin(self, cli: Cli, jobs: Jobs, gate: Gate) -> None:
        job_id = jobs.execute(gate.pause, stdin="null").id
        gate.wait_until_reached()
        assert_one_line_of_error(cli("send", job_id, "x"), "its stdin is /dev/null", "bgjob run")

    @pytest.mark.parametrize("arguments", [["x"], ["-"]])
    def test_an_allow_list_lets_it_type_only_into_its_own(
        self, cli: Cli, jobs: Jobs, arguments: list[str]
    ) -> None:
        job_id = reading(jobs, "cat")
        refused = cli("send", job_id, *arguments, env={"MCP_BG_ALLOWED_COMMANDS": "ls"})
        assert_one_line_of_error(refused, "cannot be steered")

"""bgjob logs: parts of what jobs printed, and what they print, at a terminal and in a pipe."""

import re
import shlex
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import pytest

from bgjob.api import Jobs
from bgjob.home.log_format import RUN_RESOLUTION_US
from tests.faces.command_line import BGJOB, Cli, Ended, assert_one_line_of_error, has_socket
from tests.faces.own_terminal import assert_only_shown, seen
from tests.support.escapes import ESCAPES
from tests.support.gate import Gate
from tests.support.homes import end_all_jobs
from tests.support.shims import ask
from tests.support.stores import job_with
from tests.support.tmux import terminal
from tests.support.waiting import wait_until

BOTH_STREAMS = "for n in 1 2 3; do echo out $n; echo err $n >&2; done"
ENDED_AFTER = r"after \d+\.\d s\]\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("logs") / "home"
    yield home
    end_all_jobs(home)


@pytest.fixture(scope="module")
def cli(home: Path) -> Cli:
    return Cli(home)


@pytest.fixture
def numbered(cli: Cli, ended: Ended) -> str:
    """A job that printed the lines 1 to 20."""
    job_id = cli.run("seq 20")
    ended(job_id)
    return job_id


def pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


class TestAPart:
    @pytest.mark.parametrize(
        ("options", "shown"),
        [
            (["-n", "3"], "18\n19\n20\n"),
            (["-n", "0"], ""),
            (["-n", "99"], "".join(f"{n}\n" for n in range(1, 21))),
            (["--grep", "^1?9$"], "9\n19\n"),
            (["--grep", "9", "-n", "1"], "19\n"),
            (["--grep", "nowhere"], ""),
            (["--since", "46"], "19\n20\n"[1:]),
            (["--since", "8h", "-n", "1"], "20\n"),
            (["-e", "-n", "2"], "19\n20\n"),
            (["--stderr"], ""),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_of_one_stream(self, cli: Cli, numbered: str, options: list[str], shown: str) -> None:
        result = cli("logs", *options, numbered)
        assert (result.stdout, result.stderr, result.returncode) == (shown, "", 0)

    def test_the_last_lines_of_both_streams_are_counted_together(
        self, cli: Cli, jobs: Jobs, gate: Gate, ended: Ended
    ) -> None:
        job_id = cli.run(f"seq 5; {gate.pause}; seq 6 8 >&2")
        gate.wait_until_reached()
        wait_until(lambda: jobs.log(job_id).end == 10)
        gate.open()
        ended(job_id)
        shown = cli("logs", "-n", "4", job_id)
        assert (shown.stdout, shown.stderr) == ("5\n", "6\n7\n8\n")

    @pytest.mark.parametrize("stream", ["stdout", "stderr"])
    def test_one_stream_alone(self, cli: Cli, ended: Ended, stream: str) -> None:
        job_id = cli.run(BOTH_STREAMS)
        ended(job_id)
        shown = cli("logs", f"--{stream}", job_id)
        lines = "".join(f"{stream.removeprefix('std')} {n}\n" for n in (1, 2, 3))
        assert (shown.stdout, shown.stderr) == ((lines, "") if stream == "stdout" else ("", lines))

    def test_what_came_since_a_moment(self, cli: Cli, jobs: Jobs, gate: Gate, ended: Ended) -> None:
        job_id = cli.run(f"echo before; {gate.pause}; echo after")
        gate.wait_until_reached()
        wait_until(lambda: jobs.log(job_id).end == len("before\n"))
        told = time.time()
        wait_until(
            lambda: time.time() > told + 2 * RUN_RESOLUTION_US / 1e6
        )  # so exact are the times of a log
        moment = datetime.fromtimestamp(time.time(), UTC).isoformat()
        gate.open()
        ended(job_id)
        assert cli("logs", "--since", moment, job_id).stdout == "after\n"
        assert cli("logs", "--since", "1w", job_id).stdout == "before\nafter\n"
        assert cli("logs", "--since", "2999-01-01", job_id).stdout == ""

    @pytest.mark.parametrize("when", ["soon", "8x", "h", "-1h", "", "2026-13-01", "9999999999d"])
    def test_a_moment_that_is_none_is_wrong_usage_and_says_what_is_accepted(
        self, cli: Cli, when: str
    ) -> None:
        refused = cli("logs", f"--since={when}")
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "8h" in refused.stderr

    def test_a_pattern_that_is_none_is_one_line_of_error(self, cli: Cli, numbered: str) -> None:
        assert_one_line_of_error(cli("logs", "--grep", "(", numbered), "is not valid: missing )")

    def test_a_line_has_the_time_at_which_it_came(self, cli: Cli, numbered: str) -> None:
        lines = cli("logs", "--timestamps", numbered).stdout.splitlines()
        found = [re.fullmatch(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) (\d+)", line) for line in lines]
        assert [each and each[2] for each in found] == [str(n) for n in range(1, 21)]
        times = [datetime.fromisoformat(each[1]).timestamp() for each in found if each]
        assert times == sorted(times)
        assert all(abs(time.time() - each) < 3600 for each in times)

    def test_without_an_id_it_is_of_the_newest_job(self, cli: Cli, ended: Ended) -> None:
        ended(cli.run("echo the newest"))
        assert cli("logs").stdout == "the newest\n"


class TestFollowing:
    @pytest.mark.parametrize(
        ("options", "first", "shown"),
        [
            ([], 1, lambda _n: True),
            (["-n", "5"], 996, lambda _n: True),
            (["-n", "0"], 1001, lambda _n: True),
            (["--since", "1h"], 1, lambda _n: True),
            (["--grep", "7$"], 1, lambda n: n % 10 == 7),
            (["--grep", "7$", "-n", "2"], 987, lambda n: n % 10 == 7),
            (["--stdout", "-n", "1"], 1000, lambda _n: True),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_no_line_is_lost_or_repeated(
        self, cli: Cli, jobs: Jobs, gate: Gate, options: list[str], first: int, shown: Callable[[int], bool]
    ) -> None:
        """It begins while the job is in the middle of its lines, and the job goes on while it reads."""
        job_id = cli.run(f"seq 1000; {gate.pause}; seq 1001 3000; sleep 0.1; seq 3001 4000")
        gate.wait_until_reached()
        ask(jobs, job_id, op="wait", beyond=3892)
        with cli.begin("logs", "-f", *options, job_id) as follower:
            wait_until(lambda: has_socket(follower.pid))
            gate.open()
            stdout, stderr = follower.communicate(timeout=120)
        assert [int(line) for line in stdout.splitlines()] == [n for n in range(first, 4001) if shown(n)]
        assert re.fullmatch(rf"\[exit 0 {ENDED_AFTER}", stderr)

    def test_several_jobs_go_on_until_all_have_ended(self, cli: Cli, gate: Gate) -> None:
        slow = cli.run("--name", "slow", f"echo begin; {gate.pause}; echo end; exit 3")
        gate.wait_until_reached()
        cli.run("--name", "quick one", "echo quick; echo aside >&2")
        with cli.begin("logs", "-f", "slow", "quick one", slow) as follower:
            notes = [pipe(follower.stderr).readline(), pipe(follower.stderr).readline()]
            gate.open()
            stdout, stderr = follower.communicate(timeout=120)
        assert sorted(stdout.splitlines()) == ["quick one | quick", "slow      | begin", "slow      | end"]
        assert notes[0] == "quick one | aside\n"
        assert re.fullmatch(rf"quick one \| \[exit 0 {ENDED_AFTER}", notes[1])
        assert re.fullmatch(rf"slow      \| \[exit 3 {ENDED_AFTER}", stderr)
        assert follower.returncode == 3

    def test_jobs_of_one_name_are_told_apart(self, cli: Cli, ended: Ended) -> None:
        twins = [cli.run("--name", "twin", f"echo {word}") for word in ("one", "two")]
        for job_id in twins:
            ended(job_id)
        shown = cli("logs", *twins).stdout.splitlines()
        assert shown == [f"twin/{twins[0][:8]} | one", f"twin/{twins[1][:8]} | two"]

    def test_the_last_line_needs_no_newline(self, cli: Cli, ended: Ended) -> None:
        job_id = cli.run("printf 'no newline'")
        ended(job_id)
        assert cli("logs", "-f", "--grep", "no", job_id).stdout == "no newline\n"

    def test_a_job_that_is_not_there_is_no_exit_code_of_a_job(self, cli: Cli) -> None:
        refused = cli("logs", "-f", "no such job")
        assert (refused.returncode, refused.stdout) == (125, "")
        assert refused.stderr.startswith("bgjob: Job no such job not found.")

    def test_a_job_that_was_lost_is_said_to_be(self, cli: Cli, home: Path, jobs: Jobs) -> None:
        (Path(jobs.directory(job_id := job_with(home))) / "outcome.json").unlink()
        followed = cli("logs", "-f", job_id)
        assert followed.returncode == 125
        assert followed.stderr.startswith("[lost: ")

    def test_to_follow_and_to_look_at_the_end_exclude_each_other(self, cli: Cli) -> None:
        assert cli("logs", "-f", "-e").returncode == 2


class TestAtATerminal:
    @pytest.mark.parametrize(
        "options",
        [["-n", "9999"], ["--timestamps"], ["--grep", "<"], ["-f"], ["--since", "1h"]],
        ids=" ".join,
    )
    @pytest.mark.parametrize("pty", [[], ["--pty"]], ids=["pipe", "pty"])
    def test_no_escape_reaches_it(
        self, cli: Cli, ended: Ended, tmp_path: Path, options: list[str], pty: list[str]
    ) -> None:
        lines = b"".join(b"%d<%s>\n" % (number, escape) for number, escape in enumerate(ESCAPES.values()))
        (tmp_path / "data").write_bytes(lines)
        job_id = cli.run(*pty, f"cat {shlex.quote(str(tmp_path / 'data'))}")
        ended(job_id)
        shown = assert_only_shown(seen(cli, "logs", *options, job_id, columns=4000))
        assert "PWNED" in shown

    def test_names_of_jobs_neither(self, cli: Cli, home: Path) -> None:
        jobs = [job_with(home, name="a\x1b[2Jb\u202e"), job_with(home, name="c\x9b2Jd")]
        shown = assert_only_shown(seen(cli, "logs", "-f", *jobs))
        assert "a^[[2Jb\\u202e" in shown

    def test_what_was_overwritten_in_a_line_does_not_overwrite_the_name(self, cli: Cli, ended: Ended) -> None:
        jobs = [cli.run("--name", name, r"printf ' 50%%\r100%%\n'") for name in ("one", "two")]
        for job_id in jobs:
            ended(job_id)
        shown = assert_only_shown(seen(cli, "logs", *jobs)).splitlines()
        assert shown == ["one | 100%", "two | 100%"]

    def test_names_are_coloured_where_that_is_wanted(self, cli: Cli, ended: Ended) -> None:
        jobs = [cli.run("--name", name, "echo text") for name in ("one", "two")]
        for job_id in jobs:
            ended(job_id)
        assert re.search(rb"\x1b\[\d+mone \|\x1b\[0m text", seen(cli, "logs", *jobs))
        assert seen(cli, "logs", *jobs, NO_COLOR="1") == b"one | text\r\ntwo | text\r\n"

    def test_a_program_that_draws_the_whole_screen_is_shown_as_it_looks(
        self, cli: Cli, jobs: Jobs, gate: Gate, tmp_path: Path
    ) -> None:
        drawn = b"\x1b[?1049h\x1b[?1000h\x1b[2;3Hfirst\x1b[4;1Hsecond\x1b[6n"
        (tmp_path / "drawn").write_bytes(drawn)
        job_id = cli.run("--pty", f"cat {tmp_path}/drawn; {gate.pause}")
        wait_until(lambda: jobs.log(job_id).end == len(drawn))
        shown = assert_only_shown(seen(cli, "logs", job_id))
        assert shown.splitlines()[1:4] == ["  first", "", "second"]
        assert f"bgjob attach {job_id[:8]}" in shown
        gate.wait_until_reached()
        gate.open()

    def test_where_it_was_left_a_line_says_so(self, cli: Cli, ended: Ended) -> None:
        job_id = cli.run("--pty", r"printf 'before\n\033[?1049h\033[2;3Hdrawn\033[?1049lafter\n'")
        ended(job_id)
        shown = assert_only_shown(seen(cli, "logs", job_id))
        assert shown.splitlines() == ["before", "[full-screen program]", "after"]

    def test_raw_gives_its_bytes(self, cli: Cli, ended: Ended) -> None:
        job_id = cli.run("--pty", r"printf '\033[?1049hx\033[?1049l'")
        ended(job_id)
        assert seen(cli, "logs", "--raw", job_id) == b"\x1b[?1049hx\x1b[?1049l"

    def test_the_end_is_shown_in_a_pager(self, cli: Cli, ended: Ended, tmp_path: Path) -> None:
        job_id = cli.run("seq 2000; printf '\\033[31mred\\033[0m \\033[2J\n'; exit 3")
        ended(job_id)
        with terminal([BGJOB, "logs", "-e", job_id], tmp_path, cli.environment, lines=20) as opened:
            opened.wait_for("red ^[[2J")
            opened.wait_for("[exit 3 after")
            assert "1990\n" in opened.screen
            opened.press("g")
            opened.wait_for("1002\n")
            opened.press("q")
            opened.wait_until(lambda: not opened.is_open, "the pager has ended, and bgjob with it")

    def test_another_pager_is_the_persons_choice(self, cli: Cli, numbered: str, tmp_path: Path) -> None:
        (tmp_path / "pager").write_text(f"#!/bin/sh\ncat > {tmp_path}/shown\n")
        (tmp_path / "pager").chmod(0o755)
        other = Cli(Path(cli.environment["BGJOB_HOME"]))
        other.environment["PAGER"] = f"{tmp_path}/pager"
        assert seen(other, "logs", "-e", "-n", "2", numbered) == b""
        assert (tmp_path / "shown").read_text() == "19\n20\n"
        other.environment["PAGER"] = ""
        assert seen(other, "logs", "-e", "-n", "2", numbered) == b"19\r\n20\r\n"

"""At a terminal: nothing that a job prints or is called steers it, and what is shown fits."""

import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import wcwidth  # type: ignore[import-untyped, unused-ignore]

from bgjob.home import event_log
from tests.faces.command_line import BGJOB, Cli, Ended
from tests.faces.own_terminal import assert_only_shown, seen, terminal
from tests.support.escapes import ESCAPES, as_text
from tests.support.homes import end_all_jobs
from tests.support.stores import job_with

NAME_CHARACTERS = 150


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("terminal") / "home"
    yield home
    end_all_jobs(home)


@pytest.fixture(scope="module")
def cli(home: Path) -> Cli:
    return Cli(home)


class TestLogs:
    @pytest.mark.parametrize("redirection", ["", " >&2"])
    def test_no_escape_reaches_the_terminal(
        self, cli: Cli, ended: Ended, tmp_path: Path, redirection: str
    ) -> None:
        lines = b"".join(b"%d<%s>\n" % (number, escape) for number, escape in enumerate(ESCAPES.values()))
        (tmp_path / "data").write_bytes(lines)
        job_id = cli.run(f"cat {shlex.quote(str(tmp_path / 'data'))}{redirection}")
        ended(job_id)
        shown = assert_only_shown(seen(cli, "logs", job_id)).splitlines()
        assert [line.partition("<")[0] for line in shown] == [str(number) for number in range(len(ESCAPES))]
        assert all(line.endswith(">") for line in shown)

    def test_a_sequence_in_pieces_between_both_streams_is_none(self, cli: Cli, ended: Ended) -> None:
        job_id = cli.run(
            r"printf '\033'; printf '\033' >&2; printf ']52;c;'; printf '\302' >&2; printf 'eA==\007\n'; "
            r"printf '\233]0;x\007\n' >&2"
        )
        ended(job_id)
        shown = assert_only_shown(seen(cli, "logs", job_id))
        assert "]52;c;" in shown
        assert "eA==^G" in shown

    def test_raw_gives_the_bytes(self, cli: Cli, ended: Ended) -> None:
        job_id = cli.run(r"printf '\033]52;c;eA==\007\377'")
        ended(job_id)
        assert seen(cli, "logs", "--raw", job_id) == b"\x1b]52;c;eA==\x07\xff"

    def test_so_does_a_pipe(self, cli: Cli, ended: Ended, tmp_path: Path) -> None:
        everything = b"".join(ESCAPES.values())
        (tmp_path / "data").write_bytes(everything)
        job_id = cli.run(f"cat {shlex.quote(str(tmp_path / 'data'))}")
        ended(job_id)
        piped = subprocess.run([BGJOB, "logs", job_id], env=cli.environment, capture_output=True, check=True)
        assert piped.stdout == everything

    def test_colours_and_progress_pass_and_end_with_the_log(self, cli: Cli, ended: Ended) -> None:
        job_id = cli.run(r"printf ' 50%%\r100%%\n\033[1;31mred'; exit 2")
        ended(job_id)
        shown = seen(cli, "logs", job_id)
        assert shown.startswith(b" 50%\r100%\r\n\x1b[1;31mred\x1b[0m\r\n[exit 2 after ")

    def test_colours_end_also_where_the_person_has_enough(self, cli: Cli) -> None:
        job_id = cli.run(r"printf '\033[31mred'; exec cat")
        with terminal(cli, "logs", "-f", job_id) as opened:
            opened.read_until(b"red")
            opened.process.send_signal(signal.SIGINT)
            assert opened.read_to_the_end() == b"\x1b[31mred\x1b[0m"
        assert opened.process.returncode == 130
        assert cli("kill", job_id).returncode == 0


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """Jobs whose names and commands are the whole corpus, as another version or another program may have left."""
    home = tmp_path_factory.mktemp("attacked") / "home"
    text = "|".join(map(as_text, ESCAPES.values()))
    names = [text[at : at + NAME_CHARACTERS] for at in range(0, len(text), NAME_CHARACTERS)]
    for name in names:
        job_id = job_with(home, name=name, command=f": {text}")
        event_log.append(str(home / "events"), "matched", job_id, name=name, line=text)
    return Cli(home)


class TestEveryOtherVerb:
    @pytest.mark.parametrize("columns", [60, 4000])
    def test_ps(self, attacked: Cli, columns: int) -> None:
        shown = assert_only_shown(seen(attacked, "ps", "--limit", "1000", columns=columns)).splitlines()
        assert len(shown) == 1 + len(list(Path(attacked.environment["BGJOB_HOME"], "jobs").iterdir()))

    def test_events(self, attacked: Cli) -> None:
        shown = assert_only_shown(seen(attacked, "events", columns=4000))
        assert "matched" in shown

    @pytest.mark.parametrize(
        "arguments",
        [
            ["logs", b"%s"],
            ["kill", "--signal", b"%s", "x"],
            ["events", "--since", b"%s"],
            ["run", "--cwd", b"%s", "true"],
            ["run", "--limit", b"%s=1", "true"],
            ["run", "--env", b"%s", "true"],
            ["ps", b"%s"],
            [b"%s"],
        ],
        ids=lambda arguments: " ".join(map(str, arguments)),
    )
    def test_an_error_that_repeats_what_was_typed(self, cli: Cli, arguments: list[str | bytes]) -> None:
        everything = b"|".join(ESCAPES.values()).replace(b"=", b"")
        typed = [each % everything if isinstance(each, bytes) else each for each in arguments]
        shown = assert_only_shown(seen(cli, *typed))
        assert "bgjob" in shown
        assert "Traceback" not in shown


NAMES = [
    "x",
    "integration tests of everything",
    "日本語の名前はとても長いです",
    "👨‍👩‍👧 family 👨‍👩‍👧",
    "e\u0301" * 30,
]


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    home = tmp_path_factory.mktemp("named") / "home"
    for name in NAMES:
        job_with(home, name=name, command=f"echo {name} " * 20)
    return Cli(home)


class TestThePsTable:
    @pytest.mark.parametrize("columns", [60, 133])
    def test_it_fits_the_terminal(self, named: Cli, columns: int) -> None:
        lines = seen(named, "ps", columns=columns, NO_COLOR="1").decode().splitlines()
        assert len(lines) == 1 + len(NAMES)
        assert max(map(wcwidth.wcswidth, lines)) <= columns
        assert all("…" in line for line in lines[1:])

    @pytest.mark.parametrize("columns", [133, 0])
    def test_names_are_whole_where_they_fit_or_nobody_knows(self, named: Cli, columns: int) -> None:
        shown = seen(named, "ps", columns=columns).decode()
        assert all(f"  {name} " in shown for name in NAMES)

    def test_a_cut_name_can_be_typed_back(self, named: Cli) -> None:
        lines = seen(named, "ps", columns=60, NO_COLOR="1").decode().splitlines()
        names = [re.split(r" {2,}", line)[2] for line in lines]
        cut = [name for name in names if name.endswith("…")]
        assert len(cut) == len(NAMES) - 1
        for name in cut[1:2]:
            assert named("kill", name).stdout == "already_terminated (0 processes)\n"

    def test_in_a_pipe_they_are_whole(self, named: Cli) -> None:
        shown = named("ps").stdout
        assert all(f"  {name} " in shown for name in NAMES)

    def test_a_job_in_the_queue_is_not_said_to_run(self, cli: Cli) -> None:
        job_id = cli.run("--delay", "1000", "--name", "later", "true")
        (row,) = [line for line in cli("ps", "--limit", "1000").stdout.splitlines() if line[:8] == job_id[:8]]
        assert row.split()[1:3] == ["queued", "later"]
        assert job_id[:8] in cli("ps", "--status", "queued").stdout
        assert job_id[:8] not in cli("ps", "--status", "running", "--limit", "1000").stdout
        assert cli("kill", "later").stdout == "killed (0 processes)\n"

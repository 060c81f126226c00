"""bgjob grep: lines in what jobs printed, as grep would show them."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from bgjob.api import Jobs
from tests.faces.command_line import Cli
from tests.faces.own_terminal import assert_only_shown, seen
from tests.support.escapes import ESCAPES

Job = Callable[[str, str], str]


@pytest.fixture
def cli(home: Path) -> Cli:
    return Cli(home)


@pytest.fixture
def job(jobs: Jobs) -> Job:
    def run(name: str, command: str) -> str:
        job_id = jobs.execute(command, name=name or None).id
        for _ in jobs.follow(job_id, wait=True):
            pass
        return job_id

    return run


@pytest.fixture
def three(job: Job) -> list[str]:
    """Jobs with some lines, the oldest first."""
    return [
        job("api", "echo one error; echo fine; echo two errors"),
        job("web", "echo an Error >&2; echo fine"),
        job("", "echo fine"),
    ]


def test_all_jobs_are_searched_the_newest_first(cli: Cli, three: list[str]) -> None:
    found = cli("grep", "(?i)error")
    assert found.stdout == "web: an Error\napi: one error\napi: two errors\n"
    assert (found.stderr, found.returncode) == ("", 0)


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["-i", "ERROR", "api"], "one error\ntwo errors\n"),
        (["error", "api", "web"], "api: one error\napi: two errors\n"),
        (["-F", "."], ""),
        (["-F", "-i", "AN ERROR"], "web: an Error\n"),
        (["--stderr", "."], "web: an Error\n"),
        (["--filter", "name=web", "."], "web: fine\nweb: an Error\n"),
        (["--filter", "name=nothing", "."], ""),
        (["-l", "fine"], "{2}\nweb\napi\n"),
        (["-c", "(?i)error"], "web: 1\napi: 2\n"),
        (["-C", "1", "fine", "api"], "one error\nfine\ntwo errors\n"),
        (["--since", "8h", "two"], "api: two errors\n"),
        (["--since", "2999-01-01", "."], ""),
        (["nothing at all"], ""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_each_option(cli: Cli, three: list[str], arguments: list[str], shown: str) -> None:
    found = cli("grep", *arguments)
    expected = shown.format(*(job_id[:8] for job_id in three))
    assert sorted(found.stdout.splitlines()) == sorted(expected.splitlines())
    assert (found.stderr, found.returncode) == ("", 0 if expected else 1)


def test_lines_around_a_match_have_a_dash_and_matches_are_kept_apart(cli: Cli, job: Job) -> None:
    job("one", "seq 9")
    job("two", "seq 5")
    assert cli("grep", "-C", "1", "^[38]$").stdout.splitlines() == [
        *("two- 2", "two: 3", "two- 4", "--"),
        *("one- 2", "one: 3", "one- 4", "--", "one- 7", "one: 8", "one- 9"),
    ]


def test_it_says_how_many_more_there_are(cli: Cli, job: Job) -> None:
    job("many", "seq 2500")
    found = cli("grep", ".")
    assert found.stdout.splitlines() == [f"many: {n}" for n in range(1501, 2501)]
    assert found.stderr == "(1500 older lines match too; -n 2500 shows all)\n"
    assert len(cli("grep", "-n", "2500", ".").stdout.splitlines()) == 2500


def test_an_answer_may_be_larger_than_one_for_a_model(cli: Cli, job: Job) -> None:
    job("wide", "for n in 1 2 3 4 5 6 7 8 9; do printf '%0400d\n' $n; done")
    small = {"MCP_BG_MAX_RESPONSE": "1KB"}
    assert len(cli("grep", "0", env=small).stdout.splitlines()) == 9


def test_as_json_each_match_is_an_object(cli: Cli, three: list[str]) -> None:
    (found,) = map(json.loads, cli("grep", "--json", "-C", "1", "two").stdout.splitlines())
    assert found.pop("at").endswith("Z")
    assert found == {
        "job_id": three[0],
        "name": "api",
        "stream": "stdout",
        "cursor": "15-26",
        "line": "two errors",
        "before": ["fine"],
    }
    assert cli("logs", "--since", "15-26", "api").stdout == "two errors\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["("], "is not valid: missing )"),
        ([""], "pattern is empty"),
        (["x", "no such job"], "Job no such job not found"),
        (["--filter", "status=odd", "x"], "--filter='status=odd' is no status"),
        (["-n", "0", "x"], "Accepted: whole numbers from 1 on"),
        (["--since", "soon", "x"], "Accepted: 10s, 30m, 8h, 2d"),
        ([], "PATTERN"),
    ],
)
def test_what_is_wrong_is_2_and_not_that_nothing_was_found(cli: Cli, arguments: list[str], said: str) -> None:
    refused = cli("grep", *arguments)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert said in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize("options", [["-C", "3"], ["--json"], ["-l"]], ids=" ".join)
def test_nothing_that_a_job_printed_steers_the_terminal(
    cli: Cli, job: Job, tmp_path: Path, options: list[str]
) -> None:
    lines = b"".join(b"<%s>\n" % escape for escape in ESCAPES.values())
    (tmp_path / "data").write_bytes(lines)
    job("x", f"cat {shlex.quote(str(tmp_path / 'data'))}")
    shown = assert_only_shown(seen(cli, "grep", *options, "<", columns=4000))
    assert "x" in shown


def test_a_tab_stays_a_tab(cli: Cli, job: Job) -> None:
    job("tabs", r"printf 'a\tb\n'")
    assert cli("grep", "a").stdout == "tabs: a\tb\n"

"""bgjob alone, in a terminal: the state of things. Without a terminal it is the MCP server."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bgjob.api import open_jobs
from tests.faces.command_line import BGJOB, Cli
from tests.faces.own_terminal import assert_only_shown, seen, terminal
from tests.faces.steady import steady
from tests.faces.worlds import Attacked, World
from tests.support.homes import end_all_jobs
from tests.support.waiting import wait_until

NEXT = "Next: bgjob logs ID, bgjob attach ID, bgjob ps, bgjob --help\n"
EVERYTHING = f"""\
Waiting for you
ID  waiting  deploy-to-eu  TIME  CPU  MEM  cli  /usr/bin  sh $A
  asks: Go on? [y/N]
  bgjob attach ID, bgjob send ID TEXT

Running
ID  STATUS  NAME  TIME  CPU  MEM  PORTS  BY  CWD  COMMAND
ID  running  web  TIME  CPU  MEM  PORT  cli  /usr/bin  python3 $W

Queued
ID  queued  later  TIME  cli  /usr/bin  true
  it waits: it is to start in TIME

Ended last
ID  exit 3  bad  TIME  AGO  cli  /usr/bin  exit 3

{NEXT}"""


def overview(cli: Cli, columns: int = 120) -> str:
    return seen(cli, columns=columns, NO_COLOR="1").decode()


@pytest.fixture
def cli(home: Path) -> Cli:
    return Cli(home)


def run_to_its_end(cli: Cli, *arguments: str) -> str:
    job_id = cli.run("--cwd", "/", *arguments)
    jobs = open_jobs(cli.environment, many=False)
    wait_until(lambda: not jobs.has_shim(job_id), "the job ends")
    return job_id


class TestTheStateOfThings:
    def test_a_home_without_jobs_says_how_to_start_one(self, cli: Cli) -> None:
        assert overview(cli) == "No jobs yet. bgjob run -- COMMAND starts one.\r\n"

    def test_it_shows_who_waits_with_how_to_answer_then_what_runs_is_queued_and_ended(
        self, tmp_path: Path
    ) -> None:
        world = World(tmp_path)
        try:
            assert world.steady(overview(world.cli)) == EVERYTHING
        finally:
            end_all_jobs(world.home)

    def test_an_end_is_shown_once(self, cli: Cli) -> None:
        run_to_its_end(cli, "--name", "first", "exit 1")
        assert "first" in overview(cli)
        run_to_its_end(cli, "--name", "second", "exit 2")
        shown = steady(overview(cli))
        assert shown == (
            "Ended since you last looked, AGO\nID  exit 2  second  TIME  AGO  cli  /  exit 2\n\nNothing runs.\n"
            + NEXT
        )
        assert steady(overview(cli)) == f"Nothing runs, and nothing ended since you last looked, AGO.\n{NEXT}"

    def test_a_first_look_shows_the_newest_few_ends(self, cli: Cli) -> None:
        for number in range(7):
            run_to_its_end(cli, "--name", f"job-{number}", "exit 0")
        shown = steady(overview(cli))
        assert [f"job-{number}" in shown for number in range(7)] == [
            False,
            False,
            True,
            True,
            True,
            True,
            True,
        ]
        assert shown.startswith("Ended last\nID  exit 0  job-6 ")

    def test_of_many_ends_the_newest_are_shown(self, cli: Cli) -> None:
        overview(cli)
        for number in range(12):
            run_to_its_end(cli, "--name", f"job-{number:02}", "exit 0")
        shown = overview(cli)
        assert "and more: bgjob ps --all" in shown
        assert ("job-11" in shown, "job-01" in shown) == (True, False)

    def test_an_ended_job_that_left_processes_is_shown_among_the_running_ones_alone(self, cli: Cli) -> None:
        job_id = cli.run("--name", "daemon", "sleep 1000 & exit 3")
        jobs = open_jobs(cli.environment, many=False)
        wait_until(lambda: jobs.status(job_id).left_running == 1, "it leaves a process")
        shown = overview(cli)
        assert (shown.count("daemon"), "exit 3, 1 left" in shown) == (1, True)

    def test_a_record_of_the_last_look_that_cannot_be_read_is_none(self, cli: Cli, home: Path) -> None:
        run_to_its_end(cli, "--name", "first", "exit 1")
        overview(cli)
        for damage in ('{"at": 1, "cursor": "x"}', "{", '{"at": "then", "cursor": "1"}'):
            (home / "looked.json").write_text(damage)
            assert "first" in overview(cli)

    @pytest.mark.parametrize("columns", [60, 80, 250])
    def test_it_fits(self, tmp_path_factory: pytest.TempPathFactory, columns: int) -> None:
        world = World(tmp_path_factory.mktemp("fits"))
        try:
            shown = overview(world.cli, columns)
            assert max(map(len, shown.splitlines())) <= columns
            assert "asks: Go on? [y/N]" in shown
            assert f"bgjob send {world.deploy[:8]} TEXT" in shown
        finally:
            end_all_jobs(world.home)


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    attacked = Attacked(tmp_path_factory.mktemp("attacked"))
    yield attacked
    end_all_jobs(attacked.home)


def test_no_escape_reaches_the_terminal(attacked: Attacked) -> None:
    shown = assert_only_shown(seen(attacked.cli, columns=4000))
    assert shown.count("bgjob attach") >= len(attacked.asking)


class TestWithoutATerminal:
    def test_it_is_the_server_and_tells_no_person_what_it_is(self, cli: Cli) -> None:
        ping = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        served = subprocess.run(
            [BGJOB], input=ping + "\n", env=cli.environment, capture_output=True, text=True, check=True
        )
        assert json.loads(served.stdout)["id"] == 1
        assert served.stderr == ""


class TestTheServerInATerminal:
    def test_it_says_what_it_is_and_serves_until_ctrl_d(self, cli: Cli) -> None:
        with terminal(cli, "mcp") as opened:
            opened.read_until(b"ctrl-c or ctrl-d ends it.")
            opened.type(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
            opened.read_until(b'"result"')
            opened.type(b"\x04")
            said = opened.read_to_the_end()
        assert opened.process.returncode == 0
        assert b"this is an MCP server" in said
        assert b"bgjob client add" in said

    def test_ctrl_c_ends_it_without_a_traceback(self, cli: Cli) -> None:
        with terminal(cli, "mcp") as opened:
            opened.read_until(b"ctrl-c or ctrl-d ends it.")
            opened.type(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
            opened.read_until(b'"result"')
            opened.process.send_signal(2)
            said = opened.read_to_the_end()
        assert b"Traceback" not in said

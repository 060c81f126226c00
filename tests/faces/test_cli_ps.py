"""bgjob ps as a person and a script meet it: what matters first, whatever the width, live or once."""

import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bgjob.api import Jobs, open_jobs
from bgjob.store.store import Store
from tests.faces.command_line import BGJOB, Cli
from tests.faces.own_terminal import assert_only_shown, seen
from tests.faces.worlds import Attacked, World
from tests.support.gate import Gate
from tests.support.homes import end_all_jobs
from tests.support.server import StartServer
from tests.support.stores import job_with, running_job
from tests.support.tmux import Terminal
from tests.support.tmux import terminal as tmux_terminal
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("ps"))
    yield world
    end_all_jobs(world.home)


AT_60 = """\
ID  STATUS  NAME  TIME  PORTS  COMMAND
ID  waiting  deploy-to-eu  TIME  sh $A
  asks: Go on? [y/N]
ID  running  web  TIME  PORT  python3 $W
ID  queued  later  TIME  true
  it waits: it is to start in TIME
ID  exit 3  bad  TIME  exit 3
"""
AT_80 = """\
ID  STATUS  NAME  TIME  ENDED  CPU  MEM  PORTS  COMMAND
ID  waiting  deploy-to-eu  TIME  CPU  MEM  sh $A
  asks: Go on? [y/N]
ID  running  web  TIME  CPU  MEM  PORT  python3 $W
ID  queued  later  TIME  true
  it waits: it is to start in TIME
ID  exit 3  bad  TIME  AGO  exit 3
"""
WIDE = """\
ID  STATUS  NAME  TIME  ENDED  CPU  MEM  PORTS  BY  CWD  COMMAND
ID  waiting  deploy-to-eu  TIME  CPU  MEM  cli  /usr/bin  sh $A
  asks: Go on? [y/N]
ID  running  web  TIME  CPU  MEM  PORT  cli  /usr/bin  python3 $W
ID  queued  later  TIME  cli  /usr/bin  true
  it waits: it is to start in TIME
ID  exit 3  bad  TIME  AGO  cli  /usr/bin  exit 3
"""
PIPED = """\
ID  STATUS  NAME  TIME  ENDED  CPU  MEM  PORTS  BY  CWD  NOTE  COMMAND
ID  waiting  deploy-to-eu  TIME  -  CPU  MEM  -  cli  /usr/bin  asks: Go on? [y/N]  sh $A
ID  running  web  TIME  -  CPU  MEM  PORT  cli  /usr/bin  -  python3 $W
ID  queued  later  TIME  -  -  -  -  cli  /usr/bin  it waits: it is to start in TIME  true
ID  exit 3  bad  TIME  AGO  -  -  -  cli  /usr/bin  -  exit 3
"""


class TestWhatItShows:
    @pytest.mark.parametrize(("columns", "shown"), [(60, AT_60), (80, AT_80), (120, WIDE), (250, WIDE)])
    def test_what_matters_comes_first_and_what_does_not_fit_is_left_out(
        self, world: World, columns: int, shown: str
    ) -> None:
        assert world.steady(seen(world.cli, "ps", columns=columns, NO_COLOR="1").decode()) == shown

    def test_in_a_pipe_each_job_is_one_line_with_every_column(self, world: World) -> None:
        assert world.steady(world.cli("ps").stdout) == PIPED

    def test_the_same_columns_are_in_a_pipe_where_there_are_no_jobs(self, tmp_path: Path) -> None:
        assert Cli(tmp_path / "home")("ps").stdout.split() == PIPED.splitlines()[0].split()

    def test_a_terminal_without_jobs_says_what_to_do(self, tmp_path: Path) -> None:
        shown = seen(Cli(tmp_path / "home"), "ps")
        assert shown == b"No jobs yet. bgjob run -- COMMAND starts one.\r\n"

    def test_a_job_of_an_mcp_client_is_shown_with_the_client(
        self, start_server: StartServer, home: Path
    ) -> None:
        server = start_server(client="agent-x")
        server.execute("exit 0", name="theirs", wait_s=30)
        (line,) = Cli(home)("ps", "--filter", "by=agent-x").stdout.splitlines()[1:]
        assert "agent-x" in line

    def test_a_job_whose_processes_are_stopped_is_paused(self, home: Path, gate: Gate, jobs: Jobs) -> None:
        job_id = Cli(home).run("--name", "still", f"exec sh -c {shlex.quote(gate.pause)}")
        gate.wait_until_reached()
        for pid in jobs.processes(job_id):
            os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: " paused " in Cli(home)("ps").stdout, "it is shown as paused")

    def test_a_job_that_waits_to_be_run_again_is_said_to_restart(self, home: Path) -> None:
        cli = Cli(home)
        cli.run("--restart", "always", "--backoff", "60", "exit 1")
        wait_until(lambda: " restarting " in cli("ps").stdout, "it is shown so")

    def test_why_a_job_is_lost_stands_below_it(self, home: Path) -> None:
        os.close(running_job(Store(str(home))).lock)
        lines = seen(Cli(home), "ps", NO_COLOR="1").decode().splitlines()
        assert re.fullmatch(r"[0-9a-f]{8}  lost .*", lines[1])
        assert re.match(r" {10}\w", lines[2])


class TestChoosing:
    @pytest.mark.parametrize(
        ("options", "names"),
        [
            (["--status", "queued"], ["later"]),
            (["--status", "running"], ["deploy-to-eu", "web"]),
            (["--status", "failed"], ["bad"]),
            (["--filter", "name=e"], ["deploy-to-eu", "web", "later"]),
            (["--filter", "PYTHON3"], ["web"]),
            (["--filter", "status=running", "--filter", "by=cli", "--filter", "name=dep"], ["deploy-to-eu"]),
            (["--filter", "by=nobody"], []),
            (["--filter", "cwd=/usr"], ["deploy-to-eu", "web", "later", "bad"]),
            (["--filter", "cwd=/tmp"], []),
        ],
        ids=" ".join,
    )
    def test_only_what_fits_is_shown(self, world: World, options: list[str], names: list[str]) -> None:
        shown = json.loads(world.cli("ps", "--json", *options).stdout)
        assert [job["name"] for job in shown["jobs"]] == names

    def test_a_terminal_says_that_none_fits(self, world: World) -> None:
        assert seen(world.cli, "ps", "--filter", "zzz") == b"No job fits.\r\n"

    def test_a_status_that_is_none_is_an_error_that_names_those_there_are(self, world: World) -> None:
        refused = world.cli("ps", "--filter", "status=dead")
        assert (refused.returncode, refused.stdout) == (1, "")
        assert refused.stderr == (
            "bgjob: --filter='status=dead' is no status. Accepted: queued, running, completed, failed, killed.\n"
        )

    def test_the_limit_is_for_what_has_ended_and_says_how_to_see_more(self, tmp_path: Path) -> None:
        home = tmp_path / "home"
        ids = [job_with(home, name=f"old {number}") for number in range(23)]
        cli = Cli(home)
        default, few, every = cli("ps", "-q"), cli("ps", "-q", "--limit", "2"), cli("ps", "-q", "--all")
        assert [len(shown.stdout.split()) for shown in (default, few, every)] == [20, 2, 23]
        assert few.stderr == "(older ones not shown; --limit 10 shows more, --all every one)\n"
        assert every.stderr == ""
        assert set(every.stdout.split()) == set(ids)

    def test_whatever_runs_is_shown_however_much_is_newer(self, tmp_path: Path) -> None:
        home = tmp_path / "home"
        cli = Cli(home)
        try:
            running, left = cli.run("sleep 1000"), cli.run("sleep 1000 & exit 0")
            jobs = open_jobs(cli.environment, many=False)
            wait_until(lambda: jobs.status(left).left_running == 1, "it leaves a process")
            for _ in range(3):
                job_with(home)
            shown = cli("ps", "-q", "--limit", "1").stdout.split()
            assert (set(shown[:2]), len(shown)) == ({running, left}, 3)
            assert set(cli("ps", "-q", "--status", "running").stdout.split()) == {running, left}
        finally:
            end_all_jobs(home)


class TestForScripts:
    def test_json_has_every_fact_in_the_words_of_the_tools(self, world: World) -> None:
        shown = json.loads(world.cli("ps", "--json").stdout)
        deploy, web, later, bad = shown["jobs"]
        assert shown["more"] is False
        assert (deploy["job_id"], deploy["prompt"], deploy["waits_for_input"]) == (
            world.deploy,
            "Go on? [y/N]",
            True,
        )
        assert (web["ports"], web["status"], web["phase"], web["by"]) == (
            [world.port],
            "running",
            "running",
            "cli",
        )
        assert web["cpu_s"] >= 0 < web["memory_bytes"]
        assert (later["status"], later["position"]) == ("queued", 1)
        assert later["reason"].startswith("it waits: ")
        assert (bad["status"], bad["cause"], bad["exit_code"], bad["phase"]) == (
            "failed",
            "exited",
            3,
            "ended",
        )

    def test_quiet_is_whole_ids_and_nothing_else(self, world: World) -> None:
        ids = [world.deploy, world.web, world.later, world.bad]
        assert world.cli("ps", "-q").stdout.split() == ids

    @pytest.mark.parametrize("options", [["--watch", "--json"], ["--json", "-q"]], ids=" ".join)
    def test_two_forms_at_once_are_wrong_usage(self, world: World, options: list[str]) -> None:
        refused = world.cli("ps", *options)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "not allowed with argument" in refused.stderr

    @pytest.mark.parametrize("variables", [{}, {"TERM": "dumb"}])
    def test_to_watch_takes_a_terminal(self, world: World, variables: dict[str, str]) -> None:
        refused = world.cli("ps", "--watch", env=variables)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert refused.stderr.startswith("bgjob: --watch needs a terminal that can be repainted.")

    @pytest.mark.parametrize("options", [[], ["--json"], ["-q"]], ids=" ".join)
    @pytest.mark.parametrize("redirection", [">&-", ">/dev/full"])
    def test_a_stdout_that_takes_nothing_is_one_line_of_error(
        self, world: World, options: list[str], redirection: str
    ) -> None:
        command = shlex.join([BGJOB, "ps", *options])
        failed = subprocess.run(
            f"{command} {redirection}",
            shell=True,
            env=world.cli.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert failed.returncode == 74
        assert re.fullmatch(r"bgjob: standard output cannot be written: .*\n", failed.stderr)


class TestColours:
    @pytest.mark.parametrize(
        ("variables", "is_coloured"),
        [
            ({}, True),
            ({"NO_COLOR": ""}, True),
            ({"NO_COLOR": "1"}, False),
            ({"TERM": "dumb"}, False),
            ({"TERM": "dumb", "CLICOLOR_FORCE": "1"}, True),
            ({"NO_COLOR": "1", "CLICOLOR_FORCE": "1"}, False),
        ],
        ids=str,
    )
    def test_a_terminal_has_them_unless_the_environment_says_otherwise(
        self, world: World, variables: dict[str, str], is_coloured: bool
    ) -> None:
        assert (b"\x1b[" in seen(world.cli, "ps", columns=80, **variables)) is is_coloured

    @pytest.mark.parametrize(
        ("variables", "is_coloured"),
        [({}, False), ({"CLICOLOR_FORCE": "0"}, False), ({"CLICOLOR_FORCE": "1"}, True)],
    )
    def test_a_pipe_has_them_only_if_that_is_forced(
        self, world: World, variables: dict[str, str], is_coloured: bool
    ) -> None:
        plain = {"TERM": "xterm", "NO_COLOR": "", "CLICOLOR_FORCE": ""}
        assert ("\x1b[" in world.cli("ps", env=plain | variables).stdout) is is_coloured


@pytest.fixture
def shell(world: World, tmp_path: Path) -> Iterator[Terminal]:
    environment = {**world.cli.environment, "PS1": "$ ", "HOME": str(tmp_path), "NO_COLOR": "1", "ENV": ""}
    path = f"{Path(BGJOB).parent}{os.pathsep}{os.environ['PATH']}"
    with tmux_terminal(["sh", "-i"], tmp_path, environment | {"PATH": path}, 100, 20) as opened:
        opened.type("stty -g > before; echo rea''dy\n")
        opened.wait_for("ready")
        yield opened


def modes_are_as_before(shell: Terminal, directory: Path) -> bool:
    shell.type("stty -g > after; echo com''pared\n")
    shell.wait_for("compared")
    return (directory / "before").read_text() == (directory / "after").read_text()


class TestWatching:
    def test_it_is_repainted_in_place_until_ctrl_c_and_leaves_nothing_behind(
        self, world: World, shell: Terminal, tmp_path: Path
    ) -> None:
        shell.type("bgjob ps --watch\n")
        shell.wait_for("asks: Go on? [y/N]")
        assert "ready" not in shell.screen
        world.run("--name", "newcomer", "exit 7")
        shell.wait_for("newcomer")
        assert shell.screen.count("STATUS") == 1
        shell.press("C-c")
        shell.wait_until(lambda: "STATUS" not in shell.screen, "the list is gone")
        shell.type("echo code $?\n")
        shell.wait_for("code 130")
        assert "ready" in shell.screen
        assert "STATUS" not in shell.screen
        assert modes_are_as_before(shell, tmp_path)

    def test_q_ends_it_too_and_no_key_is_echoed_or_left_for_the_shell(
        self, shell: Terminal, tmp_path: Path
    ) -> None:
        shell.type("bgjob ps --watch\n")
        shell.wait_for("asks: Go on? [y/N]")
        shell.type("xyzzyq")
        shell.wait_until(lambda: "STATUS" not in shell.screen, "the list is gone")
        shell.type("echo code $?\n")
        shell.wait_for("code 0")
        assert "xyzzy" not in shell.screen
        assert modes_are_as_before(shell, tmp_path)

    def test_ctrl_z_gives_the_terminal_back_until_it_is_continued(
        self, shell: Terminal, tmp_path: Path
    ) -> None:
        shell.type("bgjob ps --watch\n")
        shell.wait_for("asks: Go on? [y/N]")
        shell.press("C-z")
        shell.wait_until(lambda: "STATUS" not in shell.screen, "the list is gone")
        assert modes_are_as_before(shell, tmp_path)
        shell.type("fg\n")
        shell.wait_for("asks: Go on? [y/N]")
        shell.press("C-c")
        shell.wait_until(lambda: "STATUS" not in shell.screen, "the list is gone")

    def test_sigterm_ends_it_and_leaves_the_terminal_clean(self, shell: Terminal, tmp_path: Path) -> None:
        shell.type("sh -c 'echo $$ > pid; exec bgjob ps --watch'\n")
        shell.wait_for("asks: Go on? [y/N]")
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGTERM)
        shell.wait_until(lambda: "STATUS" not in shell.screen, "the list is gone")
        assert modes_are_as_before(shell, tmp_path)

    def test_a_terminal_that_is_too_low_says_how_much_is_missing(self, world: World, tmp_path: Path) -> None:
        environment = {**world.cli.environment, "NO_COLOR": "1"}
        with tmux_terminal([BGJOB, "ps", "--watch"], tmp_path, environment, 100, 4) as opened:
            opened.wait_for("more lines)")
            assert len(opened.screen.splitlines()) == 4
            assert "waiting" in opened.screen


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    attacked = Attacked(tmp_path_factory.mktemp("attacked"))
    yield attacked
    end_all_jobs(attacked.home)


class TestEscapes:
    """What a job asks, is called or runs may contain anything: a terminal is given none of it."""

    @pytest.mark.parametrize("columns", [60, 4000])
    def test_ps(self, attacked: Attacked, columns: int) -> None:
        shown = assert_only_shown(seen(attacked.cli, "ps", columns=columns)).splitlines()
        assert len([line for line in shown if "asks " in line and "waiting" in line]) == len(attacked.asking)
        assert len(shown) == 2 + 2 * len(attacked.asking)

    def test_json(self, attacked: Attacked) -> None:
        assert_only_shown(seen(attacked.cli, "ps", "--json"))

"""bgjob status: everything that is known of a job, for a person in lines and for a script as JSON."""

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bgjob.api import open_jobs
from tests.faces.command_line import BGJOB, Cli, Ended, assert_one_line_of_error
from tests.faces.own_terminal import assert_only_shown, seen
from tests.faces.worlds import Attacked, World
from tests.support.gate import Gate
from tests.support.homes import end_all_jobs
from tests.support.waiting import wait_until

DEPLOY = """\
deploy-to-eu  UUID
  status  waiting
  asks: Go on? [y/N]
  bgjob attach ID enters it, bgjob send ID TEXT answers
  command  sh $A
  cwd  /usr/bin
  by  cli (VERSION)
  created  MOMENT, AGO
  started  MOMENT, AGO
  time  TIME
  pid  PID
  cpu  TIME, CPU of a processor on average
  memory  MEM
  processes PID sh PLACE/ask (STATE)
  output  13 bytes, silent for TIME
  log  PLACE/home/jobs/UUID/log/00000000000000000000
  as of this call: ask again for newer output
"""
WEB = """\
web  UUID
  status  running
  command  python3 $W
  cwd  /usr/bin
  by  cli (VERSION)
  created  MOMENT, AGO
  started  MOMENT, AGO
  time  TIME
  pid  PID
  cpu  TIME, CPU of a processor on average
  memory  MEM
  ports  127.0.0.1:PORT
  processes PID python3 PLACE/serve (STATE)
  output  0 bytes, silent for TIME
"""
LATER = """\
later  UUID
  status  queued
  queue  place 1, priority 0: it waits: it is to start in TIME
  command  true
  cwd  /usr/bin
  by  cli (VERSION)
  created  MOMENT, AGO
  time  TIME
  output  0 bytes
"""
BAD = """\
bad  UUID
  status  exit 3
  it failed with exit code 3 after TIME
  command  exit 3
  cwd  /usr/bin
  by  cli (VERSION)
  created  MOMENT, AGO
  started  MOMENT, AGO
  ended  MOMENT, AGO
  time  TIME
  output  0 bytes
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("status"))
    yield world
    end_all_jobs(world.home)


def steady(world: World, text: str) -> str:
    """Also without process ids and places, and with programs by their last names."""
    text = text.replace(str(world.home.parent), "PLACE")
    text = re.sub(r"(?m)^(  pid +|  processes +)\d+", r"\1PID", text)
    text = re.sub(r"PID \S*/(\w+)", r"PID \1", text)
    text = re.sub(r"\((?:sleeping|running)\)", "(STATE)", text)
    text = re.sub(r"\(\d+\.\d+\.\d+\S*\)", "(VERSION)", text)
    return world.steady(text)


class TestForAPerson:
    @pytest.mark.parametrize(
        ("name", "shown"), [("deploy-to-eu", DEPLOY), ("web", WEB), ("later", LATER), ("bad", BAD)]
    )
    def test_all_that_is_known_is_in_lines_that_can_be_read(
        self, world: World, name: str, shown: str
    ) -> None:
        assert steady(world, world.cli("status", name).stdout) == shown

    def test_several_jobs_have_a_blank_line_between_them(self, world: World) -> None:
        assert steady(world, world.cli("status", "later", "bad").stdout) == f"{LATER}\n{BAD}"

    def test_without_a_word_it_is_the_newest_job(self, home: Path, ended: Ended) -> None:
        cli = Cli(home)
        for name in ("older", "newer"):
            ended(cli.run("--name", name, "true"))
        assert cli("status").stdout.startswith("newer  ")

    def test_without_any_job_it_is_one_line_of_error(self, home: Path) -> None:
        assert_one_line_of_error(Cli(home)("status"), "There are no jobs yet.", "bgjob run -- COMMAND")

    def test_the_processes_stand_below_the_ones_that_started_them(self, home: Path, gate: Gate) -> None:
        job_id = Cli(home).run(f"(sleep 1000; true) & {gate.reach}; wait")
        gate.wait_until_reached()
        jobs = open_jobs({**os.environ, "BGJOB_HOME": str(home)}, many=False)
        wait_until(lambda: len(jobs.processes(job_id)) == 3, "the shell, a shell and a sleep")
        shown = Cli(home)("status", job_id).stdout
        tree = shown[shown.index("  processes ") :].splitlines()[:3]
        assert [len(re.match(r"\D*", line)[0]) for line in tree] == [12, 14, 16]  # type: ignore[index]
        assert "sleep 1000" in tree[2]

    def test_past_runs_and_rules_are_told(self, home: Path, ended: Ended) -> None:
        cli = Cli(home)
        job_id = cli.run(
            "--restart", "on-failure", "--max-restarts", "2", "--backoff", "0.1", "--timeout", "90",
            "--limit", "open_files=50", "--watch", "wrong", "--", "exit 4",
        )  # fmt: skip
        ended(job_id)
        shown = cli("status", job_id).stdout
        assert re.search(r"\n  restarts  2\n +exit 4 after \S+, \d+s ago\n +exit 4 after", shown)
        for line in ("timeout   1m30s", "limit     open_files=50", "watch     wrong"):
            assert f"\n  {line}" in shown

    def test_what_is_left_running_is_told_in_words_that_can_be_typed(self, home: Path) -> None:
        cli = Cli(home)
        job_id = cli.run("sleep 1000 & exit 0")
        jobs = open_jobs(cli.environment, many=False)
        wait_until(lambda: jobs.status(job_id).left_running == 1, "it leaves a process")
        shown = cli("status", job_id).stdout
        assert "status    exit 0, 1 left\n" in shown
        assert "1 process of it still runs: bgjob kill ends it." in shown
        assert "kill_job" not in shown + cli("status", "--json", job_id).stdout

    def test_a_command_of_several_lines_keeps_them(self, home: Path, ended: Ended) -> None:
        cli = Cli(home)
        ended(cli.run("true\nfalse || exit 0"))
        assert "  command   true\n            false || exit 0\n" in cli("status").stdout

    @pytest.mark.parametrize(("variables", "is_coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
    def test_it_has_colours_on_a_terminal(
        self, world: World, variables: dict[str, str], is_coloured: bool
    ) -> None:
        assert (b"\x1b[" in seen(world.cli, "status", "web", columns=80, **variables)) is is_coloured


class TestForScripts:
    def test_everything_known_is_one_object(self, world: World) -> None:
        web = json.loads(world.cli("status", "--json", "web").stdout)
        assert (web["job_id"], web["ports"], web["phase"]) == (world.web, [world.port], "running")
        assert [each["port"] for each in web["activity"]["listening"]] == [world.port]
        assert [each["pid"] for each in web["activity"]["tree"]] == [web["pid"]]
        assert web["started_by"]["client"] == "bgjob"
        assert {
            "cpu_s",
            "memory_bytes",
            "output_bytes",
            "idle_s",
            "cwd",
            "shell",
            "created",
            "started",
        } <= web.keys()

    def test_several_jobs_are_an_object_a_line(self, world: World) -> None:
        shown = [
            json.loads(line) for line in world.cli("status", "--json", "later", "bad").stdout.splitlines()
        ]
        assert [job["name"] for job in shown] == ["later", "bad"]
        assert (shown[0]["position"], shown[0]["priority"]) == (1, 0)
        assert (shown[1]["exit_code"], "pid" in shown[1]) == (3, False)

    @pytest.mark.parametrize("options", [[], ["--json"]], ids=" ".join)
    @pytest.mark.parametrize("redirection", [">&-", ">/dev/full"])
    def test_a_stdout_that_takes_nothing_is_one_line_of_error(
        self, world: World, options: list[str], redirection: str
    ) -> None:
        command = f"{shlex.join([BGJOB, 'status', *options, 'bad'])} {redirection}"
        failed = subprocess.run(
            command, shell=True, env=world.cli.environment, capture_output=True, text=True, check=False
        )
        assert failed.returncode == 74
        assert re.fullmatch(r"bgjob: standard output cannot be written: .*\n", failed.stderr)


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    attacked = Attacked(tmp_path_factory.mktemp("attacked"))
    yield attacked
    end_all_jobs(attacked.home)


class TestEscapes:
    @pytest.mark.parametrize("options", [[], ["--json"]], ids=" ".join)
    def test_none_reaches_the_terminal(self, attacked: Attacked, options: list[str]) -> None:
        ids = [attacked.named, *attacked.asking]
        assert_only_shown(seen(attacked.cli, "status", *options, *ids, columns=4000))

"""bench/agent at this checkout alone, two quick tasks: so that the script cannot rot."""

import re
import sys

import pytest

from bench.__main__ import AGENT
from bench.report import MISSED, REACHED, Cost, Task
from bench.tasks import sums
from tests.support.bench import PROJECT, rows, run_bench

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc"),
    pytest.mark.timeout(900),
]


def test_tasks_are_played_to_their_results() -> None:
    done = run_bench("agent", "daemon", "python_repl", "--ours", f"{sys.executable} -m bgjob mcp")
    assert done.returncode == REACHED, done.stdout + done.stderr
    assert "the port is closed" in rows(done.stdout)["daemon"][-1]
    assert "999000" in rows(done.stdout)["python_repl"][-1]


def test_a_server_that_does_not_serve_is_a_failure() -> None:
    done = run_bench("agent", "daemon", "--ours", "false")
    assert done.returncode == MISSED
    assert "the server ended while we talked to it" in done.stdout


def test_sums_are_of_what_both_servers_can_do() -> None:
    alone = Task("vim", Cost(3, 300, 9000, 1.0), None, "")
    both = [Task(name, Cost(1, 100, 100, 1.0), Cost(4, 300, 300, 9.0), "") for name in ("pip", "npm")]
    rows = {row.title: row for row in sums([alone, *both])}
    assert rows["turns, 2 tasks"].ratio == 0.25
    assert rows["tokens of answers, 2 tasks"].reached
    assert rows["largest answer"].reached is False


def test_the_page_of_benchmarks_names_every_task() -> None:
    page = (PROJECT / "docs" / "benchmarks.md").read_text()
    ours = page.partition("<!-- bench/agent: begin -->")[2].partition("<!-- bench/agent: end -->")[0]
    named = set(re.findall(r"^(?:\| |- )([a-z_]+)", ours, re.MULTILINE))
    assert named >= {task.__name__ for task in AGENT}

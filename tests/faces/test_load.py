"""bench/load and bench/run with tiny numbers: so that they cannot rot. Their figures are judged in long runs."""

import platform
import re
import sys
from functools import partial

import pytest

from bench.__main__ import LOAD, RUN
from bench.report import (
    MISSED,
    NOT_JUDGED,
    REACHED,
    Result,
    Row,
    p95_ratio_at_most,
    ratio_at_most,
    unreached,
)
from tests.support.bench import PROJECT, rows, run_bench

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="they read /proc"),
    pytest.mark.timeout(900),
]


load = partial(run_bench, "load")
OURS = f"{sys.executable} -m bgjob mcp"


def test_a_crowd_meets_no_error_and_leaves_nothing() -> None:
    done = load("crowd", "--quick")
    assert done.returncode == NOT_JUDGED, done.stdout + done.stderr
    assert "- calls that failed or answered wrongly: 0\n" in done.stdout
    assert "—" not in rows(done.stdout)["get_job_status, running"]


def test_the_soak_plays_every_scene_and_leaves_nothing() -> None:
    done = load("soak", "--quick")
    assert done.returncode == NOT_JUDGED, done.stdout + done.stderr
    assert "2 servers restarted, 4 killed -9" in done.stdout
    assert "- soak: errors: 0\n" in done.stdout


def test_this_checkout_alone_is_measured_without_goals_of_ratios() -> None:
    done = run_bench("run", "wait", "uncompiled", "idle", "--quick", "--ours", OURS)
    assert done.returncode == REACHED, done.stdout + done.stderr
    table = rows(done.stdout)
    assert "—" not in table["exit to answered wait"]
    assert "≤" not in "".join(table["exit to visible"])
    assert f"guard and shim of 5 idle jobs, PSS each, Python {platform.python_version()}" in table
    assert "- uncompiled: not measured" in done.stdout


def test_what_telling_costs_is_measured() -> None:
    """Whether in time is another question: this machine may be busy."""
    done = load("hook", "task", "--quick")
    assert "failed" not in done.stdout, done.stdout
    table = rows(done.stdout)
    assert "—" not in table["bgjob hook, an end is told, wall"] + table["tasks/get of a wait"]


def test_what_commands_cost_is_measured() -> None:
    done = load("command_line", "--quick")
    assert "failed" not in done.stdout, done.stdout
    table = rows(done.stdout)
    for title in ("bgjob run -- true", "bgjob ps", "a tab after bgjob logs", "bgjob --version"):
        assert "—" not in table[f"{title}, CPU"]


def test_the_live_view_is_measured() -> None:
    done = load("top", "--quick")
    assert "failed" not in done.stdout, done.stdout
    assert "—" not in rows(done.stdout)["bgjob top: down and up"][3:5]
    assert "% of a processor" in done.stdout


def test_goals_that_are_not_reached_are_named() -> None:
    missed = Row("cold start, CPU", "ms", [5.0], [10.0], "reference", ratio_at_most(0.12))
    reached = Row("tail", "ms", [1.0], [10.0], "reference", ratio_at_most(0.3))
    few = Row("list_jobs", "ms", [5.0], [10.0], "idle", p95_ratio_at_most(3))
    without = Row("search", "ms", [5.0], [10.0], "grep")
    assert unreached(Result([missed, reached, few, without])) == [
        "missed: cold start, CPU, goal ≤ 0.12, ours 5.00 ms, ratio 0.50",
        "too few samples to judge: list_jobs, goal p95 ≤ 3 x, ours 5.00 ms, ratio 0.50",
    ]


def test_a_checkout_is_held_against_another_in_one_run() -> None:
    done = load("flood", "idle", "--quick", "--against", str(PROJECT))
    assert done.returncode == NOT_JUDGED, done.stdout + done.stderr
    against, _, _, _, _, ratio, *_ = rows(done.stdout)["PSS per idle job at 5"]
    assert against == PROJECT.name
    assert 0.5 < float(ratio) < 2
    assert "control socket of a flooding job" in rows(done.stdout)


@pytest.mark.parametrize("name", ["crowd", "soak"])
def test_a_server_that_does_not_serve_is_a_failure(name: str) -> None:
    done = load(name, "--ours", "false")
    assert done.returncode == MISSED
    assert "the server ended while we talked to it" in done.stdout


def test_the_page_of_benchmarks_names_measures_that_exist() -> None:
    page = (PROJECT / "docs" / "benchmarks.md").read_text()
    named = {name for names in re.findall(r"`bench/load ([a-z_ ]+)", page) for name in names.split()}
    assert named == {measure.__name__ for measure in LOAD}
    assert set(re.findall(r"`bench/run ([a-z]+)", page)) <= {measure.__name__ for measure in RUN}


def test_help_tells_what_each_measure_is() -> None:
    done = load("--help")
    assert done.returncode == 0
    for measure in LOAD:
        assert f"  {measure.__name__:18} {measure.__doc__}\n" in done.stdout

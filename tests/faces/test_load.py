"""bench/load with tiny numbers: so that the scripts cannot rot. Their figures are judged in long runs."""

import re
import sys
from functools import partial

import pytest

from bench.__main__ import LOAD, RUN
from bench.report import MISSED, NOT_JUDGED
from tests.support.bench import PROJECT, rows, run_bench

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="they read /proc"),
    pytest.mark.timeout(180),
]


load = partial(run_bench, "load")


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
    named = {name for names in re.findall(r"`bench/load ([a-z ]+)", page) for name in names.split()}
    assert named == {measure.__name__ for measure in LOAD}
    assert set(re.findall(r"`bench/run ([a-z]+)", page)) <= {measure.__name__ for measure in RUN}


def test_help_tells_what_each_measure_is() -> None:
    done = load("--help")
    assert done.returncode == 0
    for measure in LOAD:
        assert f"  {measure.__name__:18} {measure.__doc__}\n" in done.stdout

"""bench/load with tiny numbers: so that the scripts cannot rot. Their figures are judged in long runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench.__main__ import LOAD, RUN
from bench.report import MISSED, NOT_JUDGED

PROJECT = Path(__file__).resolve().parents[2]
ENDS_WITHIN_S = 150.0

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="they read /proc"),
    pytest.mark.timeout(180),
]


def load(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "bench", "load", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, cwd=PROJECT, stdout=pipe, stderr=pipe, text=True) as running:
        try:
            said, complained = running.communicate(timeout=ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            running.terminate()  # not killed: it takes its servers and jobs with it
            raise
    return subprocess.CompletedProcess(argv, running.returncode, said, complained)


def rows(table: str) -> dict[str, list[str]]:
    """The cells of each row of its table, by the first."""
    lines = [line.strip("| ").split("|") for line in table.splitlines() if line.startswith("|")]
    return {first.strip(): [cell.strip() for cell in rest] for first, *rest in lines}


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

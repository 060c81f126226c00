"""The load and the soak, with tiny numbers: so that the scripts cannot rot. Their figures are judged in long runs."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench.tables import NOT_JUDGED_STATUS

PROJECT = Path(__file__).resolve().parents[2]
ENDS_WITHIN_S = 150.0

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="they read /proc"),
    pytest.mark.timeout(900),
]


def bench(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", f"bench.{script}", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, cwd=PROJECT, stdout=pipe, stderr=pipe, text=True) as running:
        try:
            said, complained = running.communicate(timeout=ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            running.terminate()  # not killed: it takes its servers and jobs with it
            raise
    return subprocess.CompletedProcess(argv, running.returncode, said, complained)


def rows(table: str) -> dict[str, list[str]]:
    """The cells of each row of its tables, by the first."""
    lines = [line.strip("| ").split("|") for line in table.splitlines() if line.startswith("|")]
    return {first.strip(): [cell.strip() for cell in rest] for first, *rest in lines}


def test_the_load_finds_no_error_and_no_leftover() -> None:
    done = bench(
        "load",
        *("--jobs", "6", "--clients", "1", "--ended", "40"),
        *("--rounds", "1", "--seconds", "1", "--full-speed-seconds", "0.5"),
    )
    assert done.returncode == NOT_JUDGED_STATUS, done.stdout + done.stderr
    table = rows(done.stdout)
    assert table["calls that failed or answered wrongly"] == ["0", "0", "yes"]
    assert table["processes left after that, and after the servers' end"] == ["0", "0", "yes"]
    idle, load, _, full_speed, _, _ = table["get_job_status, running"]
    assert "—" not in (idle, load, full_speed)


def test_the_soak_plays_every_scene_and_leaves_nothing() -> None:
    done = bench("soak", "--minutes", "0.01", "--every", "3", "--clients", "2")
    assert done.returncode == NOT_JUDGED_STATUS, done.stdout + done.stderr
    assert "1 servers restarted, 2 killed -9" in done.stdout
    assert " 0 errors" in done.stdout
    assert rows(done.stdout)["ended jobs beyond MCP_BG_KEEP_JOBS"][:4] == ["0.00"] * 4


@pytest.mark.parametrize("script", ["load", "soak"])
def test_they_fail_when_the_server_does_not_serve(script: str) -> None:
    done = bench(script, "--server", "false")
    assert done.returncode == 1
    assert "the server ended while we talked to it" in done.stderr


@pytest.mark.parametrize("script", ["load", "soak"])
def test_they_help(script: str) -> None:
    done = bench(script, "--help")
    assert done.returncode == 0
    assert "Exit status" in done.stdout

"""bench/remote with tiny numbers: so that it cannot rot. Its figures are judged in long runs."""

import re
import sys

import pytest

from bench.__main__ import REMOTE
from bench.report import NOT_JUDGED
from tests.support.bench import PROJECT, rows, run_bench

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc"),
    pytest.mark.timeout(900),
]


def test_a_relay_with_many_machines_is_measured() -> None:
    done = run_bench("remote", "scale", "--quick")
    assert done.returncode == NOT_JUDGED, done.stdout + done.stderr
    table = rows(done.stdout)
    assert "—" not in table["4 machines, 40 running jobs: line to file"][1:5]
    assert "—" not in table["4 machines, 40 running jobs: list of 20"][1:5]
    assert re.search(r"- 5 ends at once are here after \d", done.stdout)


def test_the_page_of_benchmarks_names_the_measures() -> None:
    page = (PROJECT / "docs" / "benchmarks.md").read_text()
    named = {name for names in re.findall(r"`bench/remote ([a-z_ ]+)", page) for name in names.split()}
    assert named == {measure.__name__ for measure in REMOTE}

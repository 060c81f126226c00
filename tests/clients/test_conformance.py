"""The official conformance suites over HTTP: each scenario is complete, or not_applicable.py says why not.

The server is that of `bgjob serve`, with the tools, resources and prompts of fixtures.py added.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.clients import not_applicable, packages, seen
from tests.support.npm_packages import installing_takes_long
from tests.support.requires import linux_only

pytestmark = [linux_only, installing_takes_long]

LIMIT_S = 400
"""Ends what hangs: a run takes up to 20 seconds."""
DIRECTORY = re.compile(r"server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z")
SCENARIO = re.compile(r"(?m)^  - (\S+)")
STATELESS = "2026-07-28"
Check = dict[str, str]
Scenarios = dict[str, list[Check]]
"""The checks that were made for each scenario."""


class Run(NamedTuple):
    package: str
    revision: str = ""
    """Without one, the suite chooses for each scenario: the newest revision with a handshake, if it has that."""

    @property
    def name(self) -> str:
        return f"{packages.versions()[self.package]}/{self.revision or 'as the suite chooses'}"

    @property
    def options(self) -> list[str]:
        return ["--spec-version", self.revision] if self.revision else []

    def reasons(self) -> dict[str, str]:
        older = {} if self.revision == STATELESS else not_applicable.OF_A_HANDSHAKE
        return {**not_applicable.SCENARIOS, **older}


RUNS = [
    Run("conformance-0.1"),
    Run("conformance-0.1", "2025-06-18"),
    Run("conformance-0.2"),
    Run("conformance-0.2", "2025-06-18"),
    Run("conformance-0.2", STATELESS),
]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_each_scenario_is_complete_or_does_not_apply(run: Run, fixture_url: str, tmp_path: Path) -> None:
    made = checks_of(run, fixture_url, tmp_path / "results")
    assert set(made) == set(scenarios_of(run))
    incomplete = {name for name, checks in made.items() if not is_complete(checks)}
    assert {name: problems(made[name]) for name in incomplete - set(run.reasons())} == {}
    seen.check("conformance", run.name, summary(run, made, incomplete))


def test_no_reason_outlives_its_scenario() -> None:
    """All of them are asked for by some run, and incomplete in it: seen.json says so."""
    record = json.loads(seen.RECORD.read_text())["conformance"]
    incomplete = {name for run in record.values() for name in run["not applicable"]}
    assert incomplete == set(not_applicable.SCENARIOS) | set(not_applicable.OF_A_HANDSHAKE)
    left_out = {name.partition(": ")[2] for run in record.values() for name in run["checks left out"]}
    assert left_out == set(not_applicable.CHECKS)


def scenarios_of(run: Run) -> list[str]:
    return SCENARIO.findall(suite(run, "list", "--server", *run.options).stdout)


def checks_of(run: Run, url: str, results: Path) -> Scenarios:
    suite(run, "server", "--url", url, "--suite", "all", "-o", str(results), *run.options)
    return dict(recorded(results))


def recorded(results: Path) -> Iterator[tuple[str, list[Check]]]:
    for directory in results.iterdir():
        found = DIRECTORY.fullmatch(directory.name)
        assert found, directory
        yield found[1], json.loads((directory / "checks.json").read_text())


def suite(run: Run, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*packages.script(f"{run.package}/dist/index.js"), *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=LIMIT_S)


def is_complete(checks: list[Check]) -> bool:
    """Something was shown, and nothing that applies was left out: neither failed, nor warned of, nor skipped."""
    return any(check["status"] == "SUCCESS" for check in checks) and not problems(checks)


def problems(checks: list[Check]) -> list[str]:
    return [
        f"{check['status']} {check['id']}: {check.get('errorMessage', check['description'])}"
        for check in unsuccessful(checks)
        if check["id"] not in not_applicable.CHECKS
    ]


def unsuccessful(checks: list[Check]) -> list[Check]:
    return [check for check in checks if check["status"] not in ("SUCCESS", "INFO")]


def summary(run: Run, made: Scenarios, incomplete: set[str]) -> dict[str, object]:
    left_out = {
        f"{name}: {check['id']}": not_applicable.CHECKS[check["id"]]
        for name in sorted(set(made) - incomplete)
        for check in unsuccessful(made[name])
    }
    reasons = {name: run.reasons()[name] for name in sorted(incomplete)}
    return {"complete": len(made) - len(incomplete), "not applicable": reasons, "checks left out": left_out}

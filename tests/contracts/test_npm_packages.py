"""What tests install from npm is what is locked, from whichever registry."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]
EXACT = re.compile(r"(?:npm:@?[\w/-]+@)?\d+\.\d+\.\d+(?:-[\w.]+)?")
KINDS = ("dependencies", "optionalDependencies")
lanes = pytest.mark.parametrize("lane", ["clients", "page"])


def manifest(lane: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((TESTS / lane / "package.json").read_text())
    return read


def locked(lane: str) -> dict[str, dict[str, Any]]:
    packages: dict[str, dict[str, Any]] = json.loads((TESTS / lane / "package-lock.json").read_text())[
        "packages"
    ]
    return packages


@lanes
def test_each_version_is_exact(lane: str) -> None:
    wanted = {kind: manifest(lane).get(kind, {}) for kind in KINDS}
    versions = [version for of_kind in wanted.values() for version in of_kind.values()]
    assert [version for version in versions if not EXACT.fullmatch(version)] == []
    assert {kind: locked(lane)[""].get(kind, {}) for kind in KINDS} == wanted


@lanes
def test_the_lock_has_hashes_and_no_registry(lane: str) -> None:
    packages = [package for name, package in locked(lane).items() if name]
    assert packages
    assert [package for package in packages if "integrity" not in package or "resolved" in package] == []

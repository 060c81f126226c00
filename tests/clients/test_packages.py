"""What is installed is what is locked, from whichever registry."""

import json
import re

from tests.clients.packages import HERE

MANIFEST = json.loads((HERE / "package.json").read_text())
LOCK = json.loads((HERE / "package-lock.json").read_text())["packages"]
EXACT = re.compile(r"(?:npm:@?[\w/-]+@)?\d+\.\d+\.\d+(?:-[\w.]+)?")


def test_each_version_is_exact() -> None:
    wanted = {**MANIFEST["dependencies"], **MANIFEST["optionalDependencies"]}
    assert [name for name, version in wanted.items() if not EXACT.fullmatch(version)] == []
    assert (LOCK[""]["dependencies"], LOCK[""]["optionalDependencies"]) == (
        MANIFEST["dependencies"],
        MANIFEST["optionalDependencies"],
    )


def test_the_lock_has_hashes_and_no_registry() -> None:
    locked = [package for name, package in LOCK.items() if name]
    assert [package for package in locked if "integrity" not in package or "resolved" in package] == []

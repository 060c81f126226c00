"""Jobs that attack what supervises them: whatever they do, every call is answered in time and truly, and a kill leaves
nothing behind. As we are, and as a user without privileges, to whom the kernel tells and allows less."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import bgjob
from tests.shim import attacks
from tests.support.requires import linux_only

pytestmark = [linux_only, pytest.mark.timeout(900)]
NOBODY = 65534
ANSWER_S = 60.0
ENDS_BY_ITSELF = {
    "removes its directory and kills its shim": "not_found",
    "garbles its records and kills its shim": "already_terminated",
    "forges its spec and kills its shim": "already_terminated",
}
"""By its guard, which finds nothing that it could go on with; perhaps before we ask."""
MAY_SAY = ("JobNotFound", "StoreUnusable")
Reports = dict[str, dict[str, Any]]


@pytest.fixture(scope="module", params=["ourselves", "nobody"])
def reports(request: pytest.FixtureRequest) -> Iterator[Reports]:
    """All attacks at once, by one process: in turns they would take minutes."""
    if request.param == "nobody" and os.geteuid() != 0:
        pytest.skip("we are a user without privileges ourselves")
    scratch = Path(tempfile.mkdtemp(prefix="bgjob-attacks-"))  # pytest's own are closed to others
    try:
        yield performed(scratch, NOBODY if request.param == "nobody" else None)
    finally:
        shutil.rmtree(scratch)


def performed(scratch: Path, uid: int | None) -> Reports:
    program = scratch / "attacks.py"
    shutil.copy(attacks.__file__, program)
    shutil.copytree(Path(bgjob.__file__).parent, scratch / "package" / "bgjob")
    for name in ("work", "work/cwd"):
        (scratch / name).mkdir()
        if uid is not None:
            os.chown(scratch / name, uid, uid)
    for path in (
        scratch,
        program,
        *scratch.rglob("*"),
    ):  # copied from a checkout that may be closed to others
        path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))
    done = subprocess.run(
        [interpreter(scratch, uid), program, scratch / "package", scratch / "work"],
        cwd=scratch / "work" / "cwd",
        env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        **as_user(uid),
    )
    assert done.returncode == 0, done.stderr
    reports: Reports = json.loads(done.stdout)
    return reports


def as_user(uid: int | None) -> dict[str, Any]:
    return {} if uid is None else {"user": uid, "group": uid, "extra_groups": []}


def interpreter(scratch: Path, uid: int | None) -> str:
    """Ours, if that user can reach it; else the system's; else a copy of ours."""
    for candidate in (sys.executable, os.path.realpath(sys.executable), "/usr/bin/python3"):
        if can_run(candidate, uid):
            return candidate
    base, version = Path(sys.base_prefix), f"python{sys.version_info.major}.{sys.version_info.minor}"
    copy = scratch / "python"
    ignored = shutil.ignore_patterns("site-packages", "test", "__pycache__", "*.a", "idlelib", "tkinter")
    shutil.copytree(base / "lib", copy / "lib", ignore=ignored, symlinks=True)
    (copy / "bin").mkdir()
    shutil.copy(base / "bin" / version, copy / "bin" / version)
    assert can_run(str(copy / "bin" / version), uid)
    return str(copy / "bin" / version)


def can_run(python: str, uid: int | None) -> bool:
    try:
        new_enough = [python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
        return subprocess.run(new_enough, cwd="/", check=False, **as_user(uid)).returncode == 0
    except OSError:
        return False


@pytest.mark.parametrize("attack", attacks.ATTACKS)
def test_a_job_that_attacks_its_supervisors_is_answered_for_and_ended(reports: Reports, attack: str) -> None:
    check(reports[attack], {"killed", ENDS_BY_ITSELF.get(attack, "killed")})


def test_one_that_leaves_all_its_traces_is_found_by_its_control_group(reports: Reports) -> None:
    for attack in attacks.IN_A_GROUP:
        if attack not in reports:
            pytest.skip("no control group can be made here")
        check(reports[attack], {"killed"})


def check(report: dict[str, Any], endings: set[str]) -> None:
    said, took_s = report["said"], report["took_s"]
    assert report["struck"], report
    assert said["execute"] in ("Running", "Lost"), report
    assert said["list"] is True, report
    assert said["output"] is True or said["output"].startswith(MAY_SAY), report
    for moment in ("status", "status after it"):
        assert ":" not in said[moment] or said[moment].startswith(MAY_SAY), report
    assert said["kill"] in endings, report
    assert said["status after it"] != "Running", report
    assert report["left"] == [], report
    assert report["innocent"] == "S", report
    assert max(took_s.values()) < ANSWER_S, report

"""scripts/run in a terminal, as docs/picture.svg shows it: made anew, the picture is the same."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
STATE = "wanted_state .venv-run --with-project requirements/runtime.txt requirements/build.txt"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout that is set up: its environment is the one of the tests."""
    root = tmp_path / "checkout"
    for name in ("scripts", "requirements"):
        shutil.copytree(PROJECT / name, root / name)
    shutil.copy(PROJECT / "pyproject.toml", root)
    binaries = root / ".venv-run" / "bin"
    binaries.mkdir(parents=True)
    for name in ("python", "bgjob"):
        (binaries / name).symlink_to(Path(sys.executable).with_name(name))
    made_for = subprocess.check_output(["bash", "-c", f". scripts/_env; {STATE}"], cwd=root)
    (root / ".venv-run" / "made-for").write_bytes(made_for)
    return root


@pytest.fixture
def patience(tmp_path: Path) -> str:
    """A PATH on which a job's `sleep 1` takes longer: it still runs when a busy machine shows it."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "sleep").write_text("#!/bin/sh\nexec /bin/sleep 4\n")
    (programs / "sleep").chmod(0o755)
    return f"{programs}:{os.environ['PATH']}"


def test_the_picture_shows_the_tour_as_it_is_and_the_tour_leaves_nothing(
    checkout: Path, patience: str, tmp_path: Path
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    picture = str(PROJECT / "docs" / "picture.svg")
    check = [sys.executable, "scripts/picture.py", picture, "--check"]
    environment = {**os.environ, "TMPDIR": str(temporary), "PATH": patience}
    done = subprocess.run(check, cwd=checkout, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert list(temporary.iterdir()) == []

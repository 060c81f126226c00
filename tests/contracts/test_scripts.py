"""The scripts set up their own environments on machines that lack something, and say why when they cannot."""

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.contracts.golden import ROOT

PYPROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""
BACKEND = """\
import sys

def get_requires_for_build_wheel(settings=None):
    return []

def build_wheel(directory, settings=None, metadata=None):
    sys.exit("no compiler for the bolts")
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What the scripts need of a checkout, with lock files of its own."""
    root = tmp_path / "checkout"
    shutil.copytree(ROOT / "scripts", root / "scripts")
    (root / "requirements").mkdir()
    (root / "requirements" / "nothing.txt").touch()
    (root / "pyproject.toml").write_text("[project.scripts]\n\n")
    return root


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """All that is on PATH before the system's programs."""
    (directory := tmp_path / "programs").mkdir()
    return directory


def program(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def sourced(checkout: Path, line: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", f". {checkout}/scripts/_env; {line}"],
        env=os.environ | {"PIP_NO_INDEX": "1", "PYTHON": sys.executable} | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def sdist(path: Path, **files: str) -> str:
    """Write an archive of sources, and return the line of a lock file that installs it."""
    with tarfile.open(path, "w:gz") as archive:
        for name, text in {"PKG-INFO": "Metadata-Version: 2.1\nName: bolts\nVersion: 1\n", **files}.items():
            member = tarfile.TarInfo(f"bolts-1/{name}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return f"bolts @ {path.as_uri()} --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"


def test_what_pip_said_last_is_shown_whenever_pip_fails(checkout: Path, tmp_path: Path) -> None:
    lock = sdist(tmp_path / "bolts-1.tar.gz", **{"pyproject.toml": PYPROJECT, "backend.py": BACKEND})
    (checkout / "requirements" / "bolts.txt").write_text(lock)
    done = sourced(checkout, "environment .venv requirements/bolts.txt; echo done")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "no compiler for the bolts" in done.stderr
    assert len(done.stderr.splitlines()) < 25


@pytest.mark.parametrize("name", ["python3.16", "python3.15", "python3.14", "python3.11"])
def test_a_newer_python_is_found_by_its_name(checkout: Path, programs: Path, name: str) -> None:
    for known in ["python3", *(f"python3.{minor}" for minor in range(11, 17))]:
        program(programs / known, "exit 1")
    found = program(programs / name, f'exec {sys.executable} "$@"')
    done = sourced(checkout, "find_python", PATH=f"{programs}:{os.environ['PATH']}", PYTHON="")
    assert done.stdout.strip() == str(found)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A package index on loopback, with a pip of its own: its URL and the wheel."""
    (page := tmp_path / "simple" / "pip").mkdir(parents=True)
    wheel = page / "pip-99-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("pip/__init__.py", "")
        archive.writestr("pip/__main__.py", "print('the pip of the index')")
    (page / "index.html").write_text(f'<a href="{wheel.name}#sha256=0">{wheel.name}</a>')
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/simple", wheel
        server.shutdown()


class TestWithoutEnsurepip:
    """As Debian's python3 is without python3-venv."""

    @pytest.fixture
    def variables(self, programs: Path, index: tuple[str, Path]) -> dict[str, str]:
        program(programs / "apt-get", f"touch {programs}/apt-was-run")
        lacking = f'case "$*" in *ensurepip*) exit 1 ;; esac\nexec {sys.executable} "$@"'
        return {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHON": str(program(programs / "python-bare", lacking)),
            "PIP_INDEX_URL": index[0],
        }

    def lock(self, checkout: Path, digest: str) -> None:
        (checkout / "requirements" / "pip.txt").write_text(f"pip==99 \\\n    --hash=sha256:{digest}\n")

    def test_pip_comes_from_the_index(
        self, checkout: Path, variables: dict[str, str], index: tuple[str, Path], programs: Path
    ) -> None:
        self.lock(checkout, hashlib.sha256(index[1].read_bytes()).hexdigest())
        done = sourced(checkout, "environment .venv requirements/nothing.txt", **variables)
        assert done.returncode == 0, done.stderr
        assert "the pip of the index" in (checkout / ".venv" / "pip.log").read_text()
        assert not (programs / "apt-was-run").exists()

    def test_another_pip_than_the_locked_one_is_refused(
        self, checkout: Path, variables: dict[str, str], programs: Path
    ) -> None:
        self.lock(checkout, "0" * 64)
        done = sourced(checkout, "environment .venv requirements/nothing.txt", **variables)
        assert done.returncode == 1
        assert "is not the one of" in done.stderr
        assert not (programs / "apt-was-run").exists()

    def test_without_an_index_it_says_what_to_install_and_installs_nothing(
        self, checkout: Path, variables: dict[str, str], programs: Path
    ) -> None:
        self.lock(checkout, "0" * 64)
        nowhere = variables | {"PIP_INDEX_URL": "http://127.0.0.1:1/simple"}
        done = sourced(checkout, "environment .venv requirements/nothing.txt", **nowhere)
        assert done.returncode == 1
        assert "sudo apt-get install python3." in done.stderr
        assert not (programs / "apt-was-run").exists()

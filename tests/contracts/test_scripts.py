"""The scripts set up their own environments on machines that lack something, and say why when they cannot."""

import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.contracts.golden import ROOT
from tests.support.requires import needs

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
    assert len(done.stderr.partition("pip failed.")[2].splitlines()) == 1 + 20


@pytest.mark.parametrize("name", ["python3.16", "python3.15", "python3.14", "python3.11"])
def test_a_newer_python_is_found_by_its_name(checkout: Path, programs: Path, name: str) -> None:
    for known in ["python3", *(f"python3.{minor}" for minor in range(11, 17))]:
        program(programs / known, "exit 1")
    found = program(programs / name, f'exec {sys.executable} "$@"')
    done = sourced(checkout, "find_python", PATH=f"{programs}:{os.environ['PATH']}", PYTHON="")
    assert done.stdout.strip() == str(found)


@pytest.mark.parametrize(("libc", "packages"), [("musl", ["pyte"]), ("gnu", ["google-re2", "pyte"])])
def test_google_re2_is_left_out_on_musl(
    checkout: Path, programs: Path, tmp_path: Path, libc: str, packages: list[str]
) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text("google-re2==1 ; m \\\n    --hash=sha256:1\n    # via\npyte==1 \\\n    --hash=sha256:2\n")
    program(programs / "python", "true" if libc == "musl" else "false")
    done = sourced(checkout, f"installable {programs}/python {lock}")
    assert re.findall(r"(?m)^[\w-]+", done.stdout) == packages


@needs("apt-get")
class TestWithoutEnsurepip:
    """As Debian's python3 is without python3-venv. apt-get is the real one, with a repository of its own."""

    @pytest.fixture
    def variables(self, programs: Path, tmp_path: Path) -> dict[str, str]:
        lacking = f'case "$*" in *"import ensurepip"*) exit 1 ;; esac\nexec {sys.executable} "$@"'
        (tmp_path / "sources.list").write_text(f"deb [trusted=yes] file:{tmp_path}/repository ./\n")
        settings = {"sourcelist": tmp_path / "sources.list", "sourceparts": "/dev/null"}
        lines = [f'Dir::Etc::{name} "{path}";' for name, path in settings.items()]
        (tmp_path / "apt.conf").write_text("\n".join(lines))
        (tmp_path / "repository").mkdir()
        return {
            "PYTHON": str(program(programs / "python-bare", lacking)),
            "APT_CONFIG": str(tmp_path / "apt.conf"),
        }

    def test_pip_is_taken_out_of_the_package_of_debian(
        self, checkout: Path, variables: dict[str, str], tmp_path: Path
    ) -> None:
        publish(tmp_path / "repository", pip_wheel("print('the pip of the package')"))
        done = sourced(checkout, "environment .venv requirements/nothing.txt", **variables)
        assert done.returncode == 0, done.stderr
        assert "the pip of the package" in (checkout / ".venv" / "pip.log").read_text()
        assert not (checkout / ".venv" / "debian").exists()

    def test_without_the_package_it_says_what_to_install(
        self, checkout: Path, variables: dict[str, str], tmp_path: Path
    ) -> None:
        (tmp_path / "repository" / "Packages").touch()
        done = sourced(checkout, "environment .venv requirements/nothing.txt", **variables)
        assert done.returncode == 1
        assert "sudo apt-get install python3." in done.stderr


def pip_wheel(main: str) -> bytes:
    """A pip that installs itself, and does nothing else but run `main`."""
    lines = (
        "import sys, sysconfig, zipfile",
        "if sys.argv[-1].endswith('.whl'):",
        "    zipfile.ZipFile(sys.argv[-1]).extractall(sysconfig.get_path('purelib'))",
        main,
    )
    with zipfile.ZipFile(content := io.BytesIO(), "w") as archive:
        archive.writestr("pip/__init__.py", "")
        archive.writestr("pip/__main__.py", "\n".join(lines))
    return content.getvalue()


def publish(repository: Path, wheel: bytes) -> None:
    """Put python3-pip-whl, with this wheel, into a repository."""
    tree = repository / "tree"
    (wheels := tree / "usr/share/python-wheels").mkdir(parents=True)
    (wheels / "pip-99-py3-none-any.whl").write_bytes(wheel)
    (tree / "DEBIAN").mkdir(mode=0o755)
    control = (
        "Package: python3-pip-whl\nVersion: 99\nArchitecture: all\nMaintainer: nobody\nDescription: pip\n"
    )
    (tree / "DEBIAN" / "control").write_text(control)
    package = repository / "python3-pip-whl_99_all.deb"
    subprocess.run(["dpkg-deb", "--build", tree, package], check=True, capture_output=True)
    content = package.read_bytes()
    where = (
        f"Filename: ./{package.name}\nSize: {len(content)}\nSHA256: {hashlib.sha256(content).hexdigest()}\n"
    )
    (repository / "Packages").write_text(control + where)

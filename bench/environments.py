"""One virtual environment per side, made with the same Python, kept under bench/ until it must hold else."""

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.client import BenchError

BENCH = Path(__file__).resolve().parent
PROJECT = BENCH.parent
REFERENCE = "mcp-background-job==0.1.2"
REFERENCE_PYTHON = (3, 12)
PYTHON_NAMES = ["python3.13", "python3.12", "python3.14", "python3.15", "python3"]

VERSION = "import sys, venv; print('.'.join(map(str, sys.version_info[:3])))"
PACKAGES = """
import importlib.metadata as metadata
for name in ["mcp-background-job", "bgjob", "fastmcp", "mcp"]:
    try:
        print(name, metadata.version(name), end="; ")
    except metadata.PackageNotFoundError:
        pass
print(sum(1 for _ in metadata.distributions()) - 1, "packages")
"""


def reference_python(wanted: str | None) -> str:
    """A Python that starts and can hold the reference: the wanted one, or the first on the PATH."""
    candidates = [wanted] if wanted else _on_path(PYTHON_NAMES)
    for python in candidates:
        version = python_version(python)
        if version and tuple(map(int, version.split("."))) >= REFERENCE_PYTHON:
            return python
    if wanted:
        raise BenchError(f"{wanted} does not start as Python >= 3.12, which the reference needs")
    raise BenchError(
        "no Python >= 3.12, which the reference needs, is on the PATH: name it with --reference-python"
    )


def _on_path(names: list[str]) -> Iterator[str]:
    """Every directory's, not only the first's: the first may be a stub that does not start."""
    for name in names:
        for directory in os.get_exec_path():
            if os.access(python := Path(directory, name), os.X_OK):
                yield str(python)


def python_version(python: str) -> str | None:
    try:
        said = subprocess.run(
            [python, "-I", "-c", VERSION], check=False, capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return said.stdout.strip() or None


def reference_environment(python: str, *, reinstall: bool) -> Path:
    return _environment("reference", python, REFERENCE, {"requirement": REFERENCE}, reinstall)


def our_environment(python: str, *, reinstall: bool) -> Path:
    """A regular install, as users have it, and so that edits during a run do not reach it."""
    return _environment("ours", python, str(PROJECT), {"source": _source_digest()}, reinstall)


def packages(python: Path) -> str:
    return _run([python, "-I", "-c", PACKAGES]).strip()


def _environment(name: str, python: str, requirement: str, holds: Mapping[str, str], reinstall: bool) -> Path:
    directory = BENCH / f".env-{name}"
    stamp = directory / "bench.json"
    wanted = {"python": python_version(python), **holds}
    if reinstall or not stamp.exists() or json.loads(stamp.read_text()) != wanted:
        _install(name, directory, python, requirement)
        stamp.write_text(json.dumps(wanted))
    return directory / "bin" / "python"


def _install(name: str, directory: Path, python: str, requirement: str) -> None:
    print(f"bench: installing {name} into {directory.relative_to(PROJECT)} …", file=sys.stderr, flush=True)
    began = time.monotonic()
    _run([python, "-m", "venv", "--clear", directory])
    _run(
        [
            directory / "bin" / "python",
            "-m",
            "pip",
            "install",
            "-q",
            "--disable-pip-version-check",
            requirement,
        ]
    )
    print(f"bench: installed {name} in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


def _source_digest() -> str:
    digest = hashlib.sha256()
    for path in [PROJECT / "pyproject.toml", *sorted((PROJECT / "src").rglob("*.py"))]:
        if not path.exists():
            raise BenchError(f"{path.relative_to(PROJECT)} is missing: the project cannot be installed yet")
        digest.update(f"{path.relative_to(PROJECT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _run(argv: list[str | Path]) -> str:
    done = subprocess.run(argv, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise BenchError(f"{' '.join(map(str, argv))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout

"""Virtual environments of the servers that are compared, and packages that tasks use: kept under bench/."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.lab import OURS, REFERENCE, BenchError, Side

BENCH = Path(__file__).resolve().parent
PROJECT = BENCH.parent
PACKAGE = "mcp-background-job==0.1.2"
FOR_TASKS = BENCH / ".env-tasks"
NPM_PACKAGES = ["create-vite@9.3.0", "vite@7.3.8"]
PYTHON_PACKAGES = ["tqdm==4.67.1"]
OLDEST_PYTHON = (3, 12)
PYTHON_NAMES = ["python3.13", "python3.12", "python3.14", "python3.15", "python3"]

VERSION = "import sys, venv; print('.'.join(map(str, sys.version_info[:3])))"
PACKAGES = """
import importlib.metadata as metadata
NAMES = ("mcp-background-job", "bgjob", "fastmcp", "mcp")
found = {one.metadata["Name"]: one.version for one in metadata.distributions()}
shown = [f"{name} {found[name]}" for name in NAMES if name in found]
print(*shown, f"{len(found) - 1} packages", sep="; ")
"""


def sides(python: str | None, *, reinstall: bool) -> tuple[list[Side], list[str]]:
    """The reference and ours, and what to say of them."""
    python = _able(python)
    its = _environment("reference", python, PACKAGE, PACKAGE, reinstall)
    # a regular install, as users have it, so that edits during a run do not reach it
    ours = _environment("ours", python, str(PROJECT), _source_digest(), reinstall)
    facts = [
        f"Python of both servers: {_version(python)}",
        f"reference: {_run([its, '-I', '-c', PACKAGES]).strip()}",
        f"ours: {_run([ours, '-I', '-c', PACKAGES]).strip()}",
    ]
    return [
        Side(REFERENCE, [str(its), "-m", "mcp_background_job"]),
        Side(OURS, [str(ours), "-m", "bgjob", "mcp"], list_all={"limit": 1000}),
    ], facts


def npm_packages() -> Path:
    directory = FOR_TASKS / "node_modules"
    if not (directory / ".package-lock.json").exists():
        _run(["npm", "install", "--no-fund", "--no-audit", "--prefix", FOR_TASKS, *NPM_PACKAGES])
    return directory


def python_packages() -> Path:
    directory = FOR_TASKS / "python"
    if not directory.exists():
        _run([sys.executable, "-m", "pip", "install", "-q", "--target", directory, *PYTHON_PACKAGES])
    return directory


def _able(wanted: str | None) -> str:
    """A Python that starts and can hold the reference: the wanted one, or the first on the PATH."""
    for python in [wanted] if wanted else _on_path():
        version = _version(python)
        if version and tuple(map(int, version.split("."))) >= OLDEST_PYTHON:
            return python
    raise BenchError("the reference needs a Python >= 3.12: name one with --python")


def _on_path() -> Iterator[str]:
    """Those of every directory: the first may be a stub that does not start."""
    for name in PYTHON_NAMES:
        for directory in os.get_exec_path():
            if os.access(python := Path(directory, name), os.X_OK):
                yield str(python)


def _version(python: str) -> str | None:
    try:
        said = subprocess.run([python, "-I", "-c", VERSION], check=False, capture_output=True, text=True)
    except OSError:
        return None
    return said.stdout.strip() or None


def _environment(name: str, python: str, requirement: str, holds: str, reinstall: bool) -> Path:
    directory = BENCH / f".env-{name}"
    stamp, its_python = directory / "bench.json", directory / "bin" / "python"
    wanted = [_version(python), holds]
    if reinstall or not stamp.exists() or json.loads(stamp.read_text()) != wanted:
        print(f"bench: installing {name} …", file=sys.stderr, flush=True)
        _run([python, "-m", "venv", "--clear", directory])
        _run([its_python, "-m", "pip", "install", "-q", "--disable-pip-version-check", requirement])
        stamp.write_text(json.dumps(wanted))
    return its_python


def _source_digest() -> str:
    digest = hashlib.sha256()
    for path in [PROJECT / "pyproject.toml", *sorted((PROJECT / "src").rglob("*.py"))]:
        digest.update(f"{path.relative_to(PROJECT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _run(argv: list[str | Path]) -> str:
    done = subprocess.run(argv, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise BenchError(f"{' '.join(map(str, argv))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout

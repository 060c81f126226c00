"""Virtual environments of the servers that are compared, and packages that tasks use: kept under bench/."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.lab import OURS, REFERENCE, BenchError, Side

BENCH = Path(__file__).resolve().parent
PROJECT = BENCH.parent
PACKAGE = "mcp-background-job==0.1.2"
SERVE = ["-m", "bgjob", "mcp"]
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


def sides(pythons: list[str], *, reinstall: bool) -> tuple[list[Side], list[Side], list[str]]:
    """The reference and ours; ours on the further Pythons; and what to say of them."""
    python = _able(pythons)
    its = _environment("reference", python, [[PACKAGE]], PACKAGE, reinstall)
    mine, *others = [_ours(one, reinstall) for one in [python, *(one for one in pythons if one != python)]]
    facts = [
        f"Python of both servers: {_version(python)}",
        f"reference: {_run([its, '-I', '-c', PACKAGES]).strip()}",
        f"ours: {_run([mine.argv[0], '-I', '-c', PACKAGES]).strip()}",
    ]
    return [Side(REFERENCE, [str(its), "-m", "mcp_background_job"]), mine], others, facts


def _ours(python: str, reinstall: bool) -> Side:
    # a regular install, as users have it, so that edits during a run do not reach it
    its_python = _environment("ours", python, _locked(PROJECT), _source_digest(), reinstall)
    return Side(OURS, [str(its_python), *SERVE], list_all={"limit": 1000})


def earlier(commit: str, python: str) -> Side:
    """bgjob of a commit, with the packages that were locked there."""
    commit = _run(["git", "-C", PROJECT, "rev-parse", "--short", commit]).strip()
    with TemporaryDirectory(prefix="bgjob-source-") as source:
        _run(["git", "-C", PROJECT, "archive", "-o", f"{source}/source.tar", commit])
        shutil.unpack_archive(f"{source}/source.tar", source, filter="data")
        its_python = _environment(commit, python, _locked(Path(source)), commit, reinstall=False)
    return Side(commit, [str(its_python), *SERVE])


def _locked(source: Path) -> list[list[str]]:
    """Arguments of pip, twice: the packages of the lock file, then bgjob alone."""
    return [["--require-hashes", "-r", f"{source}/requirements/runtime.txt"], ["--no-deps", str(source)]]


def version_of(side: Side) -> str | None:
    return _version(side.argv[0])


def site_packages(side: Side) -> Path:
    """Of a side that has an environment."""
    return next(Path(side.argv[0]).parent.parent.glob("lib/python*/site-packages"))


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


def _able(wanted: list[str]) -> str:
    """A Python that starts and can hold the reference: of the wanted ones, or the first on the PATH."""
    for python in wanted or _on_path():
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


def _environment(name: str, python: str, installs: list[list[str]], holds: str, reinstall: bool) -> Path:
    version = _version(python)
    directory = BENCH / f".env-{name}-{version}"
    stamp, its_python = directory / "bench.json", directory / "bin" / "python"
    if reinstall or not stamp.exists() or json.loads(stamp.read_text()) != holds:
        print(f"bench: installing {name} for Python {version} …", file=sys.stderr, flush=True)
        _run([python, "-m", "venv", "--clear", directory])
        for arguments in installs:
            _run([its_python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *arguments])
        stamp.write_text(json.dumps(holds))
    return its_python


def _source_digest() -> str:
    digest, lock = hashlib.sha256(), PROJECT / "requirements" / "runtime.txt"
    source = [path for path in (PROJECT / "src").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    for path in [PROJECT / "pyproject.toml", lock, *sorted(source)]:
        digest.update(f"{path.relative_to(PROJECT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _run(argv: list[str | Path]) -> str:
    done = subprocess.run(argv, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise BenchError(f"{' '.join(map(str, argv))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout

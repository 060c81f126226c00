"""The clients from npm, in the versions of package.json: installed once into node_modules beside it.

No package runs a script of its own while it is installed; the two whose script puts a binary in place are asked
for it afterwards. `npm ci` is of no use here: it wants an entry in the lock for each optional package of every
platform, and a mirror of the registry may not have them. `npm install` takes the locked versions just as well.
"""

import functools
import hashlib
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.clients.programs import run_to_its_end
from tests.clients.turns import turn

HERE = Path(__file__).parent
MODULES = HERE / "node_modules"
INSTALL_S = 600
installing_takes_long = pytest.mark.timeout(INSTALL_S + 180)
PLACE_BINARIES = ("@anthropic-ai/claude-code/install.cjs", "opencode-ai/postinstall.mjs")
ARCHITECTURES = {"x86_64": "x64", "aarch64": "arm64"}


class CannotInstall(Exception):
    pass


def install() -> None:
    made_for = MODULES / "made-for"
    MODULES.mkdir(exist_ok=True)
    with turn(MODULES):
        if not made_for.exists() or made_for.read_text() != wanted_state():
            install_anew()
            made_for.write_text(wanted_state())


def install_anew() -> None:
    run_npm("install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
    for script in PLACE_BINARIES:
        path = MODULES / script
        run(str(node()), path.name, cwd=path.parent)


def wanted_state() -> str:
    files = (HERE / "package.json", HERE / "package-lock.json")
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def run_npm(*arguments: str) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise CannotInstall("npm is not on PATH. On Debian: apt-get install nodejs npm")
    run(npm, *arguments, cwd=HERE)


def run(*command: str, cwd: Path) -> None:
    try:
        done = run_to_its_end(command, cwd, INSTALL_S)
    except subprocess.TimeoutExpired as problem:
        raise CannotInstall(str(problem)) from None
    if done.returncode:
        raise CannotInstall(f"{' '.join(command)} failed with exit code {done.returncode}: {done.stdout}")


def node() -> Path:
    """Node 22, a package among the others: what the machine has may be older than the clients want."""
    return MODULES / f"node-linux-{ARCHITECTURES[platform.machine()]}" / "bin" / "node"


def script(path: str) -> list[str]:
    return [str(node()), str(MODULES / path)]


def program(name: str) -> list[str]:
    return [str(MODULES / ".bin" / name)]


@functools.cache
def versions() -> Mapping[str, str]:
    """By the name in package.json; of an alias, the version that it stands for."""
    manifest = json.loads((HERE / "package.json").read_text())
    return {name: wanted.rpartition("@")[2] for name, wanted in manifest["dependencies"].items()}


def bare_environment(home: Path) -> dict[str, str]:
    """That of a new user who may speak to this machine alone: every proxy is a port where nothing listens."""
    nowhere, here = "http://127.0.0.1:9", "127.0.0.1,localhost"
    return {
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PATH": f"{node().parent}{os.pathsep}{os.environ['PATH']}",
        "NO_COLOR": "1",
        **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), nowhere),
        **dict.fromkeys(("NO_PROXY", "no_proxy"), here),
    }

"""The clients from npm, in the versions of package.json.

Two of them have a script that puts a binary in place: they are asked for it when all packages are there.
"""

import functools
import json
import os
import platform
from collections.abc import Mapping
from pathlib import Path

from tests.support.npm_packages import NpmPackages, run

HERE = Path(__file__).parent
MODULES = HERE / "node_modules"
PLACE_BINARIES = ("@anthropic-ai/claude-code/install.cjs", "opencode-ai/postinstall.mjs")
ARCHITECTURES = {"x86_64": "x64", "aarch64": "arm64"}


def place_binaries() -> None:
    for script in PLACE_BINARIES:
        path = MODULES / script
        run(str(node()), path.name, cwd=path.parent)


PACKAGES = NpmPackages(HERE, place_binaries)


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

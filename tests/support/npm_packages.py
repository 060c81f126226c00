"""Packages from npm, in the versions of a package.json: installed once into node_modules beside it.

No package runs a script of its own while it is installed. `npm ci` is of no use here: it wants an entry in the
lock for each optional package of every platform, and a mirror of the registry may not have them. `npm install`
takes the locked versions just as well.
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.programs import run_to_its_end
from tests.support.turns import turn

INSTALL_S = 600
installing_takes_long = pytest.mark.timeout(INSTALL_S + 180)


class CannotInstall(Exception):
    pass


class NpmPackages:
    def __init__(self, directory: Path, then: Callable[[], None] = lambda: None) -> None:
        """`then` is called when the packages are in place."""
        self._directory, self._then = directory, then
        self.modules = directory / "node_modules"

    def install(self) -> None:
        """CannotInstall: says why."""
        made_for = self.modules / "made-for"
        self.modules.mkdir(exist_ok=True)
        with turn(self.modules):
            if not made_for.exists() or made_for.read_text() != self._wanted_state():
                self._install_anew()
                made_for.write_text(self._wanted_state())

    def install_or_skip(self) -> None:
        """By hand, tests that need the packages are skipped where they cannot be installed; never in CI."""
        try:
            self.install()
        except CannotInstall as problem:
            if os.environ.get("CI"):
                raise
            pytest.skip(f"Packages of npm cannot be installed: {problem}")

    def _install_anew(self) -> None:
        npm = shutil.which("npm")
        if npm is None:
            raise CannotInstall("npm is not on PATH. On Debian: apt-get install nodejs npm")
        quietly = ("--no-audit", "--no-fund", "--loglevel=error")
        run(npm, "install", "--no-save", "--ignore-scripts", *quietly, cwd=self._directory)
        self._then()

    def _wanted_state(self) -> str:
        files = (self._directory / "package.json", self._directory / "package-lock.json")
        return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def run(*command: str, cwd: Path) -> None:
    try:
        done = run_to_its_end(command, cwd, INSTALL_S)
    except subprocess.TimeoutExpired as problem:
        raise CannotInstall(str(problem)) from None
    if done.returncode:
        raise CannotInstall(f"{' '.join(command)} failed with exit code {done.returncode}: {done.stdout}")

"""A new user of the real clients, without a network."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.clients import packages
from tests.support.programs import run_to_its_end

BGJOB = str(Path(sys.executable).with_name("bgjob"))
RUN_S = 120
SHOWS = {
    "claude": ["mcp", "get", "bgjob"],
    "codex": ["mcp", "get", "bgjob"],
    "gemini": ["mcp", "list"],
    "opencode": ["mcp", "list"],
}
QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "HTTP_PROXY": "http://127.0.0.1:9",
}


class User:
    def __init__(self, home: Path, prefix: list[str]) -> None:
        self.home, self._prefix = home, prefix
        self.environment = {
            **QUIET,
            "HOME": str(home),
            "PATH": f"{packages.MODULES / '.bin'}:{packages.node().parent}:{os.environ['PATH']}",
            "BGJOB_HOME": str(home / "jobs"),
        }

    def __call__(self, *command: str, **variables: str) -> str:
        done = run_to_its_end([*self._prefix, *command], self.home, RUN_S, self.environment | variables)
        return f"{done.stdout}\nexit code {done.returncode}"

    @contextlib.contextmanager
    def running(self, *command: str, **variables: str) -> Iterator[None]:
        """It is ended with all that it started."""
        with subprocess.Popen(
            [*self._prefix, *command],
            cwd=self.home,
            env=self.environment | variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            try:
                yield
            finally:
                os.killpg(process.pid, signal.SIGKILL)


def without_network() -> list[str]:
    """A client has nothing to look for outside of this machine; where we may, we see to it."""
    unshare = ["unshare", "--net"]
    done = subprocess.run([*unshare, "true"], capture_output=True, check=False)
    return unshare if done.returncode == 0 else []

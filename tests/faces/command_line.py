"""`bgjob` as a person or a script meets it: a process with arguments, streams and an exit code."""

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bgjob.api import JobStatus

Ended = Callable[[str], JobStatus]
Result = subprocess.CompletedProcess[str]
Environment = dict[str, str]

BGJOB = str(Path(sys.executable).with_name("bgjob"))
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\n")


class Cli:
    def __init__(self, home: Path) -> None:
        self.environment = {**os.environ, "BGJOB_HOME": str(home), "MCP_BG_MAX_JOBS": "100"}

    def __call__(self, *arguments: str, cwd: Path | None = None, env: Environment | None = None) -> Result:
        return subprocess.run(
            [BGJOB, *arguments],
            env=self.environment | (env or {}),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )

    def run(self, *arguments: str, cwd: Path | None = None) -> str:
        started = self("run", *arguments, cwd=cwd)
        assert (started.returncode, started.stderr) == (0, "")
        assert UUID.fullmatch(started.stdout)
        return started.stdout.strip()

    def begin(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [BGJOB, *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )


def assert_one_line_of_error(result: Result, *words: str) -> None:
    assert result.returncode == 1
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("bgjob: ")
    assert all(word in line for word in words)


def has_socket(pid: int) -> bool:
    """Whether a process has one: that is how a command waits for a job."""
    with contextlib.suppress(FileNotFoundError):  # closed meanwhile
        return any("socket:" in str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir())
    return False

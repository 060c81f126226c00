"""Programs that are run to their end."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def run_to_its_end(
    command: Sequence[str], cwd: Path, within_s: float, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Its stdout and stderr are one text, and it has no stdin. TimeoutExpired: it was killed."""
    return subprocess.run(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        timeout=within_s,
        check=False,
    )

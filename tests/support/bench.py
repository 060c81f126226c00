"""The commands of bench/, run as they are by hand."""

import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
ENDS_WITHIN_S = 600.0


def run_bench(command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "bench", command, *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, cwd=PROJECT, stdout=pipe, stderr=pipe, text=True) as running:
        try:
            said, complained = running.communicate(timeout=ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            running.terminate()  # not killed: it takes its servers and jobs with it
            raise
    return subprocess.CompletedProcess(argv, running.returncode, said, complained)


def rows(table: str) -> dict[str, list[str]]:
    """The cells of each row of its tables, by the first."""
    lines = [line.strip("| ").split("|") for line in table.splitlines() if line.startswith("|")]
    return {first.strip(): [cell.strip() for cell in rest] for first, *rest in lines}

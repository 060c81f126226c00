"""Who is there, and what it holds: by the names the processes give themselves, so that new ones are seen too."""

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from bench import processes
from bench.processes import GONE

ZOMBIE = "zombie"


def names() -> Counter[str]:
    """Our descendants by name: bgjob-zygote, bgjob-shim, cat … A server is a python."""
    processes.reap()
    return Counter(_name(one) for one in processes.descendants())


def _name(process: processes.Process) -> str:
    return name(process.pid) if process.alive else ZOMBIE


def name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except GONE:
        return ZOMBIE


def is_ours(process_name: str) -> bool:
    """One of bgjob's own processes that stand beside jobs; there may be more kinds of them one day."""
    return process_name.startswith("bgjob-")


def open_files(pid: int) -> int:
    """0 when it is gone."""
    try:
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except GONE:
        return 0


def memory_mb(pid: int, word: str) -> float:
    """Rss: its pages. Pss: where shared pages count as a share. 0.0 when it is gone."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except GONE:
        return 0.0
    return int(rollup.partition(f"{word}:")[2].split()[0]) / 1024


def total_pss_mb(belongs: Callable[[str], bool]) -> float:
    return sum(
        memory_mb(one.pid, "Pss") for one in processes.descendants() if one.alive and belongs(_name(one))
    )


def wait_until(holds: Callable[[], bool], within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True

"""Who starts what waits in the queue of a home, as the process table shows them."""

import contextlib
import os
import signal
from pathlib import Path
from typing import Literal

from bgjob.home import queue_dir
from bgjob.system import processes
from tests.support.process_table import every_pid, seen, wait_until_gone
from tests.support.waiting import wait_until

Part = Literal["bgjob-queue", "bgjob-keeper"]
DISPATCHER: Part = "bgjob-queue"
KEEPER: Part = "bgjob-keeper"


def named(home: Path, name: Part) -> list[int]:
    """Only those that work in this home: nobody else's is touched."""
    return [pid for pid in every_pid() if _is(pid, name) and _works_in(pid, home)]


def _is(pid: int, name: str) -> bool:
    now = seen(pid)
    return now is not None and now.name == name and now.state not in ("Z", "X")


def _works_in(pid: int, home: Path) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cwd").samefile(home)
    return False


def the(home: Path, name: Part) -> int:
    found: list[int] = []

    def is_there() -> bool:
        found[:] = named(home, name)
        return len(found) == 1

    wait_until(is_there, f"there is one {name}", lambda: str(found))
    return found[0]


def strike(home: Path, *names: Part) -> None:
    """kill -9, at one instant as far as they can tell: none of them runs in between."""
    pids = [the(home, name) for name in names]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            os.kill(pid, number)
    for pid in pids:
        wait_until_gone(pid)


def wait_until_no_dispatcher(home: Path) -> None:
    wait_until(lambda: not named(home, DISPATCHER) + named(home, KEEPER), "no dispatcher is left")


def wait_until_queue_is_done(home: Path) -> None:
    wait_until_no_dispatcher(home)
    assert queue_dir.entries(str(home)) == []


def is_of(pid: int, home: Path) -> bool:
    return processes._carries(pid, f"BGJOB_HOME={home}".encode())

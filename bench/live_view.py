"""`bgjob top` on a pseudo-terminal: from a key to what it draws, with many jobs."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench import processes
from bench.lab import BenchError, Lab
from bench.report import Result, Row, Samples, p95_at_most
from bgjob.store.store import Store
from tests.support.stores import ended_job

ROWS, COLUMNS = 30, 100
ENDED, RUNNING = 10_000, 20
# a frame at 20 a second: what is drawn sooner is drawn at once to a person
FRAME_MS = 50.0
# Nothing is drawn for so long: what comes next is the answer to a key. A fast typist presses ten a second.
QUIET_S, PATIENCE_S, IDLE_S = 0.1, 30.0, 10.0
REDRAW = b"\x0c"
PRESSED: Mapping[str, Sequence[bytes]] = {
    "down and up": [b"j", b"k"],
    "a page": [b"\x1b[6~", b"\x1b[5~"],
    "end and home": [b"G", b"g"],
    "sort": [b"s"],
    "a letter of the filter is seen": [b"/", b"p", b"a", b"r", b"t", b"1", b"\x15", b"\r"],
}


class Top:
    def __init__(self, environment: Mapping[str, str]) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        command = [sys.executable, "-m", "bgjob", "top"]
        self._process = subprocess.Popen(command, env=environment, stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        self.pid = self._process.pid

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()
        os.close(self._master)

    def draw_until(self, text: bytes) -> None:
        """All of the screen is drawn again and again: curses writes only what has changed of a text."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            os.write(self._master, REDRAW)
            if text in self._drawn():
                return
        raise BenchError(f"bgjob top does not show {text!r}")

    def _drawn(self) -> bytes:
        seen = b""
        while self._is_drawing(QUIET_S if seen else PATIENCE_S):
            seen += os.read(self._master, 1 << 16)
        return seen

    def answer_ms(self, key: bytes) -> float:
        while self._is_drawing(QUIET_S):
            os.read(self._master, 1 << 16)  # of the second that has passed
        began = time.perf_counter()
        os.write(self._master, key)
        if not self._is_drawing(PATIENCE_S):
            raise BenchError(f"bgjob top draws nothing at {key!r}")
        return (time.perf_counter() - began) * 1000

    def rest(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self._is_drawing(left):
                os.read(self._master, 1 << 16)

    def _is_drawing(self, within_s: float) -> bool:
        return bool(select.select([self._master], [], [], within_s)[0])


def top(lab: Lab) -> Result:
    """keys of `bgjob top` with 20 running jobs and 10,000 ended ones: from a key to what it draws"""
    ended, running, rounds = lab.rounds(ENDED, 100), lab.rounds(RUNNING, 2), lab.rounds(120, 10)
    store = Store(str(lab.root / "live"))
    with _running(Path(store.home), running) as environment:
        now = time.time()
        for number in range(ended):
            ended_job(
                store, now - number, now - number, name=f"job{number % 40}", command=f"pytest -x part{number}"
            )
        began, view = time.perf_counter(), Top(environment)
        try:
            return _measured(view, f"{ended:,} ended".encode(), began, rounds)
        finally:
            view.close()


def _measured(view: Top, complete: bytes, began: float, rounds: int) -> Result:
    view.draw_until(b"running")
    first_ms = (time.perf_counter() - began) * 1000
    view.draw_until(complete)
    all_ms = (time.perf_counter() - began) * 1000
    rows = [
        Row(f"bgjob top: {name}", "ms", _answers(view, keys, rounds), [], "", p95_at_most(FRAME_MS, "ms"))
        for name, keys in PRESSED.items()
    ]
    before_s = _cpu_s(view.pid)
    view.rest(IDLE_S)
    idle = 100 * (_cpu_s(view.pid) - before_s) / IDLE_S
    memory = processes.memory_mb(view.pid, "Pss")
    told = (
        f"bgjob top: first jobs after {first_ms:.0f} ms, all after {all_ms:.0f} ms; "
        f"idle {idle:.1f} % of a processor; PSS {memory:.0f} MB"
    )
    return Result(rows, [told])


def _answers(view: Top, keys: Sequence[bytes], rounds: int) -> Samples:
    return [view.answer_ms(keys[number % len(keys)]) for number in range(rounds)]


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _running(home: Path, count: int) -> Iterator[Mapping[str, str]]:
    """Jobs that run; the environment of who looks at them."""
    environment = {**os.environ, "BGJOB_HOME": str(home), "MCP_BG_MAX_JOBS": "100", "TERM": "xterm-256color"}
    environment |= {"LANG": "C.UTF-8", "MCP_BG_KEEP_JOBS": "1000000"}
    bgjob = [sys.executable, "-m", "bgjob"]
    for number in range(count):
        subprocess.run(
            [*bgjob, "run", "--name", f"live{number}", "sleep 1000"],
            env=environment,
            check=True,
            stdout=subprocess.DEVNULL,
        )
    try:
        yield environment
    finally:
        for number in range(count):
            subprocess.run(
                [*bgjob, "kill", f"live{number}"], env=environment, check=True, stdout=subprocess.DEVNULL
            )

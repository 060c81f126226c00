"""A job that prints without end is read at a pace that leaves the machine to others; one that prints much is not."""

import os
import threading
import time
from pathlib import Path

import pytest

from bgjob.home.log_format import STDOUT
from bgjob.home.log_writer import LogWriter
from bgjob.shim import pump
from bgjob.shim.loop import Loop
from bgjob.shim.pump import Pump

PRINTED_BYTES = 64 << 20


@pytest.mark.parametrize(
    ("printed_before", "is_slowed"),
    [(0, False), (pump.FLOOD_BYTES - PRINTED_BYTES, False), (pump.FLOOD_BYTES, True)],
    ids=["new", "before", "flood"],
)
def test_a_flood_is_read_at_a_pace(tmp_path: Path, printed_before: int, is_slowed: bool) -> None:
    took_s, end = seconds_to_read(LogWriter(str(tmp_path / "log"), 1 << 20), printed_before)
    assert end == printed_before + PRINTED_BYTES
    if is_slowed:
        assert took_s >= 0.9 * PRINTED_BYTES / pump.FLOOD_BYTES_PER_S


def test_a_log_that_keeps_much_is_no_flood_before_it_has_printed_much_more(tmp_path: Path) -> None:
    log = LogWriter(str(tmp_path / "log"), 1 << 30)
    log.end = pump.FLOOD_TIMES * log.limit_bytes
    assert not Pump(Loop(), log, lambda: None)._is_flood()
    log.end += 1
    assert Pump(Loop(), log, lambda: None)._is_flood()


def seconds_to_read(log: LogWriter, printed_before: int) -> tuple[float, int]:
    """Of a writer that never waits for anything but us."""
    log.end = printed_before
    loop = Loop()
    reading = Pump(loop, log, lambda: None)
    source, sink = os.pipe()
    os.set_blocking(source, False)
    reading.add_pipe(source, STDOUT)
    writer = threading.Thread(target=write_all, args=(sink,))
    began = time.monotonic()
    writer.start()
    while not reading.finished:
        loop.turn()
    writer.join()
    return time.monotonic() - began, log.end


def write_all(sink: int) -> None:
    piece, left = memoryview(bytes(1 << 20)), PRINTED_BYTES
    while left:
        left -= os.write(sink, piece[:left])
    os.close(sink)

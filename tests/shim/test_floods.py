"""A job that prints without end is read at a pace that leaves the machine to others; one that prints much is not."""

import itertools
import os
import threading
import time
from pathlib import Path

import pytest

from bgjob.home.log_format import STDERR, STDOUT
from bgjob.home.log_writer import LogWriter
from bgjob.shim import pump
from bgjob.shim.loop import READABLE, Loop
from bgjob.shim.pump import Pump

PRINTED_BYTES = 64 << 20
NEVER_S = 1e6


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


class Flooded:
    """A pump over two pipes, whose job has printed so much that the pump rests after each piece."""

    def __init__(self, directory: Path) -> None:
        self.loop, self.log = Loop(), LogWriter(str(directory / "log"), 1 << 20)
        self.log.end = pump.FLOOD_BYTES + 1
        self.pump = Pump(self.loop, self.log, lambda: None)
        self.stdout, self.stderr = self._pipe(STDOUT), self._pipe(STDERR)

    def _pipe(self, stream: int) -> int:
        source, sink = os.pipe()
        os.set_blocking(source, False)
        self.pump.add_pipe(source, stream)
        return sink

    def printed(self) -> list[tuple[int, int]]:
        """Bytes by stream, in the order of the log."""
        runs = self.log._runs_of(pump.FLOOD_BYTES + 1)
        by_stream = itertools.groupby(runs, key=lambda run: run[1] & 0xFF)
        return [(stream, sum(length for *_, length in pieces)) for stream, pieces in by_stream]


@pytest.fixture
def flooded(tmp_path: Path) -> Flooded:
    return Flooded(tmp_path)


def rests_for(monkeypatch: pytest.MonkeyPatch, seconds_per_byte: float) -> None:
    monkeypatch.setattr(pump, "FLOOD_BYTES_PER_S", 1 / seconds_per_byte)


def test_clients_are_served_while_a_flood_rests(flooded: Flooded, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shim that slept instead would not return from its first turn."""
    rests_for(monkeypatch, NEVER_S)
    client, request = os.pipe()
    served: list[int] = []
    flooded.loop.watch(client, READABLE, lambda _event: served.append(len(os.read(client, 10))))
    os.write(flooded.stdout, b"some")
    flooded.loop.turn()
    read_before = flooded.log.end
    os.write(flooded.stdout, b"more")
    os.write(request, b"?")
    flooded.loop.turn()
    assert served == [1]
    assert flooded.log.end == read_before


def test_a_piece_is_all_that_clients_wait_for(flooded: Flooded, monkeypatch: pytest.MonkeyPatch) -> None:
    """One piece a turn, however much is there."""
    monkeypatch.setattr(pump, "SHARE_BYTES", 4096)
    monkeypatch.setattr(pump, "PIPE_BYTES", 1024)
    os.write(flooded.stdout, bytes(60_000))
    flooded.loop.turn()
    assert flooded.log.end == pump.FLOOD_BYTES + 1 + 4096


def test_the_end_of_a_job_ends_the_rest(flooded: Flooded, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing is lost of what was printed during it, also when both streams hang up in one turn."""
    rests_for(monkeypatch, NEVER_S)
    os.write(flooded.stdout, b"first")
    flooded.loop.turn()
    os.write(flooded.stdout, b"during the rest")
    os.write(flooded.stderr, b"and here")
    os.close(flooded.stdout)
    os.close(flooded.stderr)
    while not flooded.pump.finished:
        flooded.loop.turn()
    assert flooded.printed() == [(STDOUT, len(b"first" + b"during the rest")), (STDERR, len(b"and here"))]


def test_both_streams_rest_so_that_their_order_stays(
    flooded: Flooded, monkeypatch: pytest.MonkeyPatch
) -> None:
    rests_for(monkeypatch, 0.05)
    os.write(flooded.stdout, b"1")
    flooded.loop.turn()
    os.write(flooded.stdout, b"22")
    os.write(flooded.stderr, b"333")
    while flooded.log.end < pump.FLOOD_BYTES + 1 + len("122333"):
        flooded.loop.turn()
    assert flooded.printed() == [(STDOUT, 3), (STDERR, 3)]


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

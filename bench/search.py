"""Search of 1 GB of logs, against `grep -c` on the same files in the same run.

    python -m bench.search [MEGABYTES]

Each row: the seconds of one search over everything (count included, the newest 20 lines shown), its speed, how
far it raised the memory of the process, and its time as a ratio to grep's.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from bgjob.core.patterns import compile_pattern
from bgjob.home.log_format import STDERR, STDOUT
from bgjob.home.log_writer import LogWriter
from bgjob.output.log_reader import LogReader
from bgjob.output.log_search import search

MEGABYTE = 1 << 20
LINE = "2026-01-01T12:00:{second:02d} {level} worker-{worker} handled request {number} in {ms} ms for GET /items\n"
MIXED_EVERY = 10  # of the megabytes, one has lines of both streams
ROUNDS = 3
SEARCHES = [
    ("rare literal", "needle", True, ["-F", "needle"]),
    ("rare regex", r"ne+dle \d+$", False, ["-E", "ne+dle [0-9]+$"]),
    ("frequent word, 1 line in 10", "ERROR", True, ["-F", "ERROR"]),
    ("frequent regex, 1 line in 10", r"ERROR.* in \d+ ms", False, ["-E", "ERROR.* in [0-9]+ ms"]),
    ("regex, every line", r"request \d+", False, ["-E", "request [0-9]+"]),
    ("word, every line", "request", True, ["-F", "request"]),
]


def main(megabytes: int) -> None:
    with tempfile.TemporaryDirectory(prefix="bgjob-bench-search-") as directory:
        write_log(directory, megabytes)
        segments = [str(path) for path in sorted(Path(directory).glob("*[0-9]"))]
        size = LogReader(directory).end
        print(f"{size / MEGABYTE:.0f} MB in {len(segments)} segments; best of {ROUNDS} rounds, in turns\n")
        print("| search | lines | ours s | ours MB/s | memory MB | grep -c s | ours / grep |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        for title, text, literal, grep in SEARCHES:
            rounds = [(ours(directory, text, literal), greps(grep, segments)) for _ in range(ROUNDS)]
            count, growth = rounds[0][0][1], max(growth for (_, _, growth), _ in rounds)
            best, its = min(one[0] for one, _ in rounds), min(one for _, one in rounds)
            cells = [f"{best:.2f}", f"{size / MEGABYTE / best:.0f}", f"{growth:.0f}", f"{its:.2f}"]
            print(f"| {title} | {count} | {' | '.join(cells)} | {best / its:.1f} |", flush=True)
        began = time.perf_counter()
        search(LogReader(directory), compile_pattern("ERROR"), limit=20, newest_first=True, count=False)
        print(f"\nnewest 20, not counted: {(time.perf_counter() - began) * 1000:.1f} ms")


def write_log(directory: str, megabytes: int) -> None:
    """Through pipes, as a shim does it."""
    writer = LogWriter(directory, megabytes * MEGABYTE * 4)
    block = b"".join(line(number) for number in range(20_000))
    block = block[: block.rindex(b"\n", 0, MEGABYTE) + 1]
    for number in range(megabytes):
        if number % MIXED_EVERY:
            pour(writer, STDOUT, block)
            continue
        for at, part in enumerate(block[i : i + 4096] for i in range(0, len(block), 4096)):
            pour(writer, STDERR if at % 4 == 3 else STDOUT, part)
    pour(writer, STDOUT, b"\na needle 42\n")


def line(number: int) -> bytes:
    level = "INFO" if number % 10 else "ERROR"
    return LINE.format(
        second=number % 60, level=level, worker=number % 8, number=number, ms=number * 7 % 1000
    ).encode()


def pour(writer: LogWriter, stream: int, data: bytes) -> None:
    source, sink = os.pipe()
    feeder = threading.Thread(target=feed, args=(sink, data))
    feeder.start()
    while writer.take(source, stream):
        pass
    feeder.join()
    os.close(source)


def feed(sink: int, data: bytes) -> None:
    with open(sink, "wb") as pipe:
        pipe.write(data)


def ours(directory: str, text: str, literal: bool) -> tuple[float, int, float]:
    """(seconds, lines, megabytes by which the peak of memory rose)"""
    pattern = compile_pattern(text, literal=literal)
    forget_peak()
    before, began = memory_megabytes("VmRSS"), time.perf_counter()
    result = search(LogReader(directory), pattern, limit=20, newest_first=True, context_lines=2)
    return time.perf_counter() - began, result.count or 0, memory_megabytes("VmHWM") - before


def greps(arguments: list[str], files: list[str]) -> float:
    began = time.perf_counter()
    # into a pipe: with /dev/null as its output it stops at the first match
    subprocess.run(["grep", "-a", "-c", *arguments, *files], stdout=subprocess.PIPE, check=False)
    return time.perf_counter() - began


def memory_megabytes(word: str) -> float:
    """VmRSS is what it takes now, VmHWM the most it took."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{word}:")[2].split()[0]) / 1024


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1024)

"""Where load and soak play: a directory and processes that are gone afterwards, and what both tell."""

import argparse
import os
import platform
import shlex
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench import processes

SHOWN_ERRORS = 10


@contextmanager
def cleaning_up() -> Iterator[Path]:
    """A directory to work in; afterwards it and every process of ours are gone, however it ends."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    processes.become_subreaper()
    processes.allow_many_files()
    with tempfile.TemporaryDirectory(prefix="bgjob-bench-") as root:
        try:
            yield Path(root)
        finally:
            processes.end_all()


def server_argument(parser: argparse.ArgumentParser) -> None:
    own = shlex.join([sys.executable, "-m", "bgjob", "mcp"])
    parser.add_argument("--server", metavar="COMMAND", default=own, help="default: bgjob of this Python")


def machine_facts() -> str:
    date, load = time.strftime("%Y-%m-%d", time.gmtime()), os.getloadavg()[0]
    system = f"Linux {platform.release()} {platform.machine()}, Python {platform.python_version()}"
    return f"{date}, {system}, {os.cpu_count()} CPUs, load {load:.1f} at the start"


def tell(what: str) -> None:
    print(f"bench: {what} …", file=sys.stderr, flush=True)


def print_errors(errors: Sequence[str]) -> None:
    for error, number in Counter(errors).most_common(SHOWN_ERRORS):
        print(f"- **error**, {number} times: {error}")

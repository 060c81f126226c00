"""A pager that shows the end of a text first."""

import contextlib
import io
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from typing import TextIO

AT_THE_END = ["-R", "+G"]


def pager_command(environ: Mapping[str, str]) -> list[str] | None:
    """$PAGER, else less; None: there is none, or the person wants none."""
    words = shlex.split(environ.get("PAGER", "less"))
    if not words or words == ["cat"] or not shutil.which(words[0]):
        return None
    return [*words, *AT_THE_END] if os.path.basename(words[0]) == "less" else words


@contextlib.contextmanager
def paged(command: list[str]) -> Iterator[TextIO]:
    """What is written goes to the pager. Returns when the person has left it."""
    pager = subprocess.Popen(command, stdin=subprocess.PIPE)
    assert pager.stdin is not None
    stream = io.TextIOWrapper(pager.stdin, encoding="utf-8", errors="backslashreplace")
    # ctrl-c is the pager's: it stops a search there, and must not end us under it
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield stream
    finally:
        with contextlib.suppress(BrokenPipeError):
            stream.close()
        pager.wait()
        signal.signal(signal.SIGINT, before)

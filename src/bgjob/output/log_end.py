"""How a log ends: its last bytes, its last line, the prompt at which a job may sit."""

from bgjob.home.log_format import PROMPT_BYTES, STDERR, STDOUT
from bgjob.output.cleaner import clean
from bgjob.output.log_reader import LogReader
from bgjob.output.text import unfinished_line

LOOK_BACK_BYTES = 1 << 14


def last_bytes(log: LogReader, stream: int, most: int) -> bytes:
    for piece in log.backward(stream, 0, log.end):
        return piece.data[-most:]
    return b""


def prompt_in(log: LogReader) -> str | None:
    """The unfinished last line, of either stream."""
    lines = (unfinished_line(last_bytes(log, stream, PROMPT_BYTES)) for stream in (STDOUT, STDERR))
    return next(filter(None, lines), None)


def last_line(log: LogReader) -> str | None:
    """The newest line with something in it, of either stream; None: the log ends with nothing to be seen."""
    begin = max(0, log.end - LOOK_BACK_BYTES)
    for newest in log.interleaved(begin, log.end, True):
        if _lines(newest.data):
            whole = b"".join(piece.data for piece in log.forward(newest.stream, begin, log.end))
            return (_lines(whole) or _lines(newest.data))[-1]
    return None


def _lines(data: bytes) -> list[str]:
    return [line for line in clean(data.decode("utf-8", "replace")).splitlines() if line.strip()]

"""A job's output as one plain file, for programs that know no segments: grep, an editor, a file reader."""

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence

from bgjob.home.jobdir import LOG, MERGED
from bgjob.home.log_format import segment_name
from bgjob.output.log_reader import LogReader
from bgjob.output.log_segments import Segment
from bgjob.output.text import Dropped, note

# A larger log is not copied: it would take long, and as much room again.
MOST_BYTES = 64 << 20
AS_OF_NOW = "as of this call: ask again for newer output"
TOO_LARGE = "too large to be copied into one file: use search_job_output, or grep -ah PATTERN %s/*[0-9]"
NOT_WRITTEN = "the file could not be written, for want of room or rights: use search_job_output"


def log_file(directory: str, log: LogReader) -> str | None:
    """The path of a file with all that is kept; None: there is no output, too much of it, or no room.

    That is the segment, if there is one: it grows with the job until the next segment begins. The segments of
    a longer log are merged into a file, as it is now.
    """
    segments = log.segments(0, log.end)
    if len(segments) == 1 and not segments[0].kept and segments[0].start == 0:
        return f"{directory}/{LOG}/{segment_name(0)}"
    if not 0 < _size(segments) <= MOST_BYTES:
        return None
    with contextlib.suppress(OSError):
        return _merged(f"{directory}/{MERGED}", log)
    return None


def log_note(directory: str, log: LogReader, path: str | None, *, is_growing: bool) -> str | None:
    """Of the answer of log_file: that the file falls behind the job, or why there is none."""
    if path:
        return AS_OF_NOW if is_growing else None
    size = _size(log.segments(0, log.end))
    if size > MOST_BYTES:
        return TOO_LARGE % f"{directory}/{LOG}"
    return NOT_WRITTEN if size else None


def _size(segments: Sequence[Segment]) -> int:
    return sum(segment.end - segment.start for segment in segments)


def _merged(path: str, log: LogReader) -> str:
    # The mtime tells of which state of the log this is: the second in which the log was written, and its end.
    mtime_ns = int(log.written_at) * 10**9 + log.end % 10**9
    if not _is_stamped(path, mtime_ns):
        _write(path, log, mtime_ns)
    return path


def _is_stamped(path: str, mtime_ns: int) -> bool:
    try:
        info = os.lstat(path)
    except FileNotFoundError:
        return False
    return stat.S_ISREG(info.st_mode) and info.st_mtime_ns == mtime_ns


def _write(path: str, log: LogReader, mtime_ns: int) -> None:
    """Whole or not at all; servers that write it at the same time do not disturb each other."""
    import tempfile  # 4 ms, and few logs have several segments

    fd, draft = tempfile.mkstemp(dir=os.path.dirname(path), prefix=f"{MERGED}.")
    try:
        with open(fd, "wb") as file:
            file.writelines(_parts(log))
        os.utime(draft, ns=(mtime_ns, mtime_ns))
        os.rename(draft, path)
    except BaseException:
        os.unlink(draft)
        raise


def _parts(log: LogReader) -> Iterator[bytes]:
    """All that is kept, in the order of the log, with a line wherever bytes were dropped."""
    at, last = 0, b"\n"
    for piece in log.unparted(0, log.end):
        if piece.start > at:
            yield _gap(piece.start - at, last)
        yield piece.data
        at, last = piece.end, piece.data[-1:]
    if log.end > at:
        yield _gap(log.end - at, last)


def _gap(count: int, last: bytes) -> bytes:
    return (b"" if last == b"\n" else b"\n") + note(Dropped(count)).encode()

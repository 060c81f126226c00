"""The copy of a job's log: bounded as the log itself is, whatever its host sends.

If the host keeps to the limit of the job, its log is copied byte by byte. If not, the first segment and the newest
ones stay, as with `home.log_writer`; readers see a gap where segments were deleted.
"""

import contextlib
import os

from bgjob.core.late_pattern import late_pattern
from bgjob.home import jobdir
from bgjob.home.layout import is_directory
from bgjob.home.log_format import RUNS_SUFFIX
from bgjob.home.log_writer import segment_bytes

LOG = jobdir.LOG
FILE = late_pattern(rf"{LOG}/((0[0-9]{{19}})(?:\.runs|\.stdout|\.stderr)?)")
OVERHEAD_BYTES, SPARE_SEGMENTS, SPARE_BYTES, MOST_FILES = 1 << 16, 4, 1 << 20, 4096


class CopiedLog:
    def __init__(self, directory: str, limit_bytes: int) -> None:
        """`directory`: the job's directory. `limit_bytes`: how much of its output is kept."""
        self._directory = f"{directory}/{LOG}"
        segment = segment_bytes(limit_bytes)
        self._file_max_bytes = segment + OVERHEAD_BYTES
        self._max_bytes = limit_bytes + SPARE_SEGMENTS * segment + SPARE_BYTES
        self._sizes = self._found()
        self._total_bytes = sum(self._sizes.values())
        self.end = max(
            (int(name) + size for name, size in self._sizes.items() if name.isdecimal()), default=0
        )

    def _found(self) -> dict[str, int]:
        if not is_directory(self._directory):
            return {}
        return {name: os.stat(f"{self._directory}/{name}").st_size for name in os.listdir(self._directory)}

    def have(self) -> dict[str, int]:
        """Return how many bytes of each file are here."""
        return {f"{LOG}/{name}": size for name, size in self._found().items()}

    def append(self, name: str, at: int, data: bytes) -> None:
        """Append a piece of a file; `make_room` is called after the last piece.

        OSError: it could not be written, or leaves a gap.
        """
        file = _file(name)
        data = data[: max(0, self._file_max_bytes - at)]
        if at < self._file_max_bytes:  # no file of a log within its limit is larger
            self._write(file, at, data)

    def _write(self, file: str, at: int, data: bytes) -> None:
        if not is_directory(self._directory):
            os.mkdir(self._directory, 0o700)
        fd = os.open(
            f"{self._directory}/{file}", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        try:
            if os.fstat(fd).st_size < at:
                raise OSError(f"{LOG}/{file} has {os.fstat(fd).st_size} bytes here, and not {at}")
            os.ftruncate(fd, at)  # a piece that is sent again replaces the old one
            os.lseek(fd, at, os.SEEK_SET)
            jobdir.write_all(fd, data)
        finally:
            self._note_size(file, os.fstat(fd).st_size)
            os.close(fd)
        if file.isdecimal():
            self.end = max(self.end, int(file) + at + len(data))

    def remove(self, name: str) -> None:
        """Remove a file, the data first: a reader that finds no data does not read the runs."""
        file = _file(name)
        for each in (file.removesuffix(RUNS_SUFFIX), file):
            self._unlink(each)

    def _note_size(self, file: str, size: int) -> None:
        self._total_bytes += size - self._sizes.get(file, 0)
        self._sizes[file] = size

    def _unlink(self, file: str) -> None:
        self._total_bytes -= self._sizes.pop(file, 0)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{self._directory}/{file}")

    def make_room(self) -> None:
        """Delete files until the copy is within its bounds."""
        if not self._is_too_large():
            return
        for files in self._deletable():
            for file in files:
                self._unlink(file)
            if not self._is_too_large():
                return

    def _is_too_large(self) -> bool:
        return self._total_bytes > self._max_bytes or len(self._sizes) > MOST_FILES

    def _deletable(self) -> list[tuple[str, ...]]:
        """Return what may be deleted, in this order: segments between the first and the last, then what is kept."""
        segments = sorted(name for name in self._sizes if name.isdecimal())
        of_segments = {each + end for each in segments for end in ("", RUNS_SUFFIX)}
        between = [(each, each + RUNS_SUFFIX) for each in segments[1:-1]]
        return [*between, *((each,) for each in sorted(self._sizes.keys() - of_segments))]


def _file(name: str) -> str:
    """Return the checked name. A name from a host could lead out of the directory."""
    found = FILE.fullmatch(name)
    if found is None:
        raise OSError(f"{name[:80]!r} is not the name of a file of a log")
    return found[1]

"""Both streams in one order, each line with the time and the stream it came from."""

from codecs import getincrementaldecoder
from collections.abc import Iterable
from datetime import UTC, datetime

from bgjob.home.log_format import STDERR
from bgjob.output.log_reader import TimedPiece
from bgjob.output.text import LeftOut, note

Decoder = getincrementaldecoder("utf-8")


class Timeline:
    """Collects pieces in the order of the log; `text` is what a reader sees of them."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._decoders = {1: Decoder("replace"), 2: Decoder("replace")}
        self._unfinished = 0  # the stream whose line is not at its end

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def add(self, pieces: Iterable[TimedPiece]) -> None:
        for piece in pieces:
            for line in self._decoders[piece.stream].decode(piece.data).splitlines(keepends=True):
                self._add_line(line, piece)

    def add_note(self, left_out: LeftOut) -> None:
        self._finish_line()
        self._parts.append(note(left_out))

    def _add_line(self, line: str, piece: TimedPiece) -> None:
        if self._unfinished != piece.stream:
            self._finish_line()
            self._parts.append(_label(piece))
        self._parts.append(line)
        self._unfinished = 0 if line.endswith("\n") else piece.stream

    def _finish_line(self) -> None:
        if self._unfinished:
            self._parts.append("\n")
            self._unfinished = 0


def _label(piece: TimedPiece) -> str:
    when = datetime.fromtimestamp(piece.time_us / 1e6, UTC).strftime("%H:%M:%S.%f")[:-3]
    return f"{when} {'err' if piece.stream == STDERR else 'out'}| "

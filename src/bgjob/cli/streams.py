"""The standard streams of a command: what is written is out, or the command fails with one clear line."""

import contextlib
import errno
import fcntl
import os
import sys
from collections.abc import Iterable, Iterator
from typing import TextIO

from bgjob.output.pty_text import PtyText
from bgjob.output.tty_text import TtyText, one_line


class CannotPrint(Exception):
    def __init__(self, what: str) -> None:
        super().__init__(f"{what}.")


def secure() -> None:
    """Opens what the caller closed of descriptors 0 to 2: else a file of ours would become a stdout.

    What is written to a closed stdout fails, as it should; what is written to a closed stderr is lost.
    """
    for descriptor, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, mode), True)  # the lowest that is free
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


@contextlib.contextmanager
def _printing(stream: TextIO) -> Iterator[None]:
    try:
        yield
        stream.flush()
    except BrokenPipeError:  # the reader has had enough: that is no failure
        raise
    except OSError as error:
        raise CannotPrint(f"{_name(stream)} cannot be written: {_reason(error)}") from error


def _name(stream: TextIO) -> str:
    return "standard error" if stream is sys.stderr else "standard output"


def _reason(error: OSError) -> str:
    return "it is closed" if error.errno == errno.EBADF else str(error.strerror)


def say(line: str) -> None:
    with _printing(sys.stdout):
        print(line)


def write(text: str) -> None:
    """As it is: nothing ends a line."""
    with _printing(sys.stdout):
        sys.stdout.write(text)


def tell(line: str, done: str) -> None:
    """The result of what cannot be undone: if the line cannot be printed, the error says what was done."""
    try:
        say(line)
    except (CannotPrint, BrokenPipeError) as problem:
        raise CannotPrint(f"{done}, but {_name(sys.stdout)} cannot be written") from problem


def flush() -> None:
    with _printing(sys.stdout):
        pass


def note(line: str) -> None:
    """On stderr: about what is printed."""
    with _printing(sys.stderr):
        print(line, file=sys.stderr)


def draw(text: str) -> None:
    """On the terminal that stderr is, without a new line."""
    with _printing(sys.stderr):
        sys.stderr.write(text)


def complain(problem: str) -> None:
    with contextlib.suppress(OSError):
        print(f"bgjob: {one_line(problem)}", file=sys.stderr, flush=True)


def check_stdout() -> None:
    """For use before an act whose result is printed: fails if stdout is known to be closed."""
    if fcntl.fcntl(1, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise CannotPrint(f"{_name(sys.stdout)} cannot be written: it is closed")


def abandon_unwritten() -> None:
    """The interpreter, as it ends, does not try again to write what failed, and does not complain of it."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def columns(descriptor: int = 1) -> int | None:
    """The width of the terminal on stdout; None if stdout is no terminal, or its width is not known."""
    with contextlib.suppress(OSError):
        return os.get_terminal_size(descriptor).columns or None
    return None


class JobStream:
    """What jobs printed, on its way to one of our streams: bytes, but made safe and readable for a terminal."""

    def __init__(
        self, stream: TextIO, *, raw: bool, pty: bool = False, is_terminal: bool | None = None
    ) -> None:
        """`pty`: the job has a terminal. `is_terminal`: of a pager, which is as good as one."""
        self._stream = stream
        self._is_terminal = stream.isatty() if is_terminal is None else is_terminal
        self._text = TtyText() if self._is_terminal and not raw else None
        self._drawn = PtyText() if self._text and pty else None
        self.is_within_a_line = False
        """True: on this terminal the next text would go on in the line."""

    @property
    def is_cleaned(self) -> bool:
        return self._text is not None

    def write(self, data: bytes) -> None:
        data = self._drawn.feed(data) if self._drawn else data
        with _printing(self._stream):
            if self._text:
                self._stream.write(self._text.feed(data))
            else:
                self._stream.buffer.write(data)
        if data:
            self.is_within_a_line = self._is_terminal and not data.endswith(b"\n")

    def write_lines(self, lines: Iterable[tuple[str, bytes]]) -> None:
        """Whole lines, each behind a label."""
        shown = _shown_line if self._text else _as_it_is
        with _printing(self._stream):
            self._stream.flush()
            self._stream.buffer.write(b"".join(shown(label, line) for label, line in lines))

    def finish(self) -> None:
        if self._text:
            held = self._drawn.finish() if self._drawn else b""
            with _printing(self._stream):
                self._stream.write(self._text.feed(held) + self._text.finish())


def _as_it_is(label: str, line: bytes) -> bytes:
    return label.encode(errors="backslashreplace") + line.removesuffix(b"\n") + b"\n"


def _shown_line(label: str, line: bytes) -> bytes:
    """Without what was overwritten in it: that would overwrite the label."""
    text = TtyText()
    last = text.feed(line.rstrip(b"\r\n").rpartition(b"\r")[2]) + text.finish()
    return f"{label}{last}\n".encode(errors="backslashreplace")

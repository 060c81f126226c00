"""A job's terminal as it stands now: where a person begins who looks at it live. Nothing is replayed to them."""

from bgjob.api.context import Context
from bgjob.api.snapshot import Snapshot
from bgjob.core.errors import InvalidArgument
from bgjob.core.frozen import Frozen
from bgjob.home.log_format import STDOUT
from bgjob.output.log_reader import LogReader
from bgjob.terminal.emulator import Terminal
from bgjob.terminal.input_modes import RESET, input_modes
from bgjob.terminal.painting import painted
from bgjob.terminal.screen import WINDOW_BYTES, SizeAt, modes_in, page_entered_at, terminal_at_end
from bgjob.terminal.size import drawable

PIECE_BYTES = 1 << 20
CLEAR = b"\x1b[H\x1b[2J"
# The most that a sequence may have which sets a mode.
SEQUENCE_BYTES = 100


class TerminalState(Frozen):
    terminal: Terminal
    """A part that was drawn too long ago to be known is blank."""
    input_modes: bytes
    """What sets the modes that change what a terminal sends."""
    at: int
    """Where in the log it was so."""
    size: tuple[int, int]
    """Rows and columns."""

    @property
    def cursor(self) -> tuple[int, int]:
        """Row and column, from 1."""
        screen = self.terminal.screen()
        return screen.cursor_row, screen.cursor_column

    def painted(self, *, title: bool = True) -> bytes:
        """What brings another terminal of this size into this state, whatever it showed before.

        `title`: include the title that the job has set.

        What the job has begun to print comes after it: `terminal.begun()`.
        """
        picture = self.terminal.picture()
        return RESET + CLEAR + painted(picture if title else picture._replace(title="")) + self.input_modes


def terminal_state(context: Context, job_id: str) -> TerminalState:
    snapshot = Snapshot(context, job_id)
    if not snapshot.job.spec.pty:
        raise InvalidArgument(f"Job {job_id} has no terminal.")
    sizes = context.store.terminal_sizes(snapshot.job)
    return snapshot.read(lambda log: _state(log, sizes))


def _state(log: LogReader, sizes: list[SizeAt]) -> TerminalState:
    start = max(0, log.end - WINDOW_BYTES)
    shown_before, sent_before = _modes_before(log, start)
    window = _bytes(log, start, log.end)
    drawn = [(at, *drawable(rows, columns)) for at, rows, columns in sizes]
    terminal = terminal_at_end(window, start, drawn, shown_before)
    entered = page_entered_at(window) if terminal.screen().is_alternate else None
    if entered is not None:
        terminal.put_beneath(terminal_at_end(window[:entered], start, drawn, shown_before))
    return TerminalState(terminal, input_modes(sent_before + window), log.end, drawn[-1][1:])


def _modes_before(log: LogReader, end: int) -> tuple[bytes, bytes]:
    """What all output up to there left set: of what is shown, and of what is sent."""
    shown = sent = held = b""
    for at in range(0, end, PIECE_BYTES):
        piece = held + _bytes(log, at, min(at + PIECE_BYTES, end))
        begun = piece.rfind(b"\x1b", -SEQUENCE_BYTES)
        piece, held = (piece[:begun], piece[begun:]) if begun >= 0 else (piece, b"")
        shown, sent = modes_in(piece, before=shown), input_modes(sent + piece)
    return modes_in(held, before=shown), input_modes(sent + held)


def _bytes(log: LogReader, start: int, end: int) -> bytes:
    return b"".join(piece.data for piece in log.forward(STDOUT, start, end))

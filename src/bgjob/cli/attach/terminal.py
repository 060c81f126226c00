"""A person's terminal on a job's terminal: first what it shows now, then what it prints, as it comes.

Where both have the same size, the job's bytes pass to the person's terminal, but for what acts beyond the screen
(terminal.live). Where another person's terminal decides the size, ours shows a part of a drawn copy.
"""

import os
import signal
import termios
import tty
from functools import cache

from bgjob.api.attach import Attachment, Size, check_can_attach
from bgjob.api.context import Context
from bgjob.api.terminal_feed import Begin, TerminalFeed
from bgjob.api.terminal_state import CLEAR, TerminalState, terminal_state
from bgjob.cli.attach import loop
from bgjob.cli.attach.detach_key import DetachKey
from bgjob.cli.attach.terminal_guard import PUSH_TITLE, guarded
from bgjob.cli.ourselves import own_name
from bgjob.core.job import Job, called
from bgjob.home.jobdir import write_all
from bgjob.output.tty_text import one_line
from bgjob.terminal.emulator import Terminal
from bgjob.terminal.live import LiveOutput, questions_in
from bgjob.terminal.painting import FRESH, rows_painted
from bgjob.terminal.replies import answer_to, are_replies
from bgjob.terminal.size import drawable

# So far behind, a person gets a new screen instead of all that they have missed.
MOST_BEHIND_BYTES = 1 << 20


def attach(context: Context, job: Job, key: DetachKey, *, read_only: bool) -> int:
    """0: the person has left, or the job is over."""
    check_can_attach(context, job, only_looks=read_only)

    def act(parent: int) -> int:
        attachment = Attachment(context, job, own_name(), only_looks=read_only, size=own_size())
        tty.setraw(0, termios.TCSADRAIN)  # what was typed ahead is typed into the job
        _make_room(f"{one_line(called(job.spec))} - {key.name} detaches")
        person = PersonAtTerminal(context, attachment, key)
        loop.run(attachment, person, parent)
        attachment.finish()
        return min(person.last_row(), own_size()[0])

    return guarded(act, draws=True)


def own_size() -> Size:
    columns, rows = os.get_terminal_size(1)
    return drawable(rows, columns)


def _make_room(title: str) -> None:
    """What the terminal shows moves into its scrollback: not a line of it is lost, and none is blank."""
    rows, _ = own_size()
    write_all(1, PUSH_TITLE + b"\x1b]2;%s\x07" % title.encode() + b"\r\n" * (rows - 1) + CLEAR)


class PersonAtTerminal:
    def __init__(self, context: Context, attachment: Attachment, key: DetachKey) -> None:
        self._context, self._attachment, self._key = context, attachment, key
        self._feed = TerminalFeed(context, attachment, MOST_BEHIND_BYTES)
        self._shown: _Passed | _Drawn | None = None

    def show(self) -> None:
        while piece := self._feed.next():
            if isinstance(piece, Begin):
                self._shown = self._begun(piece)
            elif self._shown:
                self._answer(self._shown.feed(piece))
        if self._shown:
            self._shown.flush()

    def _begun(self, begin: Begin) -> "_Passed | _Drawn":
        """From what the job's terminal shows now; what it has shown before is not replayed."""
        shown = _Passed(begin.state) if begin.state.size == own_size() else _Drawn(begin.state)
        self._answer(questions_in(begin.missed))  # it may have been in control for a moment
        return shown

    def _answer(self, questions: list[bytes]) -> None:
        """Answer the job's questions in place of the terminal."""
        if not questions or not self._attachment.is_in_control:
            return
        state = cache(lambda: terminal_state(self._context, self._attachment.job_id))
        said = (answer_to(each, lambda: state().cursor, lambda: state().size) for each in questions)
        if answers := b"".join(said):
            self._attachment.type(answers, is_reply=True)

    def typed(self, data: bytes) -> bool:
        before, leaves = self._key.split(data)
        if before and not self._attachment.only_looks:
            self._attachment.type(before, is_reply=are_replies(before))
        return leaves or not data

    def last_row(self) -> int:
        """The last one of the main page that shows something."""
        picture = terminal_state(self._context, self._attachment.job_id).terminal.picture()
        used = [number for number, row in enumerate(picture.main, 1) if row]
        return max([*used, 0 if picture.alternate else picture.cursor[0]], default=0)

    def signalled(self, number: int) -> None:
        if number == signal.SIGWINCH:
            self._feed.begin_anew()
            if not self._attachment.only_looks:
                self._attachment.resize(own_size())


class _Passed:
    """The job's bytes, on a terminal of the same size."""

    def __init__(self, state: TerminalState) -> None:
        self._live = LiveOutput()
        write_all(1, state.painted(title=False))
        self.feed(state.terminal.begun())

    def feed(self, data: bytes) -> list[bytes]:
        """Show this, and return the questions that the job asks its terminal."""
        write_all(1, self._live.feed(data))
        return self._live.questions()

    def flush(self) -> None:
        pass


class _Drawn:
    """A drawn copy of a terminal of another size: as much as fits, with the row of the cursor."""

    def __init__(self, state: TerminalState) -> None:
        self._terminal: Terminal = state.terminal
        self._live = LiveOutput()
        self._before: list[str] = []
        write_all(1, b"\x1b[?1049l" + FRESH.encode() + CLEAR)

    def feed(self, data: bytes) -> list[bytes]:
        self._terminal.feed(data)
        self._live.feed(data)
        return self._live.questions()

    def flush(self) -> None:
        """Only rows that have changed; the terminal cuts them at its edge, because it does not wrap."""
        rows, _ = own_size()
        screen = self._terminal.screen()
        first = max(0, screen.cursor_row - rows)
        shown = self._terminal.rows()[first : first + rows]
        for number, row in enumerate(shown, 1):
            if self._before[number - 1 : number] != [row]:
                write_all(1, "".join(rows_painted([row], number)).encode("utf-8", "replace"))
        self._before = shown
        cursor = f"\x1b[{screen.cursor_row - first};{screen.cursor_column}H"
        write_all(1, f"{cursor}\x1b[?25{'l' if screen.hidden_cursor else 'h'}".encode())

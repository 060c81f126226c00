"""Feeding a job with bytes as they are, of any number: no faster than it reads them."""

import contextlib
import time
from collections.abc import Iterable
from typing import Any

from bgjob.api.connect import connect_to_shim
from bgjob.api.context import Context
from bgjob.api.interact import (
    DEFAULT_WAIT_S,
    TERMINAL_LINE_BYTES,
    Sent,
    answered_until,
    check_has_stdin,
    check_lines_fit,
    check_takes_input,
    feed,
    interaction,
    typing_into,
    wait_for_answer,
)
from bgjob.api.output import Shown
from bgjob.api.results import Interaction
from bgjob.core.errors import InvalidArgument
from bgjob.core.job import Job
from bgjob.link.control import NoShim

# So long a shim tries to write a piece; what the job has not read by then is offered again.
TURN_S = 5.0


def feed_job(
    context: Context,
    job_id: str,
    pieces: Iterable[bytes],
    *,
    close_stdin: bool = False,
    wait_s: float = DEFAULT_WAIT_S,
    shown: Shown | None = None,
) -> Interaction:
    """All of the pieces, each taken when the job has read the one before; then what the job printed meanwhile.

    `wait_s`: how long, after the last byte, the job is given to answer.
    """
    job = context.store.load(job_id)
    check_takes_input(context, job)
    check_has_stdin(job)
    feeding = _Feeding(context, job)
    for piece in pieces:
        feeding.feed(piece)
    if close_stdin:
        feeding.close()
    told = feeding.told
    if "at" not in told:
        raise InvalidArgument("Nothing to type: the input is empty.")
    deadline, answered = time.monotonic() + min(wait_s, context.settings.max_wait_s), {}
    until = answered_until(deadline)
    with contextlib.suppress(NoShim, TimeoutError), connect_to_shim(context, job_id, until) as shim:
        waits_for_end = close_stdin and not job.spec.pty
        answered = dict(wait_for_answer(shim, told["at"], deadline, until, waits_for_end=waits_for_end))
    return interaction(context, job_id, told, answered, shown)


class _Feeding:
    def __init__(self, context: Context, job: Job) -> None:
        self._context, self._job = context, job
        self._line = b""
        """The unfinished line that was typed last, as far as it matters on a terminal."""
        self.told: dict[str, Any] = {"accepted": 0, "unread": None, "sent": 0}
        """What was taken so far, and where the log ended before."""

    def feed(self, piece: bytes) -> None:
        self.told["sent"] += len(piece)
        begun = self._line + piece
        self._line = begun.replace(b"\n", b"\r").rpartition(b"\r")[2][-TERMINAL_LINE_BYTES - 1 :]
        while piece:
            piece = piece[self._offer(piece, begun) :]
            begun = b""

    def close(self) -> None:
        self._offer(b"", b"", close=True)

    def _offer(self, piece: bytes, lines: bytes, *, close: bool = False) -> int:
        """How much of the piece was taken. A shim hangs up after a part: so each offer is a connection."""
        deadline = time.monotonic() + TURN_S
        until = answered_until(deadline)
        with typing_into(self._context, self._job.id, until) as shim:
            check_lines_fit(shim, self._job, lines, until)
            sent = Sent(piece, is_interrupt=False, is_end_of_file=close)
            fed = feed(self._context, shim, self._job.id, sent, deadline, until)
        self.told.setdefault("at", fed["at"])
        self.told["unread"] = fed["unread"]
        self.told["accepted"] += fed["accepted"]
        return int(fed["accepted"])

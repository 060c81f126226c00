"""A person's way into a job: live output from now on, what they type, the size of their terminal.

Two connections to the shim: by one the person types, and holds the job; by the other the shim tells of new
output. The caller waits for either to be readable. If the shim is killed, both are made anew to its guard.
"""

import select
import time
from collections import deque
from typing import Any, Literal, NamedTuple

from bgjob.api.audit import note
from bgjob.api.connect import SHIM_PATIENCE_S, connect_to_shim
from bgjob.api.context import Context
from bgjob.api.hold import check_not_held
from bgjob.api.processes import not_running
from bgjob.api.results import Chunk
from bgjob.api.snapshot import Snapshot
from bgjob.api.start import check_may_steer, noting_refusal
from bgjob.core.job import Job, Queued, Running
from bgjob.link.control import Answer, NoShim, ShimConnection
from bgjob.output.log_reader import LogReader, TimedPiece

Size = tuple[int, int]
RequestKind = Literal["stdin", "resize", "signal", "attach", "status"]
# A third of the time after which a shim releases the hold of a viewer that has fallen silent.
BEAT_S = 20.0
MOST_WAITING_BYTES = 1 << 16
PIECE_BYTES = 1 << 14
STDIN_WAIT_S = 24 * 3600.0
READ_BYTES = 1 << 16
LEAVE_S = 2.0


class Request(NamedTuple):
    kind: RequestKind
    fields: dict[str, Any]
    data: bytes = b""


class View(NamedTuple):
    """What the shim tells a viewer."""

    size: Size | None = None
    """Of the job's terminal: rows and columns."""
    in_control: int | None = None
    """The viewer whose terminal has the size, and answers questions."""


def check_can_attach(context: Context, job: Job, *, only_looks: bool) -> None:
    """NotRunning, NotAllowed: it cannot be entered, or not from here."""
    if not isinstance(job.state, Running) or isinstance(job.state, Queued):
        raise not_running(context, job)
    if not only_looks:
        with noting_refusal(context, job.id):
            check_may_steer(context.settings, job)


class Attachment:
    def __init__(
        self,
        context: Context,
        job: Job,
        by: str,
        *,
        only_looks: bool = False,
        size: Size | None = None,
    ) -> None:
        """`by`: the person's name as others see it. `size`: that of the person's terminal, if the job has one.

        The caller waits for its descriptors no longer than `beat` returns.
        """
        check_can_attach(context, job, only_looks=only_looks)
        self._context, self.job_id = context, job.id
        self._by, self.only_looks, self.size = by, only_looks, size if job.spec.pty else None
        self.at = 0
        """Up to where the person has seen the log."""
        self.unseen_bytes = 0
        """How much there was beyond that at the last look."""
        self.log_end = 0
        """Where the log ended when the shim told something last."""
        self.is_over = False
        self.is_stdin_closed = False
        self.view, self._number = View(), 0
        self._held_since, self._typed_bytes = 0.0, 0
        self._sent_at = time.monotonic()
        self._typing: ShimConnection | None = None
        self._news: ShimConnection | None = None
        self._requests: deque[Request] = deque()
        self._asked: Request | None = None
        self._waits = False
        self._connect()

    @property
    def is_in_control(self) -> bool:
        return self.view.in_control == self._number != 0

    @property
    def _types_now(self) -> bool:
        """The shim may not have seen yet what was typed last."""
        pending = [*self._requests, *([self._asked] if self._asked else [])]
        return any(request.kind == "stdin" and not request.fields.get("reply") for request in pending)

    @property
    def holds(self) -> bool:
        """While it does, only people who are attached type into the job."""
        return self._held_since > 0 and (self.is_in_control or self.view.size is None)

    @property
    def has_room(self) -> bool:
        """False: the job does not read, and much waits for it already."""
        return sum(len(request.data) for request in self._requests) < MOST_WAITING_BYTES

    def descriptors(self) -> list[int]:
        return [line.fileno() for line in (self._typing, self._news) if line]

    def finish(self) -> None:
        """Leave. What was typed goes into the job before, if it reads soon."""
        deadline = time.monotonic() + LEAVE_S
        while self._typing and self._asked and (left_s := deadline - time.monotonic()) > 0:
            poll = select.poll()
            poll.register(self._typing.fileno(), select.POLLIN)
            self.hear({descriptor for descriptor, _ in poll.poll(1000 * left_s)})
        self.close()

    def close(self) -> None:
        for line in filter(None, (self._typing, self._news)):
            line.close()
        self._typing = self._news = self._asked = None
        self._waits = False

    # -- to the job ---------------------------------------------------------------------------------

    def type(self, data: bytes, *, is_reply: bool = False) -> None:
        """is_reply: the person's terminal sends it by itself, as the answer to a question of the job."""
        for at in range(0, len(data), PIECE_BYTES):
            piece = data[at : at + PIECE_BYTES]
            self._ask("stdin", piece, length=len(piece), close=False, wait_s=STDIN_WAIT_S, reply=is_reply)
        if not is_reply:
            note(self._context.store.home, "input_sent", self.job_id, bytes=len(data))
            self._held_since = self._held_since or time.time()
            self._typed_bytes += len(data)
            # known before the shim tells it: what the job asks its terminal in answer to this is for us
            self.view = self.view._replace(in_control=self._number)

    def close_stdin(self) -> None:
        self._ask("stdin", length=0, close=True, wait_s=STDIN_WAIT_S)

    def resize(self, size: Size) -> None:
        self.size = size
        self._ask("resize", rows=size[0], cols=size[1])

    def take_over(self) -> None:
        """Hold the job from now on, as if something had been typed."""
        self._held_since, self._typed_bytes = time.time(), 0  # what was typed before is told by the shim now
        self._ask("attach", **self._viewer())

    def give_back(self) -> None:
        """Hold it no longer, until something is typed again."""
        self._held_since, self._typed_bytes = 0.0, 0
        self._ask("attach", **self._viewer())

    def beat(self) -> float:
        """Send a sign of life if it is due, so that we keep control of the job. Return the seconds until the next."""
        left_s = self._sent_at + BEAT_S - time.monotonic()
        if self._asked or left_s > 0:
            return max(left_s, 0.0) or BEAT_S
        self._ask("status")
        return BEAT_S

    def interrupt(self, number: int) -> None:
        """A signal to the processes that ctrl-c reaches on a terminal."""
        note(self._context.store.home, "signal_sent", self.job_id, signal=number)
        self._ask("signal", signal=number, group=True)

    def _ask(self, kind: RequestKind, data: bytes = b"", **fields: Any) -> None:
        self._requests.append(Request(kind, fields, data))
        self._send_next()

    def _send_next(self) -> None:
        """One at a time: the shim answers each before it reads the next."""
        if self._typing and self._asked is None and self._requests:
            request, self._sent_at = self._requests.popleft(), time.monotonic()
            self._asked = request
            self._typing.send(SHIM_PATIENCE_S, request.data, op=request.kind, **request.fields)

    # -- from the shim ------------------------------------------------------------------------------

    def hear(self, ready: set[int]) -> None:
        """Of the descriptors, these are readable."""
        try:
            if self._typing and self._typing.fileno() in ready:
                self._hear_answer(self._typing.receive(SHIM_PATIENCE_S))
            if self._news and self._news.fileno() in ready:
                self._waits = False
                self._note(self._news.receive(SHIM_PATIENCE_S))
        except (NoShim, TimeoutError):
            self._connect()

    def _hear_answer(self, answer: Answer) -> None:
        asked, self._asked = self._asked, None
        if asked and asked.kind == "stdin" and not answer["ok"]:
            check_not_held(self._context, self.job_id, answer)
            self.is_stdin_closed = True
        elif asked and asked.kind == "attach":
            self._enter(answer)
        elif asked and asked.kind == "status":
            self._note(answer)
            if "held" in answer and answer["held"] is None:
                self._held_since = 0.0  # we were silent for too long, and the shim has released the job
        self._send_next()

    def _note(self, told: Answer) -> None:
        if size := told.get("size"):
            in_control = self._number if self._types_now else told.get("in_control")
            self.view = View((size[0], size[1]), in_control)
        self.log_end = told.get("end", self.log_end)
        self.is_over = self.is_over or any(told.get(end) is not None for end in ("outcome", "unrecorded"))

    def wait(self) -> None:
        """Be told when more is printed than the person has seen, when the size changes, or the job ends."""
        if self._news and not self._waits:
            self._waits = True
            size: dict[str, Any] = {"size": self.view.size} if self.view.size else {}
            self._news.send(SHIM_PATIENCE_S, op="wait", beyond=self.at, **size)

    def _connect(self) -> None:
        """To the shim, or to its guard; what was typed just now may be lost, and is not typed twice."""
        self.close()
        try:
            self._typing = connect_to_shim(self._context, self.job_id)
            self._attach(self._typing)
            self._news = connect_to_shim(self._context, self.job_id)
        except (NoShim, TimeoutError):
            self.close()
            self.is_over = True  # it has ended, or is lost: its record says which
            return
        self._send_next()

    def _attach(self, typing: ShimConnection) -> None:
        self._enter(typing.ask(SHIM_PATIENCE_S, op="attach", **self._viewer()))
        if self._number == 0 and self.size and not self.only_looks:
            # a shim of an older version knows no viewers: it is resized, not held
            typing.ask(SHIM_PATIENCE_S, op="resize", rows=self.size[0], cols=self.size[1])
            self.view = View(self.size, None)

    def _viewer(self) -> dict[str, Any]:
        """As the shim is to know us."""
        size = {"rows": self.size[0], "cols": self.size[1]} if self.size else {}
        held = {"held_since": self._held_since, "typed_bytes": self._typed_bytes} if self._held_since else {}
        return {"by": self._by, "looks": self.only_looks, "beats": True, **size, **held}

    def _enter(self, told: Answer) -> None:
        self._number = told.get("viewer") or 0
        if self._number:
            self._note(told)

    # -- what it prints -----------------------------------------------------------------------------

    def new_output(self) -> list[Chunk]:
        """The next of what was printed beyond `at`, which it moves on; empty: there is no more now."""
        pieces = Snapshot(self._context, self.job_id).read(self._next_pieces)
        chunks = []
        for piece in pieces:
            chunks.append(Chunk(piece.stream, piece.data, piece.end, piece.start - self.at))
            self.at = piece.end
        return chunks

    def _next_pieces(self, log: LogReader) -> list[TimedPiece]:
        self.unseen_bytes = log.end - self.at
        pieces, size = list[TimedPiece](), 0
        for piece in log.interleaved(self.at, log.end):
            pieces.append(piece)
            size += len(piece.data)
            if size >= READ_BYTES:
                break
        return pieces

    def output_until(self, end: int, most_bytes: int) -> bytes:
        """What was printed beyond `at`, up to there: the last part of it."""
        start = max(self.at, end - most_bytes)
        snapshot = Snapshot(self._context, self.job_id)
        return snapshot.read(lambda log: b"".join(piece.data for piece in log.interleaved(start, end)))

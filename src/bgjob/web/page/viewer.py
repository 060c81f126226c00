"""One page in one job: a thread tells the page what the job prints, and types what the page sends.

view=terminal   screen  at, rows, cols, data: what the job's terminal shows now; data is base64
                bytes   at, data: what it prints; from `at` on, a page that comes back is told more (0: anew)
view=log        grown   end: there is more to read
both            view    rows, cols, in_control, holds, stdin_closed, only_looks: of this viewer
                over    the job has ended, and that was all
                gone    error: it cannot be looked at
"""

import select
import threading
from collections import deque
from collections.abc import Callable
from contextlib import closing
from contextvars import copy_context
from typing import Literal, NamedTuple

from bgjob.api.attach import Attachment, Size
from bgjob.api.connect import settled
from bgjob.api.context import Context
from bgjob.api.processes import left_running, not_running
from bgjob.api.snapshot import Snapshot, with_unrecorded_end
from bgjob.api.start import check_may_steer, noting_refusal
from bgjob.api.terminal_state import terminal_state
from bgjob.core.errors import BgjobError, NotAllowed, NotRunning
from bgjob.core.job import Job, Queued, Running
from bgjob.mcp.stderr import report
from bgjob.system.inotify import Inotify
from bgjob.system.own_user import own_user
from bgjob.system.waker import Waker
from bgjob.terminal.replies import are_replies
from bgjob.web.page.event_queue import EventQueue
from bgjob.web.page.views import GROWN_EVERY_S, LogView, TerminalView, log_end, put_screen
from bgjob.web.page.words import in_page_words

ViewName = Literal["log", "terminal"]
Act = Callable[[Attachment], None]

LOOK_PATIENCE_S = 5.0
MOST_UNTYPED_BYTES = 1 << 20
LEFT_EVERY_S = 0.25


def own_name() -> str:
    """The person at a page, as others are told."""
    return f"{own_user()} in a browser"


class OnlyLooks(BgjobError):
    def __init__(self, job_id: str, why: str) -> None:
        super().__init__(f"Nothing was typed into job {job_id}: {why}.")


class DoesNotRead(BgjobError):
    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"Job {job_id} does not read what is typed: {MOST_UNTYPED_BYTES >> 20} MB wait for it already.",
            "Nothing more was typed.",
        )


class Wanted(NamedTuple):
    """What a page wants to see."""

    job_id: str
    view: ViewName
    at: int = 0
    """view=terminal: up to where in the log its terminal has been told; 0: it begins anew."""
    size: Size | None = None
    """Of its terminal: rows and columns."""
    may_type: bool = True


class Viewer:
    """Its methods may be called from any thread."""

    def __init__(
        self, context: Context, wanted: Wanted, tell: Callable[[], None], on_hold: Callable[[], None]
    ) -> None:
        """`tell`: there is something to take. `on_hold`: the page takes the job over, or gives it back."""
        self._context, self._wanted, self._on_hold = context, wanted, on_hold
        self._waker, self._mutex = Waker(), threading.Lock()
        self._events = EventQueue(tell, self._wake)
        self._acts: deque[tuple[Act, int]] = deque()
        self._untyped_bytes = 0
        self._refusal: BgjobError | None = None
        """Why nothing can be typed."""
        self._knows_job = threading.Event()
        """Set once `_refusal` says how the job stands. What is typed before that waits for it."""
        self._view: dict[str, object] = {}
        self._is_queued = self._is_closed = self._is_done = False

    def start(self) -> None:
        threading.Thread(target=self._run, name="page viewer", daemon=True).start()

    def close(self) -> None:
        self._is_closed = True
        self._wake()

    def take(self) -> bytes:
        """Events for the page."""
        return self._events.take()

    def on_change(self) -> None:
        """Something has happened to jobs: ours may have been started."""
        if self._is_queued:
            self._wake()

    # -- what the page does -------------------------------------------------------------------------

    def type(self, data: bytes) -> None:
        with self._mutex:
            if self._untyped_bytes + len(data) > MOST_UNTYPED_BYTES:
                raise DoesNotRead(self._wanted.job_id)
        self._do(lambda attachment: attachment.type(data, is_reply=are_replies(data)), len(data))

    def resize(self, size: Size) -> None:
        """Of the page's terminal: it becomes that of the job if this page is in control."""
        self._wanted = self._wanted._replace(size=size)
        if self._refusal is None:
            self._do(lambda attachment: attachment.resize(size))

    def take_over(self) -> None:
        self._do(Attachment.take_over)

    def give_back(self) -> None:
        self._do(Attachment.give_back)

    def _do(self, act: Act, size_bytes: int = 0) -> None:
        self._knows_job.wait(LOOK_PATIENCE_S)
        if self._refusal:
            with noting_refusal(self._context, self._wanted.job_id):
                raise self._refusal.with_traceback(None)
        by = copy_context()  # who does it, for the audit trail
        with self._mutex:
            self._acts.append((lambda attachment: by.run(act, attachment), size_bytes))
            self._untyped_bytes += size_bytes
        self._wake()

    def _wake(self) -> None:
        with self._mutex:
            if not self._is_done:
                self._waker.wake()

    # -- the thread ---------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._show_job()
        except BgjobError as problem:
            self._refusal = problem
            self._events.put("gone", {"error": in_page_words(problem)})
        except Exception:  # noqa: BLE001
            report("Internal error in the view of a job")
            self._events.put("gone", {"error": "Internal error; the server's log has the details."})
        self._knows_job.set()
        with self._mutex:
            self._is_done = True
            self._waker.close()

    def _show_job(self) -> None:
        job, was_attached = self._started(), False
        if not self._is_closed and isinstance(job.state, Running):
            try:
                self._attend(job)
                was_attached = True
            except NotRunning:  # it has ended meanwhile
                pass
        if not self._is_closed:
            self._show_ended(self._ended(job.id), was_attached=was_attached)
            self._events.put("over", {})

    def _started(self) -> Job:
        """The job, once it is not queued any more."""
        while True:
            self._is_queued = True  # first: what happens from now on wakes us
            job = Snapshot(self._context, self._wanted.job_id).job
            if self._is_closed or not isinstance(job.state, Queued):
                self._is_queued = False
                return job
            self._refuse(not_running(self._context, job))
            self._sleep(None)

    def _refuse(self, why: BgjobError | None) -> None:
        self._refusal = why
        self._knows_job.set()

    def _attend(self, job: Job) -> None:
        """Until the page leaves, or the job is over and all of it was shown."""
        self._refuse(self._why_not_type(job))
        looks = self._refusal is not None
        attachment = Attachment(self._context, job, own_name(), only_looks=looks, size=self._wanted.size)
        with closing(attachment):
            shown = self._shown(attachment)
            while not self._is_closed:
                self._tell_view(attachment)
                more_in_s = shown.show()
                if more_in_s is None and attachment.is_over:
                    break
                if more_in_s is None:
                    attachment.wait()
                beat_in_s = attachment.beat()
                self._sleep(attachment, beat_in_s if more_in_s is None else min(more_in_s, beat_in_s))
                self._act(attachment)
            attachment.finish()
        if attachment.holds:
            self._on_hold()

    def _shown(self, attachment: Attachment) -> TerminalView | LogView:
        if self._wanted.view == "log":
            return LogView(attachment, self._events)
        return TerminalView(self._context, attachment, self._events, self._wanted.at)

    def _why_not_type(self, job: Job) -> BgjobError | None:
        why = None
        if not self._wanted.may_type:
            why = "this login may only look"
        elif job.spec.stdin == "null":
            why = "its stdin is /dev/null"
        elif job.spec.pty and self._wanted.view == "log":
            why = "its log is only read; open its terminal to type"
        if why:
            return OnlyLooks(job.id, why)
        try:
            check_may_steer(self._context.settings, job)
        except NotAllowed as problem:
            return problem
        return None

    def _tell_view(self, attachment: Attachment) -> None:
        rows, cols = attachment.view.size or (None, None)
        view: dict[str, object] = {
            "rows": rows,
            "cols": cols,
            "in_control": attachment.is_in_control,
            "holds": attachment.holds,
            "stdin_closed": attachment.is_stdin_closed,
            "only_looks": attachment.only_looks,
        }
        if view != self._view:
            self._events.put("view", view)
            if self._view.get("holds", False) != attachment.holds:
                self._on_hold()
            self._view = view

    def _sleep(self, attachment: Attachment | None, more_in_s: float | None = None) -> None:
        """Until the job or the page does something, or there may be more to show."""
        poll = select.poll()
        poll.register(self._waker.fileno(), select.POLLIN)
        for descriptor in attachment.descriptors() if attachment and not attachment.is_over else ():
            poll.register(descriptor, select.POLLIN)
        ready = poll.poll(None if more_in_s is None else 1000 * more_in_s)
        self._waker.take()
        if attachment:
            attachment.hear({descriptor for descriptor, _ in ready})

    def _act(self, attachment: Attachment) -> None:
        """While the job reads what is typed."""
        while self._acts and attachment.has_room and not attachment.is_over:
            act, size_bytes = self._acts.popleft()
            act(attachment)
            with self._mutex:
                self._untyped_bytes -= size_bytes

    def _ended(self, job_id: str) -> Job:
        """A shim that was killed closes its socket before its guard has written the end."""
        job = with_unrecorded_end(self._context, job_id)
        return settled(self._context, job_id) if isinstance(job.state, Running) else job

    def _show_ended(self, job: Job, *, was_attached: bool) -> None:
        self._refuse(not_running(self._context, job))
        if self._wanted.view == "log":
            self._follow_log(job)
        elif not was_attached:
            put_screen(self._events, terminal_state(self._context, job.id))

    def _follow_log(self, job: Job) -> None:
        """To its end: processes that the job has left running may add to it."""
        told = -1
        with closing(Inotify()) as inotify:
            inotify.watch(self._context.store.log_directory(job.id))
            while not self._is_closed:
                is_left = left_running(self._context, job) > 0  # first: else what they print last is missed
                end = log_end(self._context, job.id)
                if end != told:
                    self._events.put("grown", {"end": end})
                    told = end
                if not is_left:
                    break
                self._sleep(None, GROWN_EVERY_S)
                inotify.wait(LEFT_EVERY_S, [self._waker.fileno()])
                self._waker.take()

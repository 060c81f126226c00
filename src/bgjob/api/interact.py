"""Typing into a job."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bgjob.api.connect import SHIM_PATIENCE_S, connect_to_shim, settled
from bgjob.api.context import Context
from bgjob.api.output import Shown, job_output
from bgjob.api.processes import not_running
from bgjob.api.results import Interaction
from bgjob.api.snapshot import Snapshot
from bgjob.api.spec import check_size
from bgjob.api.start import check_may_steer
from bgjob.core.errors import InvalidArgument, NotSteerable, StdinClosed, StdinIsNull
from bgjob.core.job import Job, Queued, Running
from bgjob.home.log_format import STDOUT
from bgjob.link.control import NoShim, ShimConnection
from bgjob.output.log_reader import LogReader
from bgjob.terminal.keys import keys_to_bytes

# a job has answered when it has printed, and has waited for input so long;
QUIET_S = 0.003
# or, where it does not wait for input or that is not known, when it has printed nothing more for so long
SETTLE_S = 0.1
CURSOR_MODE_BYTES = 1 << 18
INTERRUPTED = (
    "its shim was killed while it typed: the input may have arrived, or a part of it. "
    "Look at the output before you type it again"
)


@dataclass(frozen=True)
class Typed:
    """What goes into a job: text, then keys by their names, then perhaps the end of its input."""

    text: str = ""
    keys: Sequence[str] = ()
    add_newline: bool = True
    close_stdin: bool = False


def interact_with_job(
    context: Context,
    job_id: str,
    typed: Typed,
    *,
    resize: tuple[int, int] | None = None,
    wait_s: float = 0.5,
    shown: Shown | None = None,
) -> Interaction:
    """Type into a job; what it printed from then on, once it has answered or the wait is over."""
    snapshot = Snapshot(context, job_id)
    job = snapshot.job
    check_may_steer(context.settings, job)
    if not isinstance(job.state, Running) or isinstance(job.state, Queued):
        raise not_running(context, job)
    if job.spec.stdin == "null":
        raise StdinIsNull(job_id)
    data = b"" if resize and typed == Typed() else _bytes_of(typed, snapshot)
    try:
        with connect_to_shim(context, job_id) as shim:
            if resize:
                _resize(shim, job, *resize)
            fed, answered = _feed(context, shim, job_id, data, wait_s, typed.close_stdin)
            at, accepted, unread = fed["at"], fed["accepted"], answered["unread"]
    except NoShim:
        job = settled(context, job_id)
        if isinstance(job.state, Running):
            raise NotSteerable(job_id, INTERRUPTED) from None
        raise not_running(context, job) from None
    except TimeoutError:
        raise NotSteerable(job_id, "its shim does not answer in time") from None
    return Interaction(job_output(context, job_id, str(at), shown), accepted, unread)


def _bytes_of(typed: Typed, snapshot: Snapshot) -> bytes:
    """On a terminal the Enter key is a carriage return; a pipe knows only newlines."""
    text, has_pty = typed.text, snapshot.job.spec.pty
    nothing_else = not typed.keys and not typed.close_stdin
    if typed.add_newline and not text.endswith("\n") and (text or nothing_else):
        text += "\n"
    try:
        data = (text.replace("\n", "\r") if has_pty else text).encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"input is not valid Unicode at character {error.start}.") from None
    application_cursor = has_pty and bool(typed.keys) and snapshot.read(_has_application_cursor)
    return data + keys_to_bytes(typed.keys, application_cursor=application_cursor)


def _has_application_cursor(log: LogReader) -> bool:
    """Whether the program has switched the arrow keys to application mode."""
    start = max(0, log.end - CURSOR_MODE_BYTES)
    window = b"".join(piece.data for piece in log.forward(STDOUT, start, log.end))
    return window.rfind(b"\x1b[?1h") > window.rfind(b"\x1b[?1l")


def _resize(shim: ShimConnection, job: Job, rows: int, cols: int) -> None:
    if not job.spec.pty:
        raise InvalidArgument(f"Job {job.id} has no terminal to resize. Start it with pty=true for one.")
    check_size(rows, cols)
    answer = shim.ask(SHIM_PATIENCE_S, op="resize", rows=rows, cols=cols)
    if not answer["ok"]:
        raise NotSteerable(job.id, f"its terminal was not resized: {answer['error']}")


def _feed(
    context: Context, shim: ShimConnection, job_id: str, data: bytes, wait_s: float, close_stdin: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the shim said when it had written the input, and when the job had answered."""
    deadline = time.monotonic() + wait_s
    patience_s = wait_s + SHIM_PATIENCE_S
    fed = shim.ask(patience_s, data, op="stdin", length=len(data), close=close_stdin, wait_s=wait_s)
    if not fed["ok"]:
        job = context.store.load(job_id)
        raise StdinClosed(job_id) if isinstance(job.state, Running) else not_running(context, job)
    return fed, _wait_for_answer(shim, fed["at"], deadline - time.monotonic()) or fed


def _wait_for_answer(shim: ShimConnection, offset: int, patience_s: float) -> dict[str, Any] | None:
    """Until the job has printed and waits for more, or has gone quiet, or ended; or the time is up."""
    if patience_s <= 0:
        return None
    try:
        return shim.ask(
            patience_s + SHIM_PATIENCE_S,
            op="wait",
            beyond=offset,
            quiet_s=QUIET_S,
            settle_s=SETTLE_S,
            timeout_s=patience_s,
        )
    except NoShim:
        return None  # the job has ended meanwhile

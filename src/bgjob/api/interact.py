"""Typing into a job."""

import contextlib
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bgjob.api.audit import note
from bgjob.api.connect import SHIM_PATIENCE_S, check_reachable, connect_to_shim, settled
from bgjob.api.context import Context
from bgjob.api.hold import check_not_held
from bgjob.api.output import Shown, output_of
from bgjob.api.processes import not_running
from bgjob.api.prompt import prompt_told, sits_at_prompt
from bgjob.api.results import Interaction
from bgjob.api.session import answering, note_told_if_over
from bgjob.api.snapshot import Snapshot
from bgjob.api.spec import check_size
from bgjob.api.start import check_may_steer, noting_refusal
from bgjob.core.errors import (
    BgjobError,
    InvalidArgument,
    NotSteerable,
    StdinClosed,
    StdinIsNull,
)
from bgjob.core.frozen import Frozen, replace
from bgjob.core.job import Job, Queued, Running
from bgjob.home.log_format import STDOUT
from bgjob.link.control import NoShim, ShimConnection
from bgjob.output.log_reader import LogReader
from bgjob.terminal.keys import keys_to_bytes

DEFAULT_WAIT_S = 5.0
# a job that reads again has worked off its input when it has printed nothing more for so long;
QUIET_S = 0.002
# where nobody takes the input, or the kernel does not tell, the wait is over after so long
SETTLE_S = 0.5
CURSOR_MODE_BYTES = 1 << 18
# of a line that a terminal collects until Enter, without the Enter
TERMINAL_LINE_BYTES = 4095
INTERRUPT, END_OF_FILE = b"\x03", b"\x04"
INTERRUPTED = (
    "its shim was killed while it typed: the input may have arrived, or a part of it. "
    "Look at the output before you type it again"
)
LINE_CUT = (
    "the line to its target was cut while it typed: the input may have arrived, or a part of it, or nothing. "
    "Look at the output before you type it again"
)


class Typed(Frozen):
    """What goes into a job: text, then keys by their names, then perhaps the end of its input."""

    text: str | None = None
    """"" with nothing else presses Enter."""
    keys: Sequence[str] = ()
    add_newline: bool | None = None
    """None: where the text has none and no keys follow."""
    close_stdin: bool = False


class Sent(Frozen):
    """The same as a job gets it: on a pipe, two keys have no bytes."""

    data: bytes
    is_interrupt: bool
    is_end_of_file: bool

    @property
    def is_for_stdin(self) -> bool:
        return bool(self.data) or self.is_end_of_file


class NotAllTaken(BgjobError):
    def __init__(self, job_id: str, accepted: int, sent: int, advice: str) -> None:
        super().__init__(
            f"Job {job_id} has taken {accepted} of {sent} bytes, and does not read the rest.", advice
        )


def interact_with_job(
    context: Context,
    job_id: str,
    typed: Typed,
    *,
    resize: tuple[int | None, int | None] | None = None,
    wait_s: float = DEFAULT_WAIT_S,
    shown: Shown | None = None,
    session: str | None = None,
) -> Interaction:
    """Type into a job; what it printed from then on, once it has worked off the input or the wait is over.

    `resize`: rows and columns; one that is None stays as it is. `session`: told of the end by this answer.
    """
    with answering(context, session, [job_id]):
        done = _interact(context, job_id, typed, resize, wait_s, shown)
        note_told_if_over(context, session, done.job)
    return done


def _interact(
    context: Context,
    job_id: str,
    typed: Typed,
    resize: tuple[int | None, int | None] | None,
    wait_s: float,
    shown: Shown | None,
) -> Interaction:
    if typed.text is None and not (typed.keys or typed.close_stdin or resize):
        raise InvalidArgument(
            "Nothing to type. Give input ('' presses Enter), keys, close_stdin, rows or cols."
        )
    snapshot = Snapshot(context, job_id)
    check_takes_input(context, snapshot.job)
    sent = _sent(typed, snapshot, is_resized=resize is not None)
    if sent.is_for_stdin:
        check_has_stdin(snapshot.job)
    most_s = context.settings.max_wait_s
    deadline = time.monotonic() + min(wait_s, most_s)
    until = answered_until(deadline)
    with typing_into(context, job_id, until) as shim:
        check_lines_fit(shim, snapshot.job, sent.data, until)
        told = _send(context, shim, snapshot.job, sent, resize, deadline, until)
        note(context.store.home, "input_sent", job_id, bytes=len(sent.data))
        waits_for_end = sent.is_end_of_file and not snapshot.job.spec.pty
        answered = wait_for_answer(shim, told["at"], deadline, until, waits_for_end=waits_for_end)
    cut_to_s = most_s if wait_s > most_s and time.monotonic() >= deadline else None
    return replace(interaction(context, job_id, told, answered, shown), cut_to_s=cut_to_s)


def check_all_taken(done: Interaction, advice: str) -> None:
    """NotAllTaken: the job does not read. Of one that has ended, nothing is wrong with that."""
    if done.accepted_bytes < done.sent_bytes and isinstance(done.job.state, Running):
        raise NotAllTaken(done.job.id, done.accepted_bytes, done.sent_bytes, advice)


def answered_until(deadline: float) -> float:
    """Until when a shim may take in all to answer a call that gives the job until `deadline`."""
    return max(time.monotonic() + SHIM_PATIENCE_S, deadline + SHIM_PATIENCE_S / 2)


@contextlib.contextmanager
def typing_into(context: Context, job_id: str, until: float) -> Iterator[ShimConnection]:
    """NotRunning or NotSteerable: the job has ended meanwhile, or its shim was killed or does not answer."""
    try:
        with connect_to_shim(context, job_id, until) as shim:
            yield shim
    except NoShim:
        job = settled(context, job_id)
        if isinstance(job.state, Running):
            raise NotSteerable(job_id, LINE_CUT if job.remote else INTERRUPTED) from None
        raise not_running(context, job) from None
    except TimeoutError:
        raise NotSteerable(job_id, "its shim does not answer in time") from None


def check_takes_input(context: Context, job: Job) -> None:
    with noting_refusal(context, job.id):
        check_may_steer(context.settings, job)
    check_reachable(job)
    if not isinstance(job.state, Running) or isinstance(job.state, Queued):
        raise not_running(context, job)


def check_has_stdin(job: Job) -> None:
    if job.spec.stdin == "null":
        raise StdinIsNull(job.id)


# -- what is sent -----------------------------------------------------------------------------------


def _sent(typed: Typed, snapshot: Snapshot, *, is_resized: bool) -> Sent:
    """On a terminal Enter is a carriage return; a pipe knows newlines, and has no keys that interrupt or end."""
    enters = ("\r\n", "\r", "\n") if snapshot.job.spec.pty else ("\n",)
    text = _text(typed, enters, is_resized=is_resized)
    if not snapshot.job.spec.pty:
        keys = [keys_to_bytes([name]) for name in typed.keys]
        plain = b"".join(key for key in keys if key not in (INTERRUPT, END_OF_FILE)).replace(b"\r", b"\n")
        return Sent(text + plain, INTERRUPT in keys, typed.close_stdin or END_OF_FILE in keys)
    application_cursor = bool(typed.keys) and snapshot.read(_has_application_cursor)
    keys_sent = keys_to_bytes(typed.keys, application_cursor=application_cursor)
    return Sent(text.replace(b"\r\n", b"\r").replace(b"\n", b"\r") + keys_sent, False, typed.close_stdin)


def _text(typed: Typed, enters: tuple[str, ...], *, is_resized: bool) -> bytes:
    """`enters`: what counts as Enter at its end."""
    text = typed.text or ""
    is_enter_alone = typed.text == "" and not (typed.keys or typed.close_stdin or is_resized)
    wants_newline = not typed.keys if typed.add_newline is None else typed.add_newline
    if wants_newline and not text.endswith(enters) and (text or is_enter_alone):
        text += "\n"
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            f" is not valid Unicode at character {error.start}.", argument="input"
        ) from None


def _has_application_cursor(log: LogReader) -> bool:
    """Whether the program has switched the arrow keys to application mode."""
    start = max(0, log.end - CURSOR_MODE_BYTES)
    window = b"".join(piece.data for piece in log.forward(STDOUT, start, log.end))
    return window.rfind(b"\x1b[?1h") > window.rfind(b"\x1b[?1l")


# -- to the shim ------------------------------------------------------------------------------------


def _at_once_s(until: float) -> float:
    """How long a shim may take to answer what needs no waiting."""
    return min(SHIM_PATIENCE_S, until - time.monotonic())


def check_lines_fit(shim: ShimConnection, job: Job, data: bytes, until: float) -> None:
    """Of a longer line the kernel would drop the rest, and say that all was taken."""
    lines = data.replace(b"\n", b"\r").split(b"\r") if job.spec.pty else [b""]
    if max(map(len, lines)) <= TERMINAL_LINE_BYTES:
        return
    if shim.ask(_at_once_s(until), op="status").get("canonical"):
        raise InvalidArgument(
            f" has a line of more than {TERMINAL_LINE_BYTES} bytes, which this terminal cannot take.",
            "Type shorter lines, or start the job with stdin='open' and no pty.",
            argument="input",
        )


def _send(
    context: Context,
    shim: ShimConnection,
    job: Job,
    sent: Sent,
    resize: tuple[int | None, int | None] | None,
    deadline: float,
    until: float,
) -> dict[str, Any]:
    """What was taken of it, and where the log ended before."""
    told: dict[str, Any] = {"accepted": 0, "unread": None, "sent": len(sent.data)}
    if resize or not sent.is_for_stdin:
        told["at"] = _log_end(shim, until)
    if resize:
        _resize(context, shim, job, *resize, until)
    if sent.is_for_stdin:
        fed = feed(context, shim, job.id, sent, deadline, until)
        told = {"at": fed["at"], **told, "accepted": fed["accepted"], "unread": fed["unread"]}
    if sent.is_interrupt:
        answer = shim.ask(_at_once_s(until), op="signal", signal=int(signal.SIGINT), group=True)
        check_not_held(context, job.id, answer)
    return told


def _log_end(shim: ShimConnection, until: float) -> int:
    """With what the job has printed until now; a shim of 0.1 tells only how far it had read."""
    settled_end: int | None = shim.ask(_at_once_s(until), op="waits").get("end")
    return shim.ask(_at_once_s(until), op="status")["end"] if settled_end is None else settled_end


def _resize(
    context: Context, shim: ShimConnection, job: Job, rows: int | None, cols: int | None, until: float
) -> None:
    if not job.spec.pty:
        raise InvalidArgument(f"Job {job.id} has no terminal to resize. Start it with pty=true for one.")
    _, old_rows, old_cols = context.store.terminal_sizes(job)[-1]
    rows, cols = old_rows if rows is None else rows, old_cols if cols is None else cols
    check_size(rows, cols)
    answer = shim.ask(_at_once_s(until), op="resize", rows=rows, cols=cols)
    check_not_held(context, job.id, answer)
    if not answer["ok"]:
        raise NotSteerable(job.id, f"its terminal was not resized: {answer['error']}")


def feed(
    context: Context, shim: ShimConnection, job_id: str, sent: Sent, deadline: float, until: float
) -> Mapping[str, Any]:
    """What the shim said when it had written the input, or the job had until `deadline` to read it."""
    wait_s = max(0.0, deadline - time.monotonic())
    request: dict[str, Any] = {
        "op": "stdin",
        "length": len(sent.data),
        "close": sent.is_end_of_file,
        "wait_s": wait_s,
    }
    fed = shim.ask(until - time.monotonic(), sent.data, **request)
    check_not_held(context, job_id, fed)
    if not fed["ok"]:
        job = context.store.load(job_id)
        raise StdinClosed(job_id) if isinstance(job.state, Running) else not_running(context, job)
    return fed


def wait_for_answer(
    shim: ShimConnection, offset: int, deadline: float, until: float, *, waits_for_end: bool
) -> Mapping[str, Any]:
    """What the shim said when the job had worked off its input, or had ended, or the time was up."""
    patience_s = deadline - time.monotonic()
    if patience_s <= 0:
        return {}
    request: dict[str, Any] = {"op": "wait", "timeout_s": patience_s}
    if not waits_for_end:
        request |= {"beyond": offset, "quiet_s": QUIET_S, "settle_s": SETTLE_S}
    try:
        return shim.ask(until - time.monotonic(), **request)
    except NoShim:
        return {"unread": None}  # the job has ended meanwhile, or goes on under its guard


# -- the answer -------------------------------------------------------------------------------------


def interaction(
    context: Context, job_id: str, told: Mapping[str, Any], answered: Mapping[str, Any], shown: Shown | None
) -> Interaction:
    snapshot = Snapshot(context, job_id)
    waits = _waits_for_input(context, snapshot.job, answered)
    typed_at = min(told["at"], snapshot.read(lambda log: log.end))  # a full disk may have swallowed output
    is_running = isinstance(snapshot.job.state, Running)
    return Interaction(
        output_of(context, snapshot, str(typed_at), shown),
        told["accepted"],
        answered.get("unread", told["unread"]) if is_running else None,
        snapshot.job,
        waits,
        prompt_told(context, snapshot, waits),
        context.store.history(snapshot.job),
        sent_bytes=told["sent"],
        at=typed_at,
    )


def _waits_for_input(context: Context, job: Job, answered: Mapping[str, Any]) -> bool | None:
    """The shim of an older version does not tell with its answer."""
    if not isinstance(job.state, Running) or not answered:
        return None
    if "prompt" not in answered:
        return sits_at_prompt(context, job)
    return None if answered["waits"] == "unknown" else answered["prompt"]

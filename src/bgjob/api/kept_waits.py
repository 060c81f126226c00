"""Waits that go on when their call has been answered: kept on disk, looked at by whoever is asked about them.

Nothing waits for them meanwhile. What has come true is known from the jobs themselves: their ends, their
output, the ports that are open and the prompts at which they sit or sat. So any process can look, and one
that was killed is not missed. How a wait ended is written once, and stays.
"""

import contextlib
import itertools
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from bgjob.api.conditions import Awaited
from bgjob.api.context import Context
from bgjob.api.interact import Typed, interact_with_job
from bgjob.api.kill import kill_job
from bgjob.api.missed import missed
from bgjob.api.output import Shown
from bgjob.api.prompt import hides_input, prompt_told
from bgjob.api.results import Waited
from bgjob.api.session import expect, note_told
from bgjob.api.spec import new_id
from bgjob.api.wait import BREATHER_S, Cancellation, Mode, Wait, conditions_of
from bgjob.core.errors import BgjobError, StoreUnusable
from bgjob.core.frozen import NOTHING, Frozen, replace
from bgjob.core.job import Running, called
from bgjob.core.late_pattern import late_pattern
from bgjob.home import jobdir, waits
from bgjob.store.record_schema import Malformed, wait_end_of, wait_of
from bgjob.system import processes
from bgjob.system.readiness import is_readable

EndWord = Literal["completed", "failed", "cancelled"]
TYPED_WAIT_S = 1.0
"""How long the answer to a prompt may take to be worked off, before the caller is told that it was typed."""
BUSY_S, LOOK_AGAIN_S = 3.0, 0.05
"""How long an answer to a prompt waits for a busy shim. After less than that the log alone decides."""
LONGEST_SLEEP_S = 2.0
"""Until a look at how the wait stands: another process may have ended it, which wakes nobody."""
LATE_S = 5.0
"""An event is in its log so long after its time at most."""
WAIT_ID = late_pattern(r"[0-9a-f-]{36}(?:\.[1-9][0-9]{0,8})?")
# What a person types here must not go through a model, nor be kept by a client. For programs that show it; a
# terminal that does not show what is typed says so itself, in every language.
SECRET = late_pattern(
    r"(?i)pass ?(?:word|phrase|code)|secret|token|\b(?:pin|otp|2fa|mfa)\b|(?:api|private).?key|one.time|"
    r"(?:verification|authentication|security) code"
)


class WaitNotFound(BgjobError):
    def __init__(self, wait_id: str) -> None:
        super().__init__(f"Task {wait_id[:80]!r} not found: there is no such task, or it was cleaned up.")


class KeptWait(Frozen):
    """What is waited for, and for whom. It never changes."""

    id: str
    job_ids: Sequence[str]
    created_at: float
    deadline: float | None
    """By the wall clock; None: until it is over."""
    deadline_since_boot_s: float | None = None
    """The same by a clock that cannot be set. It counts until the machine is rebooted."""
    boot_id: str | None = None
    until: Mapping[str, Any] = NOTHING
    mode: Mode = "any"
    since: Mapping[str, str] = NOTHING
    max_bytes: int | None = None
    raw: bool = False
    session: str | None = None
    started: Mapping[str, Any] = NOTHING
    """Of a wait that began with the start of its job: reused, asked_command. Empty: it was for jobs there were."""
    kills: bool = False
    """Whoever ends the wait ends the job."""

    @property
    def shown(self) -> Shown:
        return Shown(self.max_bytes, self.raw, view=None)

    @property
    def left_s(self) -> float:
        """Seconds until the deadline."""
        if self.deadline is None:
            return math.inf
        if self.deadline_since_boot_s is not None and self.boot_id and processes.is_this_boot(self.boot_id):
            return self.deadline_since_boot_s - processes.since_boot_s()
        return self.deadline - time.time()


def deadline_in(seconds: float | None) -> dict[str, Any]:
    """Return the fields of a KeptWait that hold its deadline. None: without a deadline."""
    if seconds is None:
        return {"deadline": None}
    since_boot_s = processes.since_boot_s() + seconds
    return {
        "deadline": time.time() + seconds,
        "deadline_since_boot_s": since_boot_s,
        "boot_id": processes.boot_id(),
    }


class Asking(Frozen):
    """A prompt at which a job of the wait sits."""

    key: str
    """Of this prompt alone, in this wait."""
    job_id: str
    called: str
    prompt: str | None
    is_secret: bool


class Look(Frozen):
    """How a wait stands."""

    waited: Sequence[Waited] | None
    """None: it goes on."""
    asking: Sequence[Asking] = ()
    progress: str = ""


class WaitEnd(Frozen):
    word: EndWord
    at: float
    answer: Mapping[str, Any] = NOTHING
    """What the face has answered, as it answered it."""
    told: Sequence[str] = ()
    """Ids of the jobs whose end that says."""


# -- kept -------------------------------------------------------------------------------------------


def keep_wait(context: Context, wait: KeptWait) -> KeptWait:
    """After this it survives whatever happens to us. It gets its id here."""
    home, record = context.store.home, {"format": jobdir.FORMAT_VERSION, **vars(wait)}
    kept = next(
        replace(wait, id=each) for each in _free_ids(wait) if waits.create(home, each, {**record, "id": each})
    )
    for job_id in wait.job_ids if wait.session else ():
        if isinstance(context.store.load(job_id).state, Running):
            expect(context, wait.session, job_id)
    return kept


def _free_ids(wait: KeptWait) -> Iterator[str]:
    """The id of the job, where the wait is for its end; else one that begins with it, where there is one job."""
    if len(wait.job_ids) != 1:
        yield from iter(new_id, None)
    (job_id,) = wait.job_ids
    if not wait.until:
        yield job_id
    yield from (f"{job_id}.{number}" for number in itertools.count(2))


def kept_wait(context: Context, wait_id: str) -> KeptWait:
    """WaitNotFound, or StoreUnusable: whether there is one cannot be known now."""
    try:
        record = waits.read(context.store.home, wait_id) if WAIT_ID.fullmatch(wait_id) else None
    except OSError as problem:
        raise StoreUnusable(
            f"{context.store.home}/{waits.WAITS} cannot be read: {problem.strerror}"
        ) from None
    with contextlib.suppress(Malformed):
        return KeptWait(id=wait_id, **wait_of(record or {}))
    raise WaitNotFound(wait_id)


def wait_end(context: Context, wait: KeptWait) -> WaitEnd | None:
    """None: it goes on, or nobody has looked since it was over. Who asks will tell the session."""
    waits.note_asked(context.store.home, wait.id)
    end = _end_in(waits.ended(context.store.home, wait.id))
    return end and _told(context, wait, end)


def end_wait(context: Context, wait: KeptWait, end: WaitEnd) -> WaitEnd:
    """How it has ended: as we say, or as another process has said."""
    context.live_waits.forget(wait.id)
    home = context.store.home
    return _told(context, wait, _end_in(waits.end(home, wait.id, vars(end))) or end)


def _end_in(record: Mapping[str, Any] | None) -> WaitEnd | None:
    """None also if the record cannot be read."""
    with contextlib.suppress(Malformed):
        return None if record is None else WaitEnd(**wait_end_of(record))
    return None


def _told(context: Context, wait: KeptWait, end: WaitEnd) -> WaitEnd:
    note_told(context, wait.session or None, end.told)
    return end


# -- looked at --------------------------------------------------------------------------------------


def look_at_wait(context: Context, wait: KeptWait, *, asks: bool, is_patient: bool = False) -> Look:
    """`asks`: the caller can ask a person, so a prompt that a person may answer does not end the wait.

    `is_patient`: look again while a shim is too busy to say whether its job is at a prompt.
    """
    waits.note_asked(context.store.home, wait.id)
    with context.live_waits.use(wait.id, lambda: LiveWait(context, wait)) as live:
        live.look()
        busy_until = time.monotonic() + BUSY_S
        while is_patient and live.has_silent_shims and time.monotonic() < busy_until:
            time.sleep(LOOK_AGAIN_S)
            live.look()
        asking = [_asking(context, wait, each) for each in live.asking] if asks else []
        is_asked = bool(asking) and not any(each.is_secret for each in asking) and live.has_only_prompts
        if wait.left_s <= 0 or (live.is_over and not is_asked):
            return Look(live.result(wait.shown))
        return Look(None, asking) if is_asked else Look(None, progress=live.progress())


class LiveWait(Wait):
    """A wait that is kept, as this process looks at it: also at what came true between two looks."""

    def __init__(self, context: Context, wait: KeptWait) -> None:
        super().__init__(context, wait.job_ids, conditions_of(**wait.until), wait.mode, wait.since)
        self._began = self._looked_at = wait.created_at

    def look(self) -> None:
        super().look()
        conditions = self._conditions
        since = max(self._began, self._looked_at - LATE_S - (conditions.silence_s or 0.0))
        self._looked_at = time.time()
        for each in self.jobs:
            each.came = each.came or missed(self._context, each.snapshot, conditions, since)


def _asking(context: Context, wait: KeptWait, awaited: Awaited) -> Asking:
    job = awaited.job
    prompt = prompt_told(context, awaited.snapshot, waits=True)
    is_secret = hides_input(context, job) or (prompt is not None and SECRET.search(prompt) is not None)
    return Asking(_prompt_key(context, wait, awaited), job.id, called(job.spec), prompt, is_secret)


def _prompt_key(context: Context, wait: KeptWait, awaited: Awaited) -> str:
    """Of this prompt alone: by what was printed before it; a job that prints nothing, by what was answered."""
    job_id, printed_bytes = awaited.job.id, awaited.log_end
    answered = [key for key in waits.prompts_taken(context.store.home, wait.id) if key.startswith(job_id)]
    return f"{job_id}.{len(answered) + 1}@{printed_bytes}"


def sleep_until_over(context: Context, wait: KeptWait, cancellation: Cancellation) -> bool:
    """Until a look tells something new, or perhaps earlier. True: it was cancelled."""
    with LiveWait(context, wait) as live:
        live.run(max(0.0, min(wait.left_s, LONGEST_SLEEP_S)), cancellation, None)
        pause_s = BREATHER_S if live.is_over else 0.0
    return is_readable(cancellation.signal.fileno(), pause_s)


# -- steered ----------------------------------------------------------------------------------------


def answer_prompt(context: Context, wait: KeptWait, asking: Asking, text: str) -> None:
    """Types into the job, unless another process has done so."""
    if waits.take_prompt(context.store.home, wait.id, asking.key):
        interact_with_job(context, asking.job_id, Typed(text), wait_s=TYPED_WAIT_S)


def cancel_wait(context: Context, wait: KeptWait) -> None:
    """Ends the wait. The jobs go on, unless the caller had asked for their end with it."""
    is_over = wait_end(context, wait) is not None
    if not is_over and end_wait(context, wait, WaitEnd("cancelled", time.time())).word == "cancelled":
        for job_id in wait.job_ids if wait.kills else ():
            kill_job(context, job_id)

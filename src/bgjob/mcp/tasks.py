"""Calls that become tasks: a wait that goes on after its call has been answered, and what is asked about it."""

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

from bgjob.api import Executed, Jobs, Mode, Waited
from bgjob.api.kept_waits import (
    Asking,
    KeptWait,
    Look,
    WaitEnd,
    WaitNotFound,
    answer_prompt,
    cancel_wait,
    deadline_in,
    end_wait,
    keep_wait,
    kept_wait,
    look_at_wait,
    sleep_until_over,
    wait_end,
)
from bgjob.core.errors import BgjobError, StoreUnusable
from bgjob.core.job import SHORT_ID_CHARACTERS, Running
from bgjob.mcp.answers import failure, plain, success
from bgjob.mcp.caller import Caller
from bgjob.mcp.fields import timestamp
from bgjob.mcp.results import Started, Waits
from bgjob.output.cleaner import without_hidden
from bgjob.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, RpcError
from bgjob.protocol.request import Request
from bgjob.protocol.tasks import Status, Task, form, knows_elicitation, related

Result = Mapping[str, Any]
Made = TypeVar("Made", Started, Waits)

LONGEST_S = 1e9
"""Some decades: a record has times that a calendar has."""
INPUT = {"input": {"type": "string", "title": "Input", "description": "Typed into the job, then Enter"}}


def kept(jobs: Jobs, wait: KeptWait) -> Task:
    """The task that stands for this wait from now on."""
    return _task(keep_wait(jobs.context, wait), "working")


def found(jobs: Jobs, request: Request) -> KeptWait:
    try:
        return kept_wait(jobs.context, request.text("taskId"))
    except WaitNotFound as problem:
        raise RpcError(INVALID_PARAMS, str(problem)) from None
    except StoreUnusable as problem:
        raise RpcError(INTERNAL_ERROR, str(problem)) from None


def seen(jobs: Jobs, wait: KeptWait, request: Request) -> Task:
    """How the task stands. If its wait is over, it is over from now on, whoever asks."""
    if end := wait_end(jobs.context, wait):
        return _ended(wait, end)
    asks = request.is_stateless and knows_elicitation(request)
    try:
        look = look_at_wait(jobs.context, wait, asks=asks)
    except StoreUnusable as problem:  # perhaps not for long
        raise RpcError(INTERNAL_ERROR, str(problem)) from None
    except BgjobError as problem:  # a job was cleaned up
        return _ended(wait, _finish(jobs, wait, failure(str(problem)), ()))
    if look.waited is None:
        return _going_on(wait, look)
    told = [each.status.job.id for each in look.waited if not isinstance(each.status.job.state, Running)]
    return _ended(wait, _finish(jobs, wait, _answer(wait, list(look.waited)), told))


def update(jobs: Jobs, request: Request) -> None:
    """Answers prompts; what is not asked any more is ignored.

    A person who does not want to answer leaves that to the model: the wait ends.
    """
    wait, responses = found(jobs, request), request.params.get("inputResponses")
    if not isinstance(responses, dict):
        raise RpcError(INVALID_PARAMS, "tasks/update needs inputResponses, an object.")
    if wait_end(jobs.context, wait):
        return
    try:
        asked = look_at_wait(jobs.context, wait, asks=True, is_patient=True).asking
        # first all of it: a response that cannot be read must not leave half of them typed
        typed = [(each, _typed(each.key, responses[each.key])) for each in asked if each.key in responses]
        for asking, text in typed:
            if text is not None:
                answer_prompt(jobs.context, wait, asking, text)
        if any(text is None for _, text in typed):
            _end_at_prompt(jobs, wait)
    except BgjobError as problem:
        raise RpcError(INVALID_PARAMS, str(problem)) from None


def cancel(jobs: Jobs, request: Request, scopes: Collection[str] | None) -> None:
    """`scopes`: the rights of the client; None: all."""
    wait = found(jobs, request)
    if wait.started and scopes is not None and "run" not in scopes:
        raise RpcError(INVALID_PARAMS, "This task is part of a start: to cancel it needs the scope run.")
    if wait.kills and scopes is not None and "kill" not in scopes:
        raise RpcError(
            INVALID_PARAMS, "This task ends its job when it is cancelled: that needs the scope kill."
        )
    if not request.is_stateless and (end := wait_end(jobs.context, wait)):
        raise RpcError(INVALID_PARAMS, f"Task {wait.id} cannot be cancelled: it is {end.word}.")
    cancel_wait(jobs.context, wait)


def awaited_result(jobs: Jobs, request: Request, caller: Caller) -> Result:
    """Of a task of the handshake, when it is over."""
    wait = found(jobs, request)
    while not (task := seen(jobs, wait, request)).is_over:
        if sleep_until_over(jobs.context, wait, caller.cancellation):
            raise RpcError(INVALID_REQUEST, "The request was cancelled.")
    if task.result is None:
        raise RpcError(INVALID_PARAMS, f"Task {task.id} has no result: it is {task.status}.")
    return related(task.result, task.id)


def ended_at_once(jobs: Jobs, result: Result) -> Task:
    """A task of the handshake whose call had nothing to wait for."""
    try:
        wait = keep_wait(jobs.context, KeptWait(id="", job_ids=(), created_at=time.time(), deadline=None))
        _finish(jobs, wait, result, ())
    except OSError as problem:
        said = "".join(part.get("text", "") for part in result.get("content", ()))
        raise RpcError(
            INTERNAL_ERROR, f"No task can be kept ({problem.strerror}). The call: {said}"
        ) from None
    return _task(wait, "working")


# -- the two calls that wait ------------------------------------------------------------------------


def of_start(
    jobs: Jobs, ran: Executed, wait_s: float, caller: Caller, *, until: Mapping[str, Any], **how: Any
) -> Started | Task:
    """The answer to a start; if its call may not wait any longer, the task of what it waits for."""
    answer = Started.of(ran)
    if not caller.leaves_wait_behind or ran.waited is None or ran.waited.cut_to_s is None:
        return answer
    how["kills"] = how["kills"] and not ran.reused  # a job of another call goes on
    how |= {"started": {"reused": ran.reused, "asked_command": ran.asked_command}}
    wait = _wait(jobs, caller, [ran.job.id], wait_s or None, until=_given(until), **how)
    return _kept_or(answer, jobs, wait)


def of_wait(
    jobs: Jobs, waited: list[Waited], mode: Mode, timeout_s: float, caller: Caller, **how: Any
) -> Waits | Task:
    answer = Waits.of(waited, mode)
    if not caller.leaves_wait_behind or waited[0].cut_to_s is None:
        return answer
    ids = [each.status.job.id for each in waited]
    how["until"] = _given(how["until"])
    return _kept_or(answer, jobs, _wait(jobs, caller, ids, timeout_s, mode=mode, **how))


def _kept_or(answer: Made, jobs: Jobs, wait: KeptWait) -> Made | Task:
    """Without room on the disk it is no task: the client is answered as one that knows none."""
    try:
        return kept(jobs, wait)
    except OSError:
        return answer


def _wait(jobs: Jobs, caller: Caller, job_ids: list[str], asked_s: float | None, **how: Any) -> KeptWait:
    """A model that waits as long as a call may wants to know the end; one that says how much longer means that."""
    longest_s = jobs.context.settings.max_wait_s
    if caller.keeps_to_time:
        asked_s = longest_s if asked_s is None else asked_s
    elif asked_s is not None and asked_s <= longest_s:
        asked_s = None
    left_s = None if asked_s is None else min(asked_s, LONGEST_S) - (caller.most_s or 0.0)
    how |= {"session": caller.session, **deadline_in(left_s)}
    return KeptWait(id="", job_ids=job_ids, created_at=time.time(), **how)


def _given(until: Mapping[str, Any]) -> dict[str, Any]:
    return {word: value for word, value in until.items() if value is not None and value is not False}


# -- how a task stands ------------------------------------------------------------------------------


def _going_on(wait: KeptWait, look: Look) -> Task:
    if not look.asking:
        return _task(wait, "working", message=without_hidden(look.progress))
    requests = {each.key: form(_question(each), INPUT) for each in look.asking}
    return _task(wait, "input_required", message=_question(look.asking[0]))._replace(input_requests=requests)


def _question(asking: Asking) -> str:
    asks = f"asks: {asking.prompt}" if asking.prompt else "waits for input."
    return without_hidden(f"The job {asking.called} ({asking.job_id[:SHORT_ID_CHARACTERS]}) {asks}")


def _answer(wait: KeptWait, waited: list[Waited]) -> Result:
    """As the call itself would have answered, had it waited until now."""
    if not wait.started:
        return success(plain(Waits.of(waited, wait.mode)))
    (one,) = waited
    met = one.met if wait.until else None
    ran = Executed(one.status.job, waited=one, met=met, place=one.status.place, **wait.started)
    return success(plain(Started.of(ran)))


def _finish(jobs: Jobs, wait: KeptWait, answer: Result, told: Sequence[str]) -> WaitEnd:
    return end_wait(jobs.context, wait, WaitEnd("completed", time.time(), answer, told))


def _ended(wait: KeptWait, end: WaitEnd) -> Task:
    task = _task(wait, end.word, end.at)
    match end.word:
        case "completed":
            return task._replace(result=end.answer)
        case "failed":
            return task._replace(error=end.answer, message=str(end.answer.get("message", "")))
        case "cancelled":
            still = "ended with it" if wait.kills else "goes on"
            return task._replace(message=f"The wait was cancelled; what it was for {still}.")


def _task(wait: KeptWait, status: Status, at: float | None = None, message: str | None = None) -> Task:
    """Of a wait that goes on, what has changed last is how far it is: that is now."""
    updated = timestamp(time.time() if at is None else at)
    return Task(wait.id, status, timestamp(wait.created_at), updated, message or None)


# -- prompts ----------------------------------------------------------------------------------------


def _typed(key: str, response: object) -> str | None:
    """None: the person does not want to answer."""
    if not isinstance(response, dict) or not isinstance(response.get("action"), str):
        raise RpcError(INVALID_PARAMS, f"The response to {key[:80]!r} must be an object with an action.")
    if response["action"] != "accept":
        return None
    content = response.get("content")
    text = content.get("input") if isinstance(content, dict) else None
    if not isinstance(text, str):
        raise RpcError(INVALID_PARAMS, f"The response to {key[:80]!r} must have content with input, a text.")
    return text


def _end_at_prompt(jobs: Jobs, wait: KeptWait) -> None:
    look = look_at_wait(jobs.context, wait, asks=False)
    if look.waited is not None:
        _finish(jobs, wait, _answer(wait, list(look.waited)), ())

"""`bgjob hook CLIENT [EVENT]`: a hook of a client, which tells its model that jobs of its session have ended.

The client's JSON is on stdin, and the answer has the client's form. Whatever goes wrong, the hook is silent and
its exit code is 0: a client must not be blocked by it. Most calls have nothing to tell, so what is needed to
tell is imported only then.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from bgjob.home import sessions
from bgjob.home.home_dir import home_from
from bgjob.home.layout import is_directory
from bgjob.system.client_session import CLAUDE_SESSION, client_process, shortened

INPUT_MAX_BYTES = 64 << 20
RUNS = ("running", "queued")
FORGOTTEN = ("compact", "resume")
"""Sources of a SessionStart after which the model may not know what it has started."""
TOLD_BY_STDERR = 2
"""The exit code by which a hook with asyncRewake wakes Claude Code."""


class Call(NamedTuple):
    """One call of a hook."""

    event: str
    given: Mapping[str, Any]
    environ: Mapping[str, str]
    home: str
    names: Sequence[str]
    """Sessions whose jobs are those of the client."""

    def ended(self, among: Iterable[str] | None = None) -> dict[str, str]:
        """Jobs whose end is untold, and the session of each."""
        wanted = None if among is None else set(among)
        found = {job_id: name for name in self.names for job_id in sessions.ended(self.home, name)}
        return {job_id: name for job_id, name in found.items() if wanted is None or job_id in wanted}

    def running(self, among: Iterable[str] | None = None) -> dict[str, str]:
        expected = {
            job_id: name for job_id, name in self.expected().items() if among is None or job_id in among
        }
        return {
            job_id: name
            for job_id, name in expected.items()
            if sessions.outcome_of(self.home, job_id) is None
        }

    def expected(self) -> dict[str, str]:
        return {job_id: name for name in self.names for job_id in sessions.expected(self.home, name)}


Answer = Callable[[Call], int]
"""Answers one kind of event; its exit code."""


def run(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """`arguments`: those after `hook`."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
    try:
        return _answer(arguments, environ)
    except Exception:  # noqa: BLE001 - the client would show it to its user, or not go on
        return 0


def _answer(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    client, event = (*arguments, "", "")[:2]
    given = json.loads(sys.stdin.buffer.read(INPUT_MAX_BYTES) or b"{}")
    event = event or given.get("hook_event_name", "")
    answer, home = EVENTS[client][event], os.path.realpath(home_from(environ))
    if not is_directory(f"{home}/{sessions.SESSIONS}"):
        return 0
    named = given.get("session_id") or (environ.get(CLAUDE_SESSION) if client == "claude" else None)
    return answer(Call(event, given, environ, home, _names(home, named)))


def _names(home: str, named: object) -> list[str]:
    """The session by its own name, by that which its server knows, or the client's process."""
    process = client_process()
    known = sessions.known_to_server(home, process) if process else None
    names = (shortened(name) for name in (named, known, process) if isinstance(name, str))
    return list(dict.fromkeys(names))


# -- what is told -----------------------------------------------------------------------------------


def _tell(
    call: Call,
    ended: Mapping[str, str],
    deliver: Callable[[str], object],
    only_with: Collection[str] | None = None,
) -> bool:
    """False: there was nothing to tell. (tell_ends)"""
    if not ended:
        return False
    from bgjob.store.store import Store
    from bgjob.watch.ends import tell_ends

    return tell_ends(Store(call.home), ended, deliver, only_with)


def _lines_of_running(call: Call) -> list[str]:
    """Which jobs sit at a prompt that is untold; and which jobs run, if the model may have forgotten it."""
    running = call.running(_job_ids(call))
    if not running:
        return []
    from bgjob.cli.hook_prompts import untold_prompts

    asking, is_forgotten = untold_prompts(call.home, running), call.given.get("source") in FORGOTTEN
    if not asking and not is_forgotten:
        return []
    from bgjob.store.store import Store
    from bgjob.watch.ends import prompt_line, running_line

    store = Store(call.home)
    still = [running_line(store, list(running))] if is_forgotten else []
    return [line for line in (*(prompt_line(store, job_id) for job_id in asking), *still) if line]


def _has_failed(call: Call, job_id: str) -> bool:
    """Not a job that a caller has killed: that was wanted."""
    outcome = sessions.outcome_of(call.home, job_id) or {}
    return outcome.get("cause") != "killed" and (outcome.get("cause"), outcome.get("exit_code")) != (
        "exited",
        0,
    )


# -- the kinds of events ----------------------------------------------------------------------------


def _add_context(call: Call) -> int:
    """What the model reads with what comes next."""

    def deliver(text: str) -> None:
        told = {"hookEventName": call.event, "additionalContext": text}
        _print(json.dumps({"hookSpecificOutput": told}))

    _tell_all(call, call.ended(), _lines_of_running(call), deliver)
    return 0


def _begin_in_gemini(call: Call) -> int:
    """Gemini CLI gives its model nothing of what a hook says after /clear: that is told with the next prompt."""
    return 0 if call.given.get("source") == "clear" else _add_context(call)


def _tell_all(
    call: Call, ended: Mapping[str, str], lines: Sequence[str], deliver: Callable[[str], object]
) -> None:
    if not _tell(call, ended, lambda text: deliver("\n".join([text, *lines]))) and lines:
        deliver("\n".join(lines))


def _stop(call: Call, decision: str) -> int:
    """The model goes on if this tells it of a failure; it did not if it was stopped by us before."""
    ended = call.ended()
    failed = {job_id for job_id in ended if _has_failed(call, job_id)}
    if failed and not call.given.get("stop_hook_active"):
        _tell(call, ended, lambda text: _print(json.dumps({"decision": decision, "reason": text})), failed)
    return 0


def _tell_plainly(call: Call) -> int:
    _tell_all(call, call.ended(_job_ids(call)), _lines_of_running(call), _print)
    return 0


def _job_ids(call: Call) -> list[str] | None:
    """Only these jobs, if the client says so."""
    job_ids = call.given.get("job_ids")
    return [each for each in job_ids if isinstance(each, str)] if isinstance(job_ids, list) else None


def _wait_plainly(call: Call) -> int:
    """Until a job ends, of those that there are then; at once if none runs."""
    from bgjob.cli.hook_wait import wait_for_ends

    wait_for_ends(call, _job_ids(call), lambda ended: _tell(call, ended, _print))
    return 0


def _wait_and_wake(call: Call) -> int:
    """Until a job of the answer ends. In a client that nobody attends, the call itself would wait."""
    if not _is_attended(call.environ):
        return 0
    running = [job_id for job_id in _running_in(call.given.get("tool_response")) if job_id in call.expected()]
    if not running:
        return 0
    from bgjob.cli.hook_wait import wait_for_ends

    def tell(ended: Mapping[str, str]) -> bool:
        """With the job of this hook all others that have ended: their own hooks then have nothing to tell."""
        return bool(ended) and _tell(call, call.ended(), lambda text: _print(text, sys.stderr.fileno()))

    return TOLD_BY_STDERR if wait_for_ends(call, running, tell) else 0


def _is_attended(environ: Mapping[str, str]) -> bool:
    attended = environ.get("CLAUDE_CODE_SESSION_ATTENDED")
    return attended == "1" if attended is not None else environ.get("CLAUDE_CODE_ENTRYPOINT") == "cli"


def _running_in(response: object) -> list[str]:
    """Ids of the jobs that ran when the tool answered. A client gives the answer as JSON, content or text."""
    if isinstance(response, str):
        try:
            return _running_in(json.loads(response)) if response.lstrip()[:1] in ("{", "[") else []
        except (ValueError, RecursionError):
            return []
    if isinstance(response, list):
        return [job_id for part in response if isinstance(part, dict) for job_id in _running_in(part)]
    if not isinstance(response, dict):
        return []
    inside = [response.get(word) for word in ("structuredContent", "content", "text", "jobs")]
    own = (
        [response["job_id"]]
        if response.get("status") in RUNS and isinstance(response.get("job_id"), str)
        else []
    )
    return list(dict.fromkeys([*own, *(job_id for part in inside for job_id in _running_in(part))]))


def _print(text: str, fd: int | None = None) -> None:
    """Whole, or OSError: then it is told the next time."""
    data = memoryview(f"{text}\n".encode("utf-8", "replace"))
    while data:
        data = data[os.write(sys.stdout.fileno() if fd is None else fd, data) :]


def _block(call: Call) -> int:
    return _stop(call, "block")


def _deny(call: Call) -> int:
    return _stop(call, "deny")


EVENTS: Mapping[str, Mapping[str, Answer]] = {
    "claude": {
        "SessionStart": _add_context,
        "UserPromptSubmit": _add_context,
        "PostToolUse": _wait_and_wake,
        "Stop": _block,
    },
    "codex": {
        "SessionStart": _add_context,
        "UserPromptSubmit": _add_context,
        "PostToolUse": _add_context,
        "Stop": _block,
    },
    "gemini": {
        "SessionStart": _begin_in_gemini,
        "BeforeAgent": _add_context,
        "AfterTool": _add_context,
        "AfterAgent": _deny,
    },
    "opencode": {"session.idle": _tell_plainly, "wait": _wait_plainly},
}

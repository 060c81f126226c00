"""Asking the relay of a target: one JSON line to its socket, one back. It is started if it does not run."""

import time
from collections.abc import Mapping
from typing import Any

from bgjob.core.errors import TargetUnreachable
from bgjob.home import target_dir
from bgjob.link.control import NoShim, ShimConnection
from bgjob.remote.codec import unpack_error

START_PATIENCE_S, LOOK_AGAIN_S = 10.0, 0.01
ANSWER_S = 60.0


class NoAnswer(TargetUnreachable):
    """Of the relay: what became of the request is not known."""


class NotUnderstood(TargetUnreachable):
    """The relay does not know the request: an older version has started it."""


def ask_relay(
    home: str, target: str, environ: Mapping[str, str], patience_s: float = ANSWER_S, **request: object
) -> dict[str, Any]:
    """BgjobError: what the target, or the relay, has to say against it. TargetUnreachable: nothing was asked."""
    try:
        with _connected(home, target, environ, min(START_PATIENCE_S, patience_s)) as relay:
            relay.send(patience_s, b"", **request)
            answer = relay.receive(patience_s)
    except NoShim as error:
        raise NoAnswer(target, f"its relay has ended: {error}", trouble="relay_gone") from None
    except TimeoutError:
        raise NoAnswer(target, f"no answer within {patience_s:g} s", trouble="no_answer") from None
    return _understood(target, str(request["op"]), answer)


def _understood(target: str, operation: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    from bgjob.remote.messages import FAILURE, RELAY_ANSWERS, checked  # here: they do not travel to hosts
    from bgjob.store.record_schema import Malformed

    try:
        if "failure" in answer:
            raise unpack_error(checked(FAILURE, answer["failure"]))
        if not answer.get("ok"):
            raise NotUnderstood(target, f"its relay cannot do that: {answer.get('error')}")
        told: dict[str, Any] = checked(RELAY_ANSWERS[operation], answer.get("answer"))
    except Malformed as problem:
        raise NoAnswer(target, f"its relay answered nonsense ({problem})") from None
    return told


def _connected(home: str, target: str, environ: Mapping[str, str], patience_s: float) -> ShimConnection:
    deadline, started_at = time.monotonic() + patience_s, 0.0
    while True:
        try:
            return ShimConnection(f"{target_dir.directory(home, target)}/{target_dir.CONTROL}")
        except (NoShim, TimeoutError) as error:
            if time.monotonic() > deadline:
                why = f"its relay does not answer: {error}"
                raise TargetUnreachable(target, why, trouble="relay_gone") from None
        if not target_dir.has_relay(home, target) and time.monotonic() > started_at + 1.0:
            target_dir.start_relay(home, target, environ)
            started_at = time.monotonic()
        time.sleep(LOOK_AGAIN_S)

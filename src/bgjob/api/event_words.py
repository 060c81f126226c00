"""What happened to a job, in a few words that follow its name."""

from collections.abc import Callable, Mapping
from typing import Any

from bgjob.api.audit import KNOWN
from bgjob.api.results import JobEvent
from bgjob.core.values import duration_words
from bgjob.home.jobdir import how_ended

Details = Mapping[str, Any]


def what_happened(event: JobEvent) -> str:
    """Its text comes from anywhere: it may have any characters."""
    word = WORDS.get(event.kind)
    return word(event.details) if word else _as_it_is(event)


def _as_it_is(event: JobEvent) -> str:
    """Of a kind that another version tells."""
    return " ".join([event.kind, *(f"{name}={value}" for name, value in event.details.items())])


def _ended(details: Details) -> str:
    how, took = how_ended(dict(details)), details.get("duration_s")
    if details.get("cause") == "signaled":
        how = f"was killed by {details.get('signal')}"
    why = f": {details['reason']}" if details.get("reason") else ""
    return how + (f" after {duration_words(took)}" if isinstance(took, int | float) and not why else why)


def _matched(details: Details) -> str:
    left_out = f" (and {details['suppressed']} more lines)" if details.get("suppressed") else ""
    return f"matched {details.get('pattern', '')}: {details.get('line', '')}".removesuffix(": ") + left_out


def _restarting(details: Details) -> str:
    ended = next(
        (f"after {_of_run(word, details[word])}" for word in ("exit_code", "signal") if word in details), ""
    )
    return " ".join(filter(None, (f"restarts ({details.get('restart')})", ended, _pause(details))))


def _of_run(word: str, value: object) -> str:
    return f"exit code {value}" if word == "exit_code" else str(value)


def _pause(details: Details) -> str:
    return f"in {duration_words(details['in_s'])}" if isinstance(details.get("in_s"), int | float) else ""


def _limit(verb: str) -> Callable[[Details], str]:
    return lambda details: (
        f"{verb} its {details.get('limit')} limit: {details.get('used')} of {details.get('of')}"
    )


def _input(details: Details) -> str:
    return f"waits for input: {details.get('prompt') or ''}".removesuffix(": ")


def _audited(action: str, *words: str) -> Callable[[Details], str]:
    """Return what words an entry of the audit trail: the action, and all that is known of its actor."""

    def sentence(details: Details) -> str:
        done = action.format(", ".join(str(details[word]) for word in words if word in details))
        times = f" ({details['repeated']} more times)" if details.get("repeated") else ""
        user = f"uid {details['uid']}" if "uid" in details else "an unknown user"
        known = [f"{word} {details[word]}" for word in KNOWN if word in details]
        return f"{done} by {', '.join([user, *known])}{times}"

    return sentence


WORDS: Mapping[str, Callable[[Details], str]] = {
    "started": lambda details: "started" + (f" (pid {details['pid']})" if details.get("pid") else ""),
    "queued": lambda details: (
        "queued" + (f" with priority {details['priority']}" if details.get("priority") else "")
    ),
    "moved": lambda details: f"has priority {details.get('priority')} now",
    "ended": _ended,
    "input": _input,
    "matched": _matched,
    "unwatched": lambda details: f"printed {details.get('bytes')} bytes that were not watched",
    "restarting": _restarting,
    "typed": lambda details: f"{details.get('by')} typed {details.get('bytes')} bytes",
    "limit_near": _limit("is near"),
    "limit_hit": _limit("is over"),
    "kill_asked": _audited("kill requested with signal {}", "signal"),
    "signal_sent": _audited("signal {} sent", "signal"),
    "input_sent": _audited("{} bytes typed", "bytes"),
    "refused": _audited("request refused ({}): made", "why", "needed", "address"),
    "logged_in": _audited("logged in"),
    "token_used": _audited("token used"),
}

"""Telling a person what happens to jobs: the ways, the kinds, and the rules that join the two.

    desktop    a notification on the desktop          end        a job has ended
    bell       the bell of a terminal                 failure    a job has ended and not completed
    webhook    a POST to a URL                        question   a job sits at a prompt

A rule is the user's, and is kept in the home. A job may choose among the ways that have a rule. It names no
URL and no terminal: what a model writes decides where nothing is sent to.
"""

from collections.abc import Mapping, Sequence

from bgjob.core.frozen import NOTHING, Frozen
from bgjob.core.job import Event

WAYS = ("desktop", "bell", "webhook")
KINDS = ("end", "failure", "question")
DEFAULT_KINDS = ("failure", "question")
OFF = "off"
ACCEPTED = f"{OFF}, or some of {', '.join(WAYS)}, each alone or as way:kind+kind of {', '.join(KINDS)}"

Notify = Mapping[str, Sequence[str]]
"""What a job chose: the kinds for each way, none for those of the rule. Empty: the job is told of by no way."""


class NotifyRule(Frozen):
    """A way, and the kinds that it is for."""

    way: str
    target: str = ""
    """The URL of a webhook, the terminal of a bell."""
    kinds: Sequence[str] = DEFAULT_KINDS
    named: bool = False
    """True: only for jobs that name the way. False: for all that do not choose otherwise."""
    headers: Mapping[str, str] = NOTHING
    """Of a webhook's request; the values may be secrets."""
    environment: Mapping[str, str] = NOTHING
    """Of the process that delivers: e.g. how it finds the desktop."""
    terminal_ctime_ns: int = 0
    """Of a bell: when its terminal was made. The name of a closed terminal is given to the next one."""
    since: str = "0.0"
    """A cursor: events before it are older than the rule."""

    @property
    def key(self) -> str:
        """What it is called by: there is one rule for each way and target."""
        return f"{self.way} {self.target}".rstrip()

    def kinds_for(self, notify: Notify | None) -> Sequence[str]:
        """Of the events of a job that chose so."""
        if notify is None:
            return () if self.named else self.kinds
        return (notify[self.way] or self.kinds) if self.way in notify else ()

    def kind_told(self, event: Event, notify: Notify | None) -> str | None:
        """As which kind the event is told; None: it is not."""
        kinds = kinds_of(event)
        return kinds[0] if set(kinds) & set(self.kinds_for(notify)) else None


def kinds_of(event: Event) -> Sequence[str]:
    """The kinds that an event is of, the narrowest first."""
    if event["kind"] == "input":
        return ("question",)
    if event["kind"] != "ended":
        return ()
    is_completed = event.get("cause") == "exited" and event.get("exit_code") == 0
    return ("end",) if is_completed else ("failure", "end")


def kinds_from(value: object) -> list[str]:
    """Of a text such as end,failure. ValueError: one of them is none."""
    words = [word.strip() for word in str(value).replace("+", ",").split(",")]
    if not all(word in KINDS for word in words):
        raise ValueError
    return [kind for kind in KINDS if kind in words]


def notify_from(value: object) -> dict[str, list[str]]:
    """Of a text such as desktop,webhook:end+failure, or of a list of such. ValueError: it is none."""
    if value == OFF:
        return {}
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, list) or not words:
        raise ValueError
    return dict(map(_choice, words))


def _choice(word: object) -> tuple[str, list[str]]:
    way, colon, kinds = str(word).strip().partition(":")
    if way not in WAYS:
        raise ValueError
    return way, kinds_from(kinds) if colon else []

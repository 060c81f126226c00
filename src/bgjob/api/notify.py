"""The rules by which a person is told of jobs: add, show, remove, try out. For the command line alone.

No tool of the MCP server calls this: where notices are sent to is the user's choice, and no model's.
"""

import re
import subprocess
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from bgjob.api.context import Context, ensure_watcher
from bgjob.api.start import HOOK_VARIABLES
from bgjob.core.errors import InvalidArgument
from bgjob.core.frozen import Frozen
from bgjob.core.job import Running
from bgjob.core.notify import DEFAULT_KINDS, WAYS, NotifyRule
from bgjob.home import event_log, watch_registry
from bgjob.store import notify_rules
from bgjob.store.notify_rules import Notified
from bgjob.system.own_argv import DELIVERY
from bgjob.watch import deliver
from bgjob.watch.notice import Notice
from bgjob.watch.notifier import failure_of, request_for, timeout_s

MOST_RULES = 20
MOST_URL_CHARACTERS = 2000
HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
# Beside those of a hook: which certificates the system trusts.
VARIABLES = (*HOOK_VARIABLES, "SSL_CERT_FILE", "SSL_CERT_DIR")
TEST = Notice(
    "bgjob: a test",
    "This is how you are told of a job.",
    {"kind": "test", "text": "bgjob: a test. This is how you are told of a job."},
)


class RuleState(Frozen):
    rule: NotifyRule
    problem: str | None
    """Why it cannot work here and now, as far as can be seen without sending anything."""
    notified: Notified


class Tried(Frozen):
    rule: NotifyRule
    failure: str | None
    """None: the test was delivered."""


def add_rule(
    context: Context,
    way: str,
    target: str = "",
    kinds: Sequence[str] = DEFAULT_KINDS,
    headers: Mapping[str, str] | None = None,
    *,
    named: bool = False,
) -> RuleState:
    """From now on, also for jobs that run. In place of a rule for the same way and target."""
    _check(way, target, headers or {})
    store = context.store
    rule = NotifyRule(
        way,
        target,
        list(kinds),
        named,
        headers=dict(headers or {}),
        environment={name: value for name, value in context.environment.items() if name in VARIABLES},
        terminal_ctime_ns=_terminal_ctime_ns(target) if way == "bell" else 0,
        since=str(event_log.end(store.events)),
    )
    others = [each for each in notify_rules.rules_or_error(store.home) if each.key != rule.key]
    if len(others) >= MOST_RULES:
        raise InvalidArgument(f"There are {MOST_RULES} rules already.", "bgjob notify remove takes one away.")
    notify_rules.add(store.home, rule)
    _include_running(context, rule)
    return RuleState(rule, problem_of(rule), Notified())


def _include_running(context: Context, rule: NotifyRule) -> None:
    for _, job in context.store.jobs():
        if isinstance(job.state, Running) and rule.kinds_for(job.spec.notify):
            watch_registry.add(context.store.home, job.id)
    ensure_watcher(context)


def rule_states(context: Context) -> list[RuleState]:
    rules, known = notify_rules.rules_or_error(context.store.home), notify_rules.notified(context.store.home)
    return [RuleState(rule, problem_of(rule), known.get(rule.key, Notified())) for rule in rules]


def unused_ways(context: Context) -> list[RuleState]:
    """Ways without a rule, each as a rule that is not kept."""
    used = {rule.way for rule in notify_rules.rules_or_error(context.store.home)}
    rules = [NotifyRule(way, environment=context.environment) for way in WAYS if way not in used]
    return [RuleState(rule, problem_of(rule), Notified()) for rule in rules]


def remove_rules(context: Context, word: str) -> list[NotifyRule]:
    """All of a way, or the one for this URL or terminal."""
    meant = _meant(context, word)
    notify_rules.remove(context.store.home, [rule.key for rule in meant])
    return meant


def try_rules(context: Context, word: str | None = None) -> list[Tried]:
    """Deliver a test now, as the watcher would, and wait for the result."""
    return [Tried(rule, _failure(rule)) for rule in _meant(context, word)]


def problem_of(rule: NotifyRule) -> str | None:
    try:
        deliver.check(rule)
    except deliver.Undeliverable as why:
        return str(why)
    return None


def _meant(context: Context, word: str | None) -> list[NotifyRule]:
    rules = notify_rules.rules_or_error(context.store.home)
    meant = [rule for rule in rules if word in (None, rule.way, rule.target)]
    if not meant:
        what = f"There is no rule for {word!r}." if word else "There is no rule."
        raise InvalidArgument(what, "bgjob notify shows the rules, bgjob notify add makes one.")
    return meant


def _failure(rule: NotifyRule) -> str | None:
    try:
        done = subprocess.run(
            DELIVERY,
            input=request_for(rule, TEST),
            env=dict(rule.environment),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=timeout_s(rule),
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it took more than {timeout_s(rule):.0f} s"
    return failure_of(f"ended with {done.returncode}", done.stderr) if done.returncode else None


# -- what is accepted -------------------------------------------------------------------------------


def _check(way: str, target: str, headers: Mapping[str, str]) -> None:
    if way == "webhook":
        _check_url(target)
    elif headers:
        raise InvalidArgument(f"header does not go with {way}.", "Only a webhook has headers.")
    elif way == "desktop" and target:
        raise InvalidArgument(f"desktop takes no {target!r}.", "Only a webhook has a URL.")
    for name, value in headers.items():
        if not (HEADER_NAME.fullmatch(name) and value.isascii() and value.isprintable()):
            raise InvalidArgument(
                f"{name[:40]!r} is no header.", "Give NAME=VALUE, of ASCII characters that can be seen."
            )


def _terminal_ctime_ns(path: str) -> int:
    try:
        return deliver.terminal_ctime_ns(path)
    except deliver.Undeliverable as why:
        raise InvalidArgument(
            f"{why}.", "Give the path of one of your terminals, as tty prints it."
        ) from None


def _check_url(url: str) -> None:
    advice = "Give one such as https://example.org/hook."
    if not (url.isascii() and url.isprintable() and " " not in url and len(url) <= MOST_URL_CHARACTERS):
        raise InvalidArgument("webhook needs a URL of ASCII characters without blanks.", advice)
    if "@" in url.partition("//")[2].partition("/")[0]:
        raise InvalidArgument(
            "A URL with a name or password in it is not accepted.", "Give --header Authorization=VALUE."
        )
    if not _can_be_called(url):
        raise InvalidArgument(f"{url[:100]!r} is no URL that can be called.", advice)


def _can_be_called(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and parts.port != 0
            and not parts.fragment
        )
    except ValueError:
        return False

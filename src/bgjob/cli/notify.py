"""bgjob notify: how a person is told of jobs."""

import argparse
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from bgjob.api.context import open_context
from bgjob.cli import streams
from bgjob.cli.arguments import pair
from bgjob.cli.ourselves import own_terminal
from bgjob.core.errors import InvalidArgument
from bgjob.core.notify import DEFAULT_KINDS, KINDS, WAYS, NotifyRule, kinds_from
from bgjob.output.tty_text import one_line

if TYPE_CHECKING:
    from bgjob.api.context import Context
    from bgjob.api.notify import RuleState

KINDS_SHOWN = (
    "end: a job has ended.  failure: it has ended and not completed.  question: it sits at a prompt."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", dest="action")
    _add_add(actions.add_parser("add", help="be told of jobs this way", epilog=KINDS_SHOWN))
    remove = actions.add_parser("remove", help="... and no longer")
    remove.add_argument(
        "word", metavar="WAY|URL", help="all rules of a way, or that for this URL or terminal"
    )
    test = actions.add_parser("test", help="send a notice now, and say what became of it")
    test.add_argument("word", nargs="?", metavar="WAY|URL", help="by these rules alone (default: by all)")


def _add_add(add: argparse.ArgumentParser) -> None:
    add.add_argument("way", choices=WAYS)
    add.add_argument("url", nargs="?", default="", metavar="URL", help="of a webhook: http or https")
    add.add_argument(
        "--on",
        type=_kinds,
        default=list(DEFAULT_KINDS),
        metavar="KINDS",
        help=f"some of {','.join(KINDS)} (default: {','.join(DEFAULT_KINDS)})",
    )
    add.add_argument("--tty", metavar="PATH", help="the terminal of a bell (default: this one)")
    add.add_argument(
        "--header",
        action="append",
        default=[],
        type=pair,
        metavar="NAME=VALUE",
        help="of a webhook's request; may be repeated",
    )
    add.add_argument(
        "--named", action="store_true", help="only for jobs that name it, e.g. bgjob run --notify desktop"
    )


def _kinds(text: str) -> list[str]:
    try:
        return kinds_from(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not accepted: give some of {','.join(KINDS)}, e.g. end,question"
        ) from None


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    actions = {None: _show, "add": _add, "remove": _remove, "test": _test}
    return actions[options.action](open_context(environ, many=False), options)


def _show(context: "Context", _options: argparse.Namespace) -> int:
    from bgjob.api.notify import rule_states, unused_ways

    for state in rule_states(context):
        for line in _lines(state):
            streams.say(one_line(line))
    for state in unused_ways(context):
        streams.say(f"{state.rule.way}: no rule" + (f" ({one_line(state.problem)})" if state.problem else ""))
    return 0


def _lines(state: "RuleState") -> Iterator[str]:
    yield _sentence(state.rule)
    if state.problem:
        yield f"  does not work here: {state.problem}"
    for name in state.rule.headers:
        yield f"  header {name}: (not shown)"
    if state.notified.told_at:
        yield f"  last told: {_time(state.notified.told_at)}"
    if state.notified.failed_at:
        yield f"  last error: {_time(state.notified.failed_at)}: {state.notified.failure}"


def _sentence(rule: NotifyRule) -> str:
    return f"{rule.key}: on {', '.join(rule.kinds)}" + (" of jobs that name it" if rule.named else "")


def _time(at: float) -> str:
    return time.strftime("%F %T", time.localtime(at))


def _add(context: "Context", options: argparse.Namespace) -> int:
    from bgjob.api.notify import add_rule

    if options.way != "webhook" and options.url:
        raise InvalidArgument(f"{options.way} has no URL.", "Only a webhook has one.")
    target = (options.tty or _this_terminal()) if options.way == "bell" else options.url
    state = add_rule(context, options.way, target, options.on, dict(options.header), named=options.named)
    streams.tell(one_line(_sentence(state.rule)), done=f"{state.rule.way} was added")
    if state.problem:
        streams.note(f"(does not work here yet: {one_line(state.problem)})")
    return 0


def _this_terminal() -> str:
    if terminal := own_terminal():
        return terminal
    raise InvalidArgument("There is no terminal here.", "Give its path: --tty, as tty prints it.")


def _remove(context: "Context", options: argparse.Namespace) -> int:
    from bgjob.api.notify import remove_rules

    for rule in remove_rules(context, options.word):
        streams.tell(one_line(f"{rule.key} removed"), done=f"{rule.way} was removed")
    return 0


def _test(context: "Context", options: argparse.Namespace) -> int:
    from bgjob.api.notify import try_rules

    tried = try_rules(context, options.word)
    for each in tried:
        streams.say(one_line(f"{each.rule.key}: {each.failure or 'delivered'}"))
    return 1 if any(each.failure for each in tried) else 0

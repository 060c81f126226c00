"""Targets in lines for a person: how each stands, what is free there, and its nodes."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from bgjob.api.target_nodes import amounts
from bgjob.api.targets import TargetStatus
from bgjob.cli.amounts import size
from bgjob.cli.colours import Paint, plain
from bgjob.cli.table import Column, Row, fitted, piped
from bgjob.output.tty_text import one_line

WORD_COLUMNS = 8
MOST_NODES = 8
"""Of a target that was not asked for by its name."""
INDENT = "  "
WORDS = {"cpus": "CPUs", "gpus": "GPUs", "memory_bytes": "memory"}
COLUMNS = (
    Column("NODE", 0),
    Column("STATE", 1),
    Column("CPUS FREE", 2, is_right=True),
    Column("GPUS FREE", 2, is_right=True),
    Column("MEMORY FREE", 3, is_right=True),
    Column("LOAD", 4, is_right=True),
    Column("LABELS", 5, least=10, most=60),
)

Node = Mapping[str, Any]


def lines(
    found: Sequence[TargetStatus], room: int | None, paint: Paint = plain, *, with_all_nodes: bool = False
) -> Iterator[str]:
    for number, status in enumerate(found):
        if number:
            yield ""
        yield from _target(status, room, paint, None if with_all_nodes else MOST_NODES)


def _target(status: TargetStatus, room: int | None, paint: Paint, most: int | None) -> Iterator[str]:
    yield paint(one_line(f"{status.name}  {status.kind}, {status.place}"), "bold")
    for word, text, style in _facts(status):
        yield f"{INDENT}{paint(word.ljust(WORD_COLUMNS), 'dim')}{paint(one_line(text), style)}"
    shown = status.nodes[:most]
    if shown:
        yield from _nodes(shown, room, paint)
    if len(status.nodes) > len(shown):
        yield f"{INDENT}and {len(status.nodes) - len(shown)} more: bgjob targets {status.name}"


def _facts(status: TargetStatus) -> Iterator[tuple[str, str, str]]:
    yield ("state", *_state(status))
    if status.advice:
        yield "next", status.advice, ""
    if status.description:
        yield "about", status.description, ""
    if status.running or status.queued:
        yield "jobs", f"{status.running} running, {status.queued} queued, of yours", ""
    if status.queue:
        yield "queue", ", ".join(f"{count} {word}" for word, count in status.queue.items()), ""
    if free := amounts(status.nodes, "free"):
        total = amounts(status.nodes)
        yield "free", ", ".join(_share(name, free[name], total.get(name)) for name in free), ""


def _state(status: TargetStatus) -> tuple[str, str]:
    if status.reachable:
        return "reachable", "green"
    since = f" since {time.strftime('%F %R', time.localtime(status.since))}" if status.since else ""
    if status.reachable is None:
        return f"not known: {status.why}", "yellow"
    return f"unreachable{since}: {status.why}", "red"


def _share(name: str, free: float, total: float | None) -> str:
    amount = size if name == "memory_bytes" else _number
    of = "" if total is None else f" of {amount(total)}"
    return f"{amount(free)}{of} {WORDS[name]}"


def _nodes(nodes: Sequence[Node], room: int | None, paint: Paint) -> Iterator[str]:
    rows = [Row(_cells(node), ["" if node["is_up"] else "red"] * len(COLUMNS)) for node in nodes]
    table = piped(COLUMNS, rows, paint) if room is None else fitted(COLUMNS, rows, room - len(INDENT), paint)
    yield from (INDENT + line for line in table)


def _cells(node: Node) -> list[str]:
    load = node.get("load")
    return [
        one_line(str(node.get("node", ""))),
        one_line(str(node["state"])),
        _free_of(node.get("cpus_free"), node.get("cpus"), _number),
        _free_of(node.get("gpus_free"), node.get("gpus"), _number),
        _free_of(node.get("memory_free_bytes"), node.get("memory_bytes"), size),
        "" if load is None else f"{load:.1f}",
        one_line(",".join(node.get("labels", ()))),
    ]


def _free_of(free: float | None, total: float | None, amount: Callable[[float], str]) -> str:
    """30 of 32; or what is known of it."""
    known = [amount(each) for each in (free, total) if each is not None]
    return " of ".join(known) if any((free, total)) else ""


def _number(value: float) -> str:
    return f"{value:g}"

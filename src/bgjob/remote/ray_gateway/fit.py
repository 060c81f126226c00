"""What a job asks of a Ray cluster, in Ray's words; and whether a node has it. Pure.

A request: {"cpus": 1.5, "gpus": 1, "memory_bytes": N, "labels": {name: selector}, "custom": {resource: amount}}, all
optional. A node: {"node": ADDRESS, "total": {resource: amount}, "free": {...}, "labels": {name: value}}.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Request = Mapping[str, Any]
Node = Mapping[str, Any]

# A bundle cannot be empty: of a job that asks for nothing, this much.
LEAST_CPUS = 0.001
LEAST_OF_A_NODE = 0.001
GIB = 1 << 30


def bundle(request: Request, node: str | None = None) -> dict[str, float]:
    """The amounts, by the names of Ray; on this node alone, if one is given: each node has a resource of its name."""
    asked = {
        "CPU": float(request.get("cpus", 1)),
        "GPU": float(request.get("gpus") or 0),
        "memory": float(request.get("memory_bytes") or 0),
        **{name: float(amount) for name, amount in (request.get("custom") or {}).items()},
    }
    amounts = {name: amount for name, amount in asked.items() if amount > 0} or {"CPU": LEAST_CPUS}
    return amounts | ({f"node:{node}": LEAST_OF_A_NODE} if node else {})


def labels(request: Request) -> dict[str, str]:
    return {name: str(selector) for name, selector in (request.get("labels") or {}).items()}


def actor_options(request: Request) -> dict[str, Any]:
    """The same, as the options of an actor."""
    custom = bundle(request)
    options: dict[str, Any] = {"num_cpus": custom.pop("CPU", 0), "num_gpus": custom.pop("GPU", 0)}
    if memory := custom.pop("memory", 0):
        options["memory"] = memory
    if custom:
        options["resources"] = custom
    if selectors := labels(request):
        options["label_selector"] = selectors
    return options


def misfit(request: Request, nodes: Iterable[Node]) -> str | None:
    """Why no node of the cluster could ever run it; None: one could. Ray would wait for ever, and give no reason."""
    nodes = list(nodes)
    if not nodes:
        return "the cluster has no nodes"
    suitable = [node for node in nodes if _has_labels(node, labels(request))]
    if not suitable:
        return f"no node has the labels {_as_words(labels(request))}"
    if any(_holds(node["total"], bundle(request)) for node in suitable):
        return None
    return _too_much(bundle(request), [node["total"] for node in suitable])


def wait_reason(request: Request, nodes: Iterable[Node]) -> str:
    """Why it is queued, as far as can be told from what is free."""
    suitable = [node for node in nodes if _has_labels(node, labels(request))]
    if any(_holds(node["free"], bundle(request)) for node in suitable):
        return "it is being placed"
    return f"it waits for room: it asks for {_amounts(bundle(request))}, and no node has that free now"


def _too_much(asked: Mapping[str, float], totals: list[Mapping[str, float]]) -> str:
    for name, amount in asked.items():
        most = max(total.get(name, 0) for total in totals)
        if amount > most:
            return (
                f"it asks for {_amount(name, amount)}, and no node for it has more than {_number(name, most)}"
            )
    return f"no node for it has {_amounts(asked)} together"


def _holds(has: Mapping[str, float], asked: Mapping[str, float]) -> bool:
    return all(has.get(name, 0) >= amount for name, amount in asked.items())


def _has_labels(node: Node, selectors: Mapping[str, str]) -> bool:
    return all(_is_selected(node["labels"].get(name), selector) for name, selector in selectors.items())


def _is_selected(value: str | None, selector: str) -> bool:
    """By Ray's rules: `a`, `!a`, `in(a,b)`, `!in(a,b)`. A node without the label has none of the values."""
    negated, text = selector.startswith("!"), selector.removeprefix("!")
    is_list = text.startswith("in(") and text.endswith(")")
    values = [each.strip() for each in text[3:-1].split(",")] if is_list else [text]
    return (value in values) != negated


def _amounts(asked: Mapping[str, float]) -> str:
    return ", ".join(_amount(name, amount) for name, amount in asked.items() if not name.startswith("node:"))


def _amount(name: str, amount: float) -> str:
    return f"{_number(name, amount)} of memory" if name == "memory" else f"{amount:g} {name}"


def _number(name: str, amount: float) -> str:
    return f"{amount / GIB:.3g} GiB" if name == "memory" else f"{amount:g}"


def _as_words(selectors: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={selector}" for name, selector in selectors.items())

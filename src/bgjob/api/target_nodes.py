"""The machines of a target, in the same words whatever its engine calls things.

    node, state, is_up, cpus, cpus_free, gpus, gpus_free, memory_bytes, memory_free_bytes, load, labels

Only what is known of a node is in it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Node = Mapping[str, Any]
AMOUNTS = ("cpus", "gpus", "memory_bytes")
DOWN = ("down", "dead")


def nodes_of(told: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Of what an engine tells of itself. Those with room come first."""
    nodes = [_known(node) for node in told.get("nodes") or () if isinstance(node, Mapping)]
    return sorted(
        nodes, key=lambda node: (not node["is_up"], -node.get("gpus_free", 0), -node.get("cpus_free", 0))
    )


def queue_of(told: Mapping[str, Any]) -> dict[str, int]:
    """Of all users' jobs there: running, queued, slots; those that are known."""
    words = {"running": "jobs_running", "queued": "jobs_queued", "slots": "slots"}
    sums = {word: _sum(told.get("nodes") or (), theirs) for word, theirs in words.items()}
    given = told["queue"] if isinstance(told.get("queue"), Mapping) else {}
    found = {word: given.get(word, sums[word]) for word in words}
    return {word: count for word, count in found.items() if isinstance(count, int)}


def amounts(nodes: Sequence[Node], suffix: str = "") -> dict[str, float]:
    """Of all nodes that are up together; `suffix` free: what is free of it."""
    names = {name: _free(name) if suffix == "free" else name for name in AMOUNTS}
    up = [node for node in nodes if node["is_up"]]
    sums = {name: _sum(up, word) for name, word in names.items()}
    return {name: total for name, total in sums.items() if total is not None}


def _sum(nodes: Iterable[Any], word: str) -> Any:
    """None: no node tells."""
    values = [node[word] for node in nodes if isinstance(node, Mapping) and _is_number(node.get(word))]
    return sum(values) if values else None


def _free(name: str) -> str:
    return name.replace("_bytes", "_free_bytes") if name.endswith("_bytes") else f"{name}_free"


def _known(node: Node) -> dict[str, Any]:
    total = _amounts_of_ray(node.get("total"))
    free = dict.fromkeys(total, 0) | _amounts_of_ray(
        node.get("free")
    )  # of what is all taken Ray says nothing
    gpus = node.get("gpus")
    state = node.get("state")
    is_up = bool(node.get("is_up", node.get("alive", state not in DOWN)))
    facts = {
        "node": node.get("node") or node.get("name"),
        "state": state or ("up" if is_up else "down"),
        "is_up": is_up,
        "cpus": node.get("cpus", total.get("cpus")),
        "cpus_free": node.get("cpus_free", free.get("cpus")),
        "gpus": len(gpus) if isinstance(gpus, list) else gpus if gpus is not None else total.get("gpus"),
        "gpus_free": node.get("gpus_free", free.get("gpus")),
        "memory_bytes": node.get("memory_bytes", total.get("memory_bytes")),
        "memory_free_bytes": _first(node, "memory_free_bytes", "memory_available_bytes")
        or free.get("memory_bytes"),
        "load": _load(node.get("load")),
        "labels": _labels(node.get("labels")),
        "host": node.get("host") if node.get("node") else None,
    }
    return {word: value for word, value in facts.items() if value not in (None, "", [])}


def _amounts_of_ray(told: object) -> dict[str, Any]:
    names = {"CPU": "cpus", "GPU": "gpus", "memory": "memory_bytes"}
    return (
        {names[word]: each for word, each in told.items() if word in names}
        if isinstance(told, Mapping)
        else {}
    )


def _first(node: Node, *words: str) -> Any:
    return next((node[word] for word in words if node.get(word) is not None), None)


def _load(told: object) -> float | None:
    """Of the last minute."""
    value = told[0] if isinstance(told, list) and told else told
    return float(value) if _is_number(value) else None  # type: ignore[arg-type]


def _labels(told: object) -> list[str]:
    if isinstance(told, Mapping):
        return [f"{name}={value}" for name, value in told.items()]
    return [str(each) for each in told] if isinstance(told, list) else []


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)

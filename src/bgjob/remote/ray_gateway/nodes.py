"""The nodes of a Ray cluster. For the gateway process alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ray
from ray._private.state import available_resources_per_node

LABELS_OF_RAY = "ray.io/"


class Nodes:
    """As they were when they were asked for.

    A node's name is its address, because its id is another one after each start of its raylet.
    """

    def __init__(self) -> None:
        found, free = ray.nodes(), _free()
        nodes = [_node(each, free.get(each["NodeID"], {})) for each in found]
        self.all = {node["node"]: node for node in sorted(nodes, key=_is_alive)}
        self._names = {node["id"]: node["node"] for node in nodes}

    @property
    def alive(self) -> list[dict[str, Any]]:
        return [node for node in self.all.values() if node["alive"]]

    def name_of(self, node_id: str) -> str | None:
        return self._names.get(node_id)

    def id_of(self, name: str) -> str | None:
        """None: it is not alive."""
        node = self.all.get(name)
        return node["id"] if node and node["alive"] else None


def _free() -> Mapping[str, Mapping[str, float]]:
    """By the ids of nodes. Who is connected as a client (ray://) can ask that only of a worker."""
    if ray.util.client.ray.is_connected():
        free: Mapping[str, Mapping[str, float]] = ray.get(
            ray.remote(num_cpus=0)(available_resources_per_node).remote()
        )
        return free
    return available_resources_per_node()  # type: ignore[no-any-return]


def _node(node: Mapping[str, Any], free: Mapping[str, float]) -> dict[str, Any]:
    return {
        "node": node["NodeManagerAddress"],
        "id": node["NodeID"],
        "host": node["NodeManagerHostname"],
        "alive": node["Alive"],
        "total": dict(node["Resources"]),
        "free": dict(free),
        "labels": {
            name: value for name, value in node["Labels"].items() if not name.startswith(LABELS_OF_RAY)
        },
    }


def _is_alive(node: Mapping[str, Any]) -> bool:
    return bool(node["alive"])

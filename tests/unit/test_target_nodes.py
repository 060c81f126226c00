"""The nodes of a target are told in the same words, whatever its engine calls things."""

from typing import Any

import pytest

from bgjob.api.target_nodes import amounts, nodes_of, queue_of

GIB = 1 << 30
SSH = {
    "nodes": [
        {
            "node": "gpu1",
            "cpus": 32,
            "load": [3.14, 2.0, 1.0],
            "memory_bytes": 64 * GIB,
            "memory_available_bytes": 60 * GIB,
            "gpus": [{"name": "A100"}, {"name": "A100"}],
            "jobs_running": 2,
            "jobs_queued": 1,
            "slots": 10,
        }
    ]
}
SLURM_NODE = {
    "name": "n2",
    "state": "idle",
    "is_up": True,
    "cpus": 8,
    "cpus_free": 8,
    "memory_bytes": 16 * GIB,
    "memory_free_bytes": 12 * GIB,
    "gpus": 0,
    "gpus_free": 0,
    "labels": ["ssd"],
}
SLURM = {
    "nodes": [
        {**SLURM_NODE, "name": "n1", "state": "down*", "is_up": False, "cpus_free": 0},
        {**SLURM_NODE, "name": "n3", "state": "mixed", "cpus_free": 2},
        SLURM_NODE,
    ],
    "queue": {"queued": 7},
}
RAY = {
    "nodes": [
        {
            "node": "10.0.0.1",
            "id": "abc",
            "host": "box",
            "alive": True,
            "total": {"CPU": 4.0, "GPU": 1.0, "memory": 8.0 * GIB, "node:10.0.0.1": 1.0},
            "free": {"CPU": 1.5, "memory": 2.0 * GIB},
            "labels": {"zone": "a"},
        },
        {"node": "10.0.0.2", "alive": False, "total": {}, "free": {}, "labels": {}},
    ]
}


def test_a_machine_of_ssh() -> None:
    (node,) = nodes_of(SSH)
    assert node == {
        "node": "gpu1",
        "state": "up",
        "is_up": True,
        "cpus": 32,
        "gpus": 2,
        "memory_bytes": 64 * GIB,
        "memory_free_bytes": 60 * GIB,
        "load": 3.14,
    }
    assert queue_of(SSH) == {"running": 2, "queued": 1, "slots": 10}


def test_nodes_of_slurm_with_room_come_first_and_those_that_are_down_last() -> None:
    assert [node["node"] for node in nodes_of(SLURM)] == ["n2", "n3", "n1"]
    assert nodes_of(SLURM)[0]["labels"] == ["ssd"]
    assert queue_of(SLURM) == {"queued": 7}


def test_nodes_of_ray() -> None:
    up, down = nodes_of(RAY)
    assert up == {
        "node": "10.0.0.1",
        "state": "up",
        "is_up": True,
        "cpus": 4.0,
        "cpus_free": 1.5,
        "gpus": 1.0,
        "gpus_free": 0,
        "memory_bytes": 8.0 * GIB,
        "memory_free_bytes": 2.0 * GIB,
        "labels": ["zone=a"],
        "host": "box",
    }
    assert (down["state"], down["is_up"]) == ("down", False)
    assert queue_of(RAY) == {}


def test_all_that_are_up_count_together() -> None:
    nodes = nodes_of(SLURM)
    assert amounts(nodes) == {"cpus": 16, "gpus": 0, "memory_bytes": 32 * GIB}
    assert amounts(nodes, "free") == {"cpus": 10, "gpus": 0, "memory_bytes": 24 * GIB}
    assert amounts(nodes_of(SSH), "free") == {"memory_bytes": 60 * GIB}


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"nodes": None},
        {"nodes": [None, 5, "n1"], "queue": 5},
        {"nodes": [{}]},
        {"nodes": [{"node": "a", "cpus": "many", "load": "high", "labels": 5, "total": 3, "gpus": True}]},
    ],
)
def test_what_is_not_understood_is_left_out(told: dict[str, Any]) -> None:
    nodes = nodes_of(told)
    assert all(node["is_up"] for node in nodes)
    assert amounts(nodes) == amounts(nodes, "free") == queue_of(told) == {}

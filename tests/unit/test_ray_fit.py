"""What a job asks of a Ray cluster, and why no node fits."""

from collections.abc import Mapping
from typing import Any

import pytest

from bgjob.remote.ray_gateway import fit

SMALL = {
    "node": "10.0.0.1",
    "total": {"CPU": 4.0, "memory": 8.0 * fit.GIB},
    "free": {"CPU": 1.0},
    "labels": {},
}
GPUS = {
    "node": "10.0.0.2",
    "total": {"CPU": 2.0, "GPU": 2.0, "memory": 8.0 * fit.GIB, "fast": 1.0},
    "free": {"CPU": 2.0, "GPU": 2.0, "fast": 1.0},
    "labels": {"kind": "gpu", "zone": "b"},
}


@pytest.mark.parametrize(
    ("request_", "bundle"),
    [
        ({}, {"CPU": 1.0}),
        ({"cpus": 0}, {"CPU": 0.001}),
        ({"cpus": 0, "gpus": 1}, {"GPU": 1.0}),
        (
            {"cpus": 1.5, "memory_bytes": 1024, "custom": {"fast": 1}},
            {"CPU": 1.5, "memory": 1024.0, "fast": 1.0},
        ),
    ],
)
def test_a_bundle_has_what_was_asked_for_and_is_never_empty(
    request_: Mapping[str, Any], bundle: Mapping[str, float]
) -> None:
    assert fit.bundle(request_) == bundle


def test_a_bundle_for_one_node_has_a_little_of_the_nodes_own_resource() -> None:
    assert fit.bundle({}, "10.0.0.1") == {"CPU": 1.0, "node:10.0.0.1": 0.001}


def test_the_options_of_an_actor_say_the_same() -> None:
    request = {"cpus": 0, "gpus": 0.5, "memory_bytes": 1024, "custom": {"fast": 1}, "labels": {"kind": "gpu"}}
    assert fit.actor_options(request) == {
        "num_cpus": 0,
        "num_gpus": 0.5,
        "memory": 1024.0,
        "resources": {"fast": 1.0},
        "label_selector": {"kind": "gpu"},
    }


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        ({"cpus": 5}, "it asks for 5 CPU, and no node for it has more than 4"),
        ({"cpus": 3, "gpus": 1}, "no node for it has 3 CPU, 1 GPU together"),
        (
            {"cpus": 3, "labels": {"kind": "gpu"}},
            "it asks for 3 CPU, and no node for it has more than 2",
        ),
        ({"labels": {"kind": "tpu", "zone": "b"}}, "no node has the labels kind=tpu, zone=b"),
        ({"custom": {"slow": 1}}, "it asks for 1 slow, and no node for it has more than 0"),
        (
            {"memory_bytes": 16 * fit.GIB},
            "it asks for 16 GiB of memory, and no node for it has more than 8 GiB",
        ),
        ({"cpus": 4}, None),
        ({"gpus": 2, "labels": {"kind": "gpu"}}, None),
    ],
)
def test_what_no_node_could_ever_run_has_a_reason(request_: Mapping[str, Any], why: str | None) -> None:
    assert fit.misfit(request_, [SMALL, GPUS]) == why


def test_a_cluster_without_nodes_runs_nothing() -> None:
    assert fit.misfit({}, []) == "the cluster has no nodes"


@pytest.mark.parametrize(
    ("selector", "fits"),
    [
        ("gpu", True),
        ("!gpu", False),
        ("in(tpu, gpu)", True),
        ("!in(tpu,gpu)", False),
        ("!tpu", True),
        ("tpu", False),
    ],
)
def test_labels_are_selected_by_the_rules_of_ray(selector: str, fits: bool) -> None:
    assert (fit.misfit({"labels": {"kind": selector}}, [GPUS]) is None) == fits


def test_a_node_without_a_label_is_none_of_its_values() -> None:
    assert fit.misfit({"labels": {"kind": "!gpu"}}, [SMALL]) is None


def test_a_job_that_is_queued_waits_for_what_is_not_free() -> None:
    assert (
        fit.wait_reason({"cpus": 3}, [SMALL, GPUS])
        == "it waits for room: it asks for 3 CPU, and no node has that free now"
    )
    assert fit.wait_reason({"cpus": 2}, [SMALL, GPUS]) == "it is being placed"

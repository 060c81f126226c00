"""The room of jobs on a Ray cluster: one lease per job, found again by its name. For the gateway process alone.

    placement group     no process; where there is room at once, and no GPU is asked for
    lease actor         a worker of Ray, ~55 MB: Ray queues it, and chooses the GPUs

What Ray has under a job's name is its lease, also for the next gateway: nothing of it is kept here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError
from ray.util.placement_group import (
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)

from bgjob.remote.ray_gateway import fit
from bgjob.remote.ray_gateway.actors import NAMESPACE, Lease, lease_name, release_lease
from bgjob.remote.ray_gateway.nodes import Nodes

PLACED_S = 1.0
"""So long a job waits for a placement group before it is queued."""
CREATED = "CREATED"
REMOVED = "REMOVED"
GONE = "its lease is not in the cluster: it was removed, or the cluster is a new one"

State = dict[str, Any]


class Refused(Exception):
    """The cluster could never run the job."""


class Leases:
    def __init__(self, root: str) -> None:
        self._root, self._lease = root, ray.remote(Lease)
        self._groups: dict[str, Any] = {}
        """Placement groups that were found, by the job. A list of all of them would have all that were ever removed."""
        self._answers: dict[str, Any] = {}
        """Of lease actors, by the job: where they are, once they are somewhere."""

    # -- one job ------------------------------------------------------------------------------------

    def check(self, request: fit.Request) -> Nodes:
        """Return the nodes of the cluster, one of which could run it. Refused: none could."""
        nodes = Nodes()
        if why := fit.misfit(request, nodes.alive):
            raise Refused(why)
        return nodes

    def place(self, job_id: str, request: fit.Request) -> State:
        """Asked twice it is the same lease. Refused: there is no node for it."""
        nodes = self.check(request)
        if not self._is_there(job_id) and not self._is_placed_at_once(job_id, request):
            self._queue(job_id, request)
        return self._state(job_id, {"request": request}, nodes, set(ray.util.list_named_actors()))

    def release(self, job_id: str) -> None:
        """Also of a job that is queued. Nothing happens if it has no lease."""
        self._answers.pop(job_id, None)
        self._groups.pop(job_id, None)
        release_lease(job_id)

    def take_again(self, job_id: str, node: str, request: fit.Request) -> None:
        """A lease that was lost, on that node, when it has room. Of GPUs Ray would choose others."""
        if not request.get("gpus") and not self._is_there(job_id):
            self._groups[job_id] = _new_group(job_id, request, node)

    def _is_there(self, job_id: str) -> bool:
        return self._group(job_id) is not None or lease_name(job_id) in ray.util.list_named_actors()

    def _is_placed_at_once(self, job_id: str, request: fit.Request) -> bool:
        if request.get("gpus"):
            return False
        group = _new_group(job_id, request)
        if group.wait(PLACED_S):
            self._groups[job_id] = group
            return True
        remove_placement_group(group)
        return False

    def _queue(self, job_id: str, request: fit.Request) -> None:
        named = {
            "name": lease_name(job_id),
            "namespace": NAMESPACE,
            "lifetime": "detached",
            "get_if_exists": True,
        }
        self._lease.options(**named, **fit.actor_options(request)).remote(job_id, self._root)

    def _group(self, job_id: str) -> Mapping[str, Any] | None:
        """What Ray knows of its placement group."""
        try:
            group = self._groups.get(job_id) or get_placement_group(lease_name(job_id))
        except ValueError:  # there is none
            return None
        known: Mapping[str, Any] = placement_group_table(group)
        if known.get("state", REMOVED) == REMOVED:
            self._groups.pop(job_id, None)
            return None
        self._groups[job_id] = group
        return known

    # -- all jobs -----------------------------------------------------------------------------------

    def states(self, jobs: Mapping[str, Mapping[str, Any]]) -> dict[str, State]:
        """As Room tells them, but for what only the nodes know."""
        nodes, actors = Nodes(), set(ray.util.list_named_actors())
        return {job_id: self._state(job_id, job, nodes, actors) for job_id, job in jobs.items()}

    def _state(self, job_id: str, job: Mapping[str, Any], nodes: Nodes, actors: set[str]) -> State:
        node, request = job.get("node"), job.get("request") or {}
        lease = self._of_group(job_id, nodes) or self._of_actor(job_id, actors, nodes)
        if node and nodes.id_of(node) is None:
            return self._unreachable(job_id, node, lease)
        if node and (lease is None or lease["node"] != node):
            return self._unleased(job_id, node, request, lease)
        if lease is None:
            return {"state": "gone", "reason": GONE}
        if lease["node"] is None:
            return {"state": "queued", "reason": fit.wait_reason(request, nodes.alive)}
        return lease

    def _of_group(self, job_id: str, nodes: Nodes) -> State | None:
        group = self._group(job_id)
        if group is None:
            return None
        node_id = group["bundles_to_node_id"][0] if group["state"] == CREATED else None
        return _placed(node_id, nodes, {})

    def _of_actor(self, job_id: str, actors: set[str], nodes: Nodes) -> State | None:
        if lease_name(job_id) not in actors:
            self._answers.pop(job_id, None)
            return None
        try:
            answer = ray.get(self._answer(job_id), timeout=0)
        except GetTimeoutError:
            return _placed(None, nodes, {})
        except (RayError, ValueError):  # it was killed a moment ago
            self._answers.pop(job_id, None)
            return None
        return _placed(answer["node_id"], nodes, answer["environ"])

    def _answer(self, job_id: str) -> Any:
        if job_id not in self._answers:
            self._answers[job_id] = ray.get_actor(lease_name(job_id), NAMESPACE).where.remote()
        return self._answers[job_id]

    def _unreachable(self, job_id: str, node: str, lease: State | None) -> State:
        """Ray takes the placement group of a lost node to another one, where it would hold room for nothing."""
        if lease:
            self.release(job_id)
        return {"state": "unreachable", "node": node, "reason": f"node {node} has left the cluster"}

    def _unleased(self, job_id: str, node: str, request: fit.Request, lease: State | None) -> State:
        """Its lease was killed, or given back; or its node was away for a while, and Ray has taken it elsewhere."""
        if lease and lease["node"]:
            self.release(job_id)
        again = (
            "cannot be taken again: Ray would choose other GPUs" if request.get("gpus") else "is taken again"
        )
        return {"state": "unleased", "node": node, "reason": f"its lease was lost, and {again}"}


def _placed(node_id: str | None, nodes: Nodes, environ: Mapping[str, str]) -> State:
    name = nodes.name_of(node_id) if node_id else None
    return {"state": "placed", "node": name, "environ": dict(environ)}


def _new_group(job_id: str, request: fit.Request, node: str | None = None) -> Any:
    labels = None if node else fit.labels(request)
    selectors = {"bundle_label_selector": [labels]} if labels else {}
    return placement_group(
        [fit.bundle(request, node)], name=lease_name(job_id), lifetime="detached", **selectors
    )

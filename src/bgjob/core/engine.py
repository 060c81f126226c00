"""What is asked of a cluster for a job, and how a job stands there."""

from collections.abc import Mapping, Sequence
from typing import Literal

from bgjob.core.frozen import NOTHING, Frozen

Phase = Literal["queued", "starting", "active", "gone"]


class Resources(Frozen):
    """None: as the cluster has it by default."""

    cpus: int | None = None
    gpus: int | None = None
    memory_bytes: int | None = None
    time_limit_s: float | None = None
    labels: Mapping[str, str] = NOTHING
    """What a node must have. Slurm knows features, which are words: the values of these."""
    partition: str | None = None
    account: str | None = None
    node: str | None = None


class EngineState(Frozen):
    """What the cluster says of a job. That it does not answer, or knows no such job, is no state."""

    phase: Phase
    engine_id: str
    node: str | None = None
    reason: str | None = None
    """Why it waits, or how it ended, in the words of the cluster."""
    end: str | None = None
    """The cluster's word for how it ended; None while it has not."""
    exit_code: int | None = None
    """Of the process that the cluster started: that of the job, unless something went wrong before or after."""


class NodeInfo(Frozen):
    name: str
    state: str
    is_up: bool
    cpus: int
    cpus_free: int
    memory_bytes: int
    memory_free_bytes: int
    gpus: int
    gpus_free: int
    labels: Sequence[str]


class ClusterInfo(Frozen):
    nodes: Sequence[NodeInfo]
    queued: int
    """Jobs of all users that wait."""

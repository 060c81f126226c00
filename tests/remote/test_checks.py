"""A start that a target would refuse is refused before a job is killed for it."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from bgjob.core.engine import EngineState, Resources
from bgjob.core.errors import ImpossibleRequest
from bgjob.core.target_keys import TargetKind
from bgjob.core.targets import Target, as_record
from bgjob.home import target_dir
from bgjob.remote.relay import Relay
from bgjob.store.store import Store

CPUS = 8


class SmallSlurm:
    """In place of Slurm's commands."""

    async def sessions(self) -> Mapping[str, EngineState]:
        return {"work": EngineState("active", "17", "n1"), "over": EngineState("gone", "16")}

    async def check(self, resources: Resources) -> None:
        if (resources.cpus or 1) > CPUS:
            raise ImpossibleRequest("hpc", "Requested node configuration is not available")


class SmallRay:
    """In place of the gateway."""

    async def ready(self) -> None:
        pass

    async def check(self, resources: Mapping[str, Any]) -> None:
        if resources.get("cpus", 1) > CPUS:
            raise ImpossibleRequest("hpc", "it asks for 99 CPU")


def answer(store: Store, kind: TargetKind, **request: Any) -> Mapping[str, Any]:
    target_dir.make(store.home, "hpc", as_record(Target(name="hpc", kind=kind, address="auto")))

    async def body() -> Mapping[str, Any]:
        relay = Relay(store, "hpc", -1)
        engine: Any = relay._engine
        engine._slurm, engine._gateway = SmallSlurm(), SmallRay()
        return await relay._answer(json.dumps({"op": "check", "start": {}, **request}).encode())

    return asyncio.run(body())


@pytest.mark.parametrize("kind", ["slurm", "ray"])
def test_a_start_is_checked_with_its_resources(store: Store, kind: TargetKind) -> None:
    assert answer(store, kind, resources={"cpus": CPUS})["ok"]
    assert answer(store, kind)["ok"], "an older version asks without resources"
    refusal = answer(store, kind, resources={"cpus": 99})
    assert refusal["failure"]["kind"] == "ImpossibleRequest"


@pytest.mark.parametrize(("session", "fits"), [("work", True), ("over", False), ("new", False)])
def test_a_job_of_a_held_session_asks_slurm_for_nothing(store: Store, session: str, fits: bool) -> None:
    assert answer(store, "slurm", resources={"cpus": 99, "session": session})["ok"] == fits

"""One conversation with a bgjob server, the same for each Python SDK: conversation.mjs in Python.

Run by `python -m tests.clients.python_1 TARGET` in an environment that has the SDK and neither bgjob nor pytest.
"""

import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import anyio

Answer = dict[str, Any]
Told = Callable[[], Awaitable[None]]


class Client(Protocol):
    protocol: str
    has_resources: bool

    async def tools(self) -> list[str]: ...
    async def call(self, tool: str, given: Answer, on_progress: Told | None = None) -> Answer: ...
    async def resources(self) -> list[str]: ...
    async def read(self, uri: str) -> str: ...
    async def watch(self, uri: str) -> Callable[[], Awaitable[str]] | None: ...


def target() -> Mapping[str, Any]:
    return dict(json.loads(sys.argv[1]))


async def converse(client: Client) -> None:
    seen: Answer = {"protocol": client.protocol, "tools": await client.tools()}
    seen["executed"] = await client.call("execute_command", {"command": "echo hello; exit 3", "wait_s": 30})
    seen.update(await wait_with_progress(client))
    if client.has_resources:
        seen["resources"] = await use_resources(client)
    seen["cancelled"] = await cancel_a_wait(client)
    print(json.dumps(seen), flush=True)


async def wait_with_progress(client: Client) -> Answer:
    """A job that waits for a file, which the first progress of the wait makes."""
    job_id, file = await start_waiting(client, "progress")
    told: list[bool] = []

    async def release() -> None:
        told.append(True)
        file.touch()

    waited = await client.call("wait_for_job", {"job_ids": [job_id], "timeout_s": 45}, release)
    return {"progress": told[0], "waited": waited["jobs"][0]}


async def start_waiting(client: Client, name: str) -> tuple[str, Path]:
    file = Path(target()["directory"]) / name
    command = f"echo ready; until [ -e '{file}' ]; do sleep 0.05; done; echo released"
    answer = await client.call("execute_command", {"command": command, "name": name})
    return answer["job_id"], file


async def use_resources(client: Client) -> Answer:
    job_id, file = await start_waiting(client, "resources")
    uri = f"bgjob://jobs/{job_id}/stdout"
    listed = [each for each in await client.resources() if job_id in each]
    updated = await client.watch(uri)
    file.touch()
    update = await updated() if updated else None
    await client.call("wait_for_job", {"job_ids": [job_id], "timeout_s": 45})
    return {"job_id": job_id, "listed": listed, "update": update, "read": await client.read(uri)}


async def cancel_a_wait(client: Client) -> Answer:
    job_id = (await client.call("execute_command", {"command": "exec sleep 1000"}))["job_id"]

    async def stop() -> None:
        scope.cancel()

    with anyio.CancelScope() as scope:
        await client.call("wait_for_job", {"job_ids": [job_id], "timeout_s": 45}, stop)
    ended = "cancelled" if scope.cancelled_caught else "answered"
    status = (await client.call("get_job_status", {"job_id": job_id}))["status"]
    killed = (await client.call("kill_job", {"job_id": job_id}))["status"]
    return {"ended": ended, "status": status, "killed": killed}

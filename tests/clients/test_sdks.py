"""The official SDKs as clients, of both eras, on each transport: one conversation, the same for all."""

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bgjob.mcp.tools import TOOLS
from tests.clients import packages, seen
from tests.clients.endpoints import Endpoint
from tests.clients.tap import Tap
from tests.support.npm_packages import installing_takes_long
from tests.support.requires import linux_only

pytestmark = [linux_only, installing_takes_long]

ROOT = Path(__file__).parents[2]
LIMIT_S = 400
"""Ends what hangs: a conversation takes a few seconds."""
Seen = dict[str, Any]


def python(module: str, interpreter: str) -> list[str]:
    return [interpreter, "-m", f"tests.clients.{module}"]


def old_python() -> list[str]:
    interpreter = os.environ.get("BGJOB_OLD_CLIENT_PYTHON", "")
    if not interpreter:
        pytest.skip("BGJOB_OLD_CLIENT_PYTHON is not set; scripts/test makes that environment and sets it")
    return python("python_1", interpreter)


def typescript(script: str) -> list[str]:
    return [str(packages.node()), f"tests/clients/{script}"]


@dataclasses.dataclass(frozen=True)
class Sdk:
    name: str
    command: Callable[[], list[str]]
    era: str


SDKS = [
    Sdk("Python SDK 1.x", old_python, "handshake"),
    Sdk("Python SDK 2.x", lambda: python("python_2", sys.executable), "handshake"),
    Sdk("Python SDK 2.x", lambda: python("python_2", sys.executable), "stateless"),
    Sdk("TypeScript SDK 1.x", lambda: typescript("typescript_1.mjs"), "handshake"),
    Sdk("TypeScript SDK 2.x", lambda: typescript("typescript_2.mjs"), "handshake"),
    Sdk("TypeScript SDK 2.x", lambda: typescript("typescript_2.mjs"), "stateless"),
]
PROTOCOL = {"handshake": "2025-11-25", "stateless": "2026-07-28"}


@pytest.mark.parametrize("sdk", SDKS, ids=lambda sdk: f"{sdk.name.replace(' ', '-')}-{sdk.era}")
def test_an_sdk_runs_waits_cancels_and_reads(
    sdk: Sdk, endpoint: Endpoint, npm_packages: None, tmp_path: Path
) -> None:
    said = converse(sdk, endpoint, tmp_path)
    assert said["protocol"] == PROTOCOL[sdk.era]
    assert said["tools"] == list(TOOLS.tools)
    check_calls(said)
    # a server without sessions cannot tell of whom a notification over HTTP is
    is_told = endpoint.transport == "stdio" or sdk.era == "stateless"
    if is_told:
        assert len(unanswered_waits(endpoint.tap)) == 1
    check_resources(said["resources"], is_told)
    key = f"{sdk.name}/{endpoint.transport}/{sdk.era}"
    seen.check("clients", key, {"protocol": said["protocol"], "seen": summary(is_told)})


def converse(sdk: Sdk, endpoint: Endpoint, directory: Path) -> Seen:
    target = {
        "command": endpoint.command,
        "url": endpoint.url,
        "token": endpoint.token,
        "era": sdk.era,
        "directory": str(directory),
    }
    done = subprocess.run(
        [*sdk.command(), json.dumps(target)],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    said: Seen = json.loads(done.stdout)
    return said


def check_calls(said: Seen) -> None:
    executed, waited = said["executed"], said["waited"]
    assert (executed["status"], executed["exit_code"], executed["stdout"]) == ("failed", 3, "hello\n")
    assert said["progress"]
    assert (waited["status"], waited["condition"]) == ("completed", "exit")
    assert waited["stdout"] == "ready\nreleased\n"
    assert said["cancelled"] == {"ended": "cancelled", "status": "running", "killed": "killed"}


def unanswered_waits(tap: Tap) -> set[str | int]:
    """The one that was cancelled: by a notification, or over HTTP by closing the connection."""
    calls = (each for each in tap.asked if each["method"] == "tools/call")
    waits = {call["id"] for call in calls if call["params"]["name"] == "wait_for_job"}
    return waits - {answer.get("id") for answer in tap.answered}


def check_resources(seen_of_them: Seen, is_told: bool) -> None:
    job = f"bgjob://jobs/{seen_of_them['job_id']}"
    assert seen_of_them["listed"] == [f"{job}/output"]
    assert seen_of_them["read"] == "ready\nreleased\n"
    assert seen_of_them["update"] == (f"{job}/stdout" if is_told else None)


def summary(is_told: bool) -> str:
    """Only what was asserted: where the server cannot be told of it, that a client gave up a wait shows nothing."""
    done = "tools, progress, resources listed and read"
    return f"{done}, subscription, cancellation" if is_told else done

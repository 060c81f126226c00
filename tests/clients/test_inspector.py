"""The command line of the MCP Inspector: strict about the schemas of tools, in both eras."""

import json
import subprocess
from typing import Any

import pytest

from bgjob.mcp.tools import TOOLS
from tests.clients import packages, seen
from tests.clients.endpoints import Endpoint
from tests.support.npm_packages import installing_takes_long
from tests.support.requires import linux_only

pytestmark = [linux_only, installing_takes_long]

LIMIT_S = 400
"""Ends what hangs: the Inspector takes a few seconds."""
SCRIPT = "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
ERAS = {"legacy": "2025-11-25", "modern": "2026-07-28"}

eras = pytest.mark.parametrize("era", ERAS)


class Inspector:
    def __init__(self, endpoint: Endpoint, environment: dict[str, str], era: str) -> None:
        self._environment, self._options = environment, ["--cli", "--protocol-era", era, "--format", "json"]
        self._server = where(endpoint)

    def ask(self, method: str, *options: str) -> dict[str, Any]:
        done = subprocess.run(
            [*packages.script(SCRIPT), *self._options, "--method", method, *options, *self._server],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            text=True,
            timeout=LIMIT_S,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        result: dict[str, Any] = json.loads(done.stdout)["result"]
        return result


def where(endpoint: Endpoint) -> list[str]:
    if endpoint.url:
        header = f"Authorization: {endpoint.authorization}"
        return ["--transport", "http", "--server-url", endpoint.url, "--header", header]
    return ["--", *endpoint.command]


@eras
def test_no_schema_is_complained_about_and_a_call_runs_a_command(
    endpoint: Endpoint, bare_environment: dict[str, str], era: str
) -> None:
    """Warnings, too, would be on its stderr."""
    inspector = Inspector(endpoint, bare_environment, era)
    tools = inspector.ask("tools/list", "--strict")["tools"]
    assert [tool["name"] for tool in tools] == list(TOOLS.tools)
    given = json.dumps({"command": "echo hello", "wait_s": 30})
    answer = inspector.ask("tools/call", "--tool-name", "execute_command", "--tool-args-json", given)
    assert answer["structuredContent"]["stdout"] == "hello\n"
    assert endpoint.tap.protocol == ERAS[era]
    what = {"protocol": ERAS[era], "seen": "`tools/list --strict`: no complaint; `tools/call`"}
    seen.check("clients", f"Inspector CLI/{endpoint.transport}/{era}", what)

"""Coding agents connect to our server without a login, and with no network but this machine's own."""

import re
from pathlib import Path

import pytest

from bgjob.mcp.tools import TOOLS
from tests.clients import seen
from tests.clients.agents import CODEX, CONNECTED, Agent
from tests.clients.codex_app_server import app_server_answer
from tests.clients.endpoints import Endpoint
from tests.support.npm_packages import installing_takes_long
from tests.support.programs import run_to_its_end
from tests.support.requires import linux_only

pytestmark = [linux_only, installing_takes_long]

LIMIT_S = 400
"""Ends what hangs: an agent takes a few seconds."""
COLOUR = re.compile(r"\x1b\[[\d;]*m")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    return project


@pytest.mark.parametrize("agent", CONNECTED, ids=lambda agent: agent.package)
def test_an_agent_says_that_it_is_connected(
    agent: Agent, endpoint: Endpoint, project: Path, bare_environment: dict[str, str]
) -> None:
    agent.write(Path(bare_environment["HOME"]), project, endpoint)
    assert agent.says in printed(agent, project, bare_environment)
    keep(agent.name, endpoint, f"`{agent.shown}`: connected")


def test_codex_knows_the_server(endpoint: Endpoint, project: Path, bare_environment: dict[str, str]) -> None:
    """Neither `codex mcp get` nor `codex mcp list` connects."""
    CODEX.write(Path(bare_environment["HOME"]), project, endpoint)
    assert CODEX.says in printed(CODEX, project, bare_environment)
    assert endpoint.tap.asked == []


def test_codex_lists_our_tools(endpoint: Endpoint, project: Path, bare_environment: dict[str, str]) -> None:
    """`codex app-server` is what its editors talk to. It connects when it is asked how its servers are."""
    CODEX.write(Path(bare_environment["HOME"]), project, endpoint)
    answer = app_server_answer("mcpServerStatus/list", {}, project, bare_environment)
    (status,) = answer["data"]
    assert status["serverInfo"]["name"] == "bgjob"
    assert set(status["tools"]) == set(TOOLS.tools)
    keep(CODEX.name, endpoint, "`codex app-server`, `mcpServerStatus/list`: all tools")


def printed(agent: Agent, project: Path, environment: dict[str, str]) -> str:
    done = run_to_its_end(agent.command, project, LIMIT_S, {**environment, **agent.switches})
    assert done.returncode == 0, done.stdout
    return COLOUR.sub("", done.stdout)


def keep(agent: str, endpoint: Endpoint, what: str) -> None:
    seen.check("clients", f"{agent}/{endpoint.transport}", {"protocol": endpoint.tap.protocol, "seen": what})

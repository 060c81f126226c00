"""Coding agents from npm: how each is told of our server, and which of its commands connects to it."""

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.clients import packages
from tests.clients.endpoints import Endpoint

Settings = dict[str, Any]
Write = Callable[[Path, Path, Endpoint], None]
"""Writes what the agent reads, into the user's home and the project."""


@dataclasses.dataclass(frozen=True)
class Agent:
    name: str
    package: str
    arguments: tuple[str, ...]
    says: str
    write: Write
    switches: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def command(self) -> list[str]:
        return [*packages.program(self.arguments[0]), *self.arguments[1:]]

    @property
    def shown(self) -> str:
        return " ".join(self.arguments)


def claude(home: Path, project: Path, endpoint: Endpoint) -> None:
    if endpoint.url:
        headers = {"Authorization": endpoint.authorization}
        server: Settings = {"type": "http", "url": endpoint.url, "headers": headers}
    else:
        server = {"type": "stdio", **program_and_arguments(endpoint)}
    write_json(home / ".claude.json", {"mcpServers": {"bgjob": server}})


def gemini(home: Path, project: Path, endpoint: Endpoint) -> None:
    if endpoint.url:
        server: Settings = {"httpUrl": endpoint.url, "headers": {"Authorization": endpoint.authorization}}
    else:
        server = program_and_arguments(endpoint)
    silent = {"privacy": {"usageStatisticsEnabled": False}, "general": {"enableAutoUpdate": False}}
    write_json(home / ".gemini" / "settings.json", {**silent, "mcpServers": {"bgjob": server}})


def opencode(home: Path, project: Path, endpoint: Endpoint) -> None:
    if endpoint.url:
        headers = {"Authorization": endpoint.authorization}
        server: Settings = {"type": "remote", "url": endpoint.url, "headers": headers, "oauth": False}
    else:
        server = {"type": "local", "command": list(endpoint.command)}
    write_json(
        project / "opencode.json", {"autoupdate": False, "share": "disabled", "mcp": {"bgjob": server}}
    )


def codex(home: Path, project: Path, endpoint: Endpoint) -> None:
    """JSON strings are TOML strings too."""
    if endpoint.url:
        headers = f"{{ Authorization = {json.dumps(endpoint.authorization)} }}"
        lines = [f"url = {json.dumps(endpoint.url)}", f"http_headers = {headers}"]
    else:
        lines = [f"{name} = {json.dumps(value)}" for name, value in program_and_arguments(endpoint).items()]
    text = "\n".join(["check_for_update_on_startup = false", "[mcp_servers.bgjob]", *lines, ""])
    path = home / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text(text)


def program_and_arguments(endpoint: Endpoint) -> Settings:
    return {"command": endpoint.command[0], "args": list(endpoint.command[1:])}


def write_json(path: Path, settings: Settings) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(settings))


CONNECTED = [
    Agent(
        name="Claude Code",
        package="@anthropic-ai/claude-code",
        arguments=("claude", "mcp", "list"),
        says="✔ Connected",
        write=claude,
        switches={"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"},
    ),
    Agent(
        name="Gemini CLI",
        package="@google/gemini-cli",
        arguments=("gemini", "mcp", "list"),
        says="- Connected",
        write=gemini,
        switches={"GEMINI_CLI_TRUST_WORKSPACE": "true"},
    ),
    Agent(
        name="opencode",
        package="opencode-ai",
        arguments=("opencode", "mcp", "list"),
        says="✓ bgjob connected",
        write=opencode,
        switches=dict.fromkeys(
            (
                "OPENCODE_DISABLE_AUTOUPDATE",
                "OPENCODE_DISABLE_MODELS_FETCH",
                "OPENCODE_DISABLE_LSP_DOWNLOAD",
            ),
            "1",
        ),
    ),
]
CODEX = Agent("Codex", "@openai/codex", ("codex", "mcp", "get", "bgjob"), "enabled: true", codex)

"""The tables of docs/clients.md: from what the tests of tests/clients have seen, and the versions that are locked."""

import json
import re
from collections.abc import Iterator
from typing import Any

from tests.contracts import golden
from tests.contracts.doc_tables import table

CLIENTS = golden.ROOT / "tests" / "clients"
LOCKS = golden.ROOT / "requirements"
SEEN: dict[str, dict[str, Any]] = json.loads((CLIENTS / "seen.json").read_text())
NPM_PACKAGES = {
    "Claude Code": "@anthropic-ai/claude-code",
    "Codex": "@openai/codex",
    "Gemini CLI": "@google/gemini-cli",
    "Inspector CLI": "@modelcontextprotocol/inspector",
    "TypeScript SDK 1.x": "@modelcontextprotocol/sdk",
    "TypeScript SDK 2.x": "@modelcontextprotocol/client",
    "opencode": "opencode-ai",
}
PYTHON_LOCKS = {"Python SDK 1.x": "old-client.txt", "Python SDK 2.x": "dev.txt"}
TRANSPORTS = {"stdio": "stdio", "http": "HTTP"}


def clients() -> str:
    return table(("client", "version", "transport", "protocol", "what was seen"), client_rows())


def client_rows() -> Iterator[tuple[str, ...]]:
    """A row for what a client does alike on each transport."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for key, what in sorted(SEEN["clients"].items(), key=lambda item: item[0].lower()):
        client, transport, *_ = key.split("/")
        rows.setdefault((client, what["protocol"], what["seen"]), []).append(TRANSPORTS[transport])
    for (client, protocol, what_seen), transports in rows.items():
        yield name(client), version(client), ", ".join(sorted(transports, reverse=True)), protocol, what_seen


def name(client: str) -> str:
    return client.removesuffix(" 1.x").removesuffix(" 2.x")


def version(client: str) -> str:
    if lock := PYTHON_LOCKS.get(client):
        found = re.search(r"(?m)^mcp==(\S+)", (LOCKS / lock).read_text())
        assert found
        return found[1]
    dependencies = json.loads((CLIENTS / "package.json").read_text())["dependencies"]
    return str(dependencies[NPM_PACKAGES[client]])


def told() -> str:
    return table(
        ("client", "version", "way", "when a job ends", "what its model was seen to get"), told_rows()
    )


def told_rows() -> Iterator[tuple[str, ...]]:
    for key, what in sorted(SEEN["told"].items(), key=lambda item: item[0].lower()):
        client, way, situation = key.split("/")
        yield client, version(client), way, situation, what["seen"]


def suites() -> str:
    head = ("suite", "revision", "scenarios complete", "not applicable", "checks left out")
    return table(head, map(suite_row, SEEN["conformance"]))


def suite_row(run: str) -> tuple[str, ...]:
    suite, revision = run.split("/")
    outcome = SEEN["conformance"][run]
    counts = outcome["complete"], len(outcome["not applicable"]), len(outcome["checks left out"])
    return suite, revision, *map(str, counts)


def not_applicable() -> str:
    reasons: dict[str, set[str]] = {}
    for run in SEEN["conformance"].values():
        for scenario, reason in {**run["not applicable"], **run["checks left out"]}.items():
            reasons.setdefault(reason, set()).add(f"`{scenario}`")
    return table(
        ("reason", "scenarios, or single checks of one"),
        ((why, ", ".join(sorted(names))) for why, names in reasons.items()),
    )

"""What the list of tools costs a model, and what the directory of servers says of it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

Schema = dict[str, Any]

MAX_TOKENS = 3_950
"""Of all tools together."""


def tokens(tools: list[Schema]) -> float:
    """A title is for people: no client shows it to a model."""
    seen = [{key: value for key, value in tool.items() if key != "title"} for tool in tools]
    return len(json.dumps(seen, separators=(",", ":"), ensure_ascii=False).encode()) / 4


def lint(tools: list[Schema], directory: Path) -> list[Schema]:
    """All findings of `tdqs lint`, of the server and of its tools."""
    listing = directory / "tools.json"
    listing.write_text(json.dumps({"tools": tools}))
    tdqs = Path(sys.executable).with_name("tdqs")
    command = [str(tdqs), "lint", "--file", str(listing), "--format", "json", "--fail-on", "never"]
    report = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert len(report["tools"]) == len(tools)
    of_tools = [finding for tool in report["tools"] for finding in [*tool["findings"], *tool["flags"]]]
    return [*report["findings"], *report["shadowCandidates"], *of_tools]

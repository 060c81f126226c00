"""What the plugin for Claude Code holds that is said elsewhere: its hooks, and the skill from the page for agents."""

import json
import re

from bgjob.clients.command import Server
from bgjob.clients.hooks import HOOKS
from tests.contracts.golden import ROOT

PLUGIN = ROOT / "plugins" / "claude-code"
PAGE = ROOT / "docs" / "for-agents.md"
SERVER = "plugin_bgjob_bgjob"
"""What Claude Code calls the server `bgjob` of the plugin `bgjob`, in the names of its tools."""
IN_THE_SKILL = (
    "When.",
    "Start, and wait in the same call.",
    "Never poll.",
    "Call a job",
    "Read only what is new.",
    "Answer prompts",
    "Coming back",
    "One dev server, not two",
    "End what you no longer need",
    "Secrets go into `env`, not into `command`",
)
"""How the paragraphs begin that a model needs before its first call; the server tells the rest."""
HEAD = """\
---
name: background-jobs
description: Run slow, endless or interactive shell commands as durable background jobs with bgjob, e.g. builds, test \
suites, dev servers, installs, REPLs and prompts. Use it instead of nohup, `&` or polling.
---

# Background jobs with bgjob
"""


def hooks() -> str:
    wanted = json.loads(HOOKS["claude"].by_hand(Server(SERVER, ("bgjob", "mcp"), {})))
    for groups in wanted["hooks"].values():
        for hook in groups[0]["hooks"]:
            script = "rewake" if "asyncRewake" in hook else "hook"
            hook["command"] = f'sh "${{CLAUDE_PLUGIN_ROOT}}/scripts/{script}"'
    return f"{json.dumps(wanted, indent=2)}\n"


def skill() -> str:
    sections = re.split(r"(?m)^(?=\*\*)", PAGE.read_text())[1:]
    chosen = [text for start in IN_THE_SKILL for text in sections if text.startswith(f"**{start}")]
    assert len(chosen) == len(IN_THE_SKILL), "a paragraph of docs/for-agents.md begins otherwise now"
    return f"{HEAD}\n{without_links(''.join(chosen)).rstrip()}\n"


def without_links(text: str) -> str:
    """The pages are not in the plugin: a sentence with a link to one is left out."""
    return re.sub(r"\s+[A-Z][^.]*\[[^]]+\]\([^)]+\)\.", "", text)

"""The rights that a token gives its holder over HTTP."""

from collections.abc import Mapping
from typing import Any, Literal

Scope = Literal["read", "run", "kill"]
SCOPES: Mapping[Scope, str] = {
    "read": "look at jobs",
    "run": "start jobs and type into them",
    "kill": "end jobs",
}


def scopes_of_start(arguments: Mapping[str, Any]) -> tuple[Scope, ...]:
    """What a start with these arguments of execute_command needs: a restart ends the job that runs."""
    return ("run", "kill") if arguments.get("if_running") == "restart" else ("run",)

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
    """Return the scopes that execute_command needs with these arguments: a restart ends the running job."""
    return ("run", "kill") if arguments.get("if_running") == "restart" else ("run",)

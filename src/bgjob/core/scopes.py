"""The rights that a token gives its holder over HTTP."""

from collections.abc import Mapping
from typing import Literal

Scope = Literal["read", "run", "kill"]
SCOPES: Mapping[Scope, str] = {
    "read": "look at jobs",
    "run": "start jobs and type into them",
    "kill": "end jobs",
}

"""The hold: while a person is attached to a job and types, nobody else types into it."""

import time
from collections.abc import Mapping
from typing import Any

from bgjob.core.errors import HeldByPerson


def check_not_held(job_id: str, answer: Mapping[str, Any]) -> None:
    """HeldByPerson: by this answer of its shim, what was to be typed was refused."""
    held = answer.get("held")
    if held is not None and not answer.get("ok"):
        raise HeldByPerson(job_id, held["by"], _utc(held["since"]), _utc(held["typed_at"]))


def _utc(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))

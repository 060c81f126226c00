"""Asks the relay of a target."""

from typing import Any

from bgjob.core.errors import TargetUnreachable


def ask_relay(_home: str, target: str, op: str = "info", patience_s: float = 10.0) -> dict[str, Any]:
    """TargetUnreachable: there is no answer within so long, or the target cannot be reached."""
    raise TargetUnreachable(target, f"this version has no relay to ask ({op}, {patience_s:.0f} s)")

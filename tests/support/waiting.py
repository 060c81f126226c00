"""The one way in which a test waits for what nothing announces."""

import time
from collections.abc import Callable

PATIENCE_S = 30.0


def wait_until(is_so: Callable[[], bool], what: str = "it comes true", then: Callable[[], str] = str) -> None:
    """For what the kernel tells nobody: look, often, with a generous limit. `then` says more when it is over."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, f"not in {PATIENCE_S:.0f} s: {what}. {then()}"
        time.sleep(0.002)

"""The one way in which a test waits for what nothing announces."""

import time
from collections.abc import Callable

PATIENCE_S = 120.0


def wait_until(
    is_so: Callable[[], bool],
    what: str = "it comes true",
    then: Callable[[], str] = str,
    within_s: float = PATIENCE_S,
    every_s: float = 0.002,
) -> None:
    """For what the kernel tells nobody: look, often, with a generous limit. `then` says more when it is over."""
    deadline = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < deadline, f"not in {within_s:.0f} s: {what}. {then()}"
        time.sleep(every_s)

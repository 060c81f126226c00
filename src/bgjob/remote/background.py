"""Work of a relay that goes on beside its calls. A bug in it ends the relay, and its keeper starts another."""

import asyncio
import os
import sys
import traceback
from collections.abc import Coroutine
from typing import Any, TypeVar

ERROR = "relay-error.txt"


Answer = TypeVar("Answer")


def start(work: Coroutine[Any, Any, Answer]) -> "asyncio.Task[Answer]":
    task = asyncio.create_task(work)
    task.add_done_callback(_check)
    return task


def _check(task: "asyncio.Task[Any]") -> None:
    if task.cancelled() or (error := task.exception()) is None:
        return
    leave_traceback(error)
    os._exit(1)


def leave_traceback(error: BaseException) -> None:
    """In the home, the working directory of a relay."""
    text = "".join(traceback.format_exception(error))
    try:
        with open(ERROR, "w") as file:
            file.write(text)
    except OSError:
        sys.stderr.write(text)

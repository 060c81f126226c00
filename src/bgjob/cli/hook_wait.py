"""The part of a hook that waits: until a job of the session has ended, or the client is gone."""

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from bgjob.home.event_log import EVENTS
from bgjob.system.client_session import client_process
from bgjob.system.inotify import Inotify

if TYPE_CHECKING:
    from bgjob.cli.hook import Call

FOR_EVER_S = 3600.0


def wait_for_ends(
    call: "Call", job_ids: Sequence[str] | None, tell: Callable[[Mapping[str, str]], bool]
) -> bool:
    """True: `tell` has told an end. False: none is left to be told, or the client is gone.

    `job_ids`: those that are waited for; None: all that the session expects, also jobs that begin meanwhile.
    """
    client = _client()
    with contextlib.closing(Inotify()) as inotify:
        inotify.watch(f"{call.home}/{EVENTS}")  # first: what happens while we look wakes us
        while _client() == client:
            if tell(call.ended(job_ids)):
                return True
            if not _are_expected(call, job_ids):
                return False
            # Ends early now and then: an answer that would have told an end may have been given up.
            inotify.wait(FOR_EVER_S)
    return False


def _client() -> tuple[int, str | None]:
    """Changes when the client is gone, also if a shell that it has run the hook by lives on."""
    return os.getppid(), client_process()


def _are_expected(call: "Call", job_ids: Sequence[str] | None) -> bool:
    expected = call.expected()
    return bool(expected) if job_ids is None else any(job_id in expected for job_id in job_ids)

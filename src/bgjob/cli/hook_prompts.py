"""The part of a hook that looks for jobs at a prompt: their shims know it. Each prompt is told once."""

import contextlib
from collections.abc import Mapping

from bgjob.home import sessions
from bgjob.home.jobdir import CONTROL
from bgjob.home.queue_dir import job_directory
from bgjob.link.control import NoShim, Patience, ask_shim

PATIENCE_S = 0.2
"""For all jobs together: a client waits for its hook."""


def untold_prompts(home: str, running: Mapping[str, str]) -> list[str]:
    """Jobs that sit at a prompt of which the session has not been told. `running`: the session of each job."""
    patience = Patience(PATIENCE_S, len(running))
    return [
        job_id
        for job_id, session in running.items()
        if (printed_bytes := _asks_after(home, job_id, patience.until())) is not None
        and sessions.claim_prompt(home, session, job_id, printed_bytes)
    ]


def _asks_after(home: str, job_id: str, deadline: float) -> int | None:
    """How much the job has printed, if it sits at a prompt."""
    with contextlib.suppress(NoShim, TimeoutError, OSError):
        told = ask_shim(f"{job_directory(home, job_id)}/{CONTROL}", deadline, op="waits")
        if told["prompt"] and told["quiet"]:
            printed_bytes: int = told["end"]
            return printed_bytes
    return None

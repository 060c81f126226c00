"""How long a job has run and been silent, whatever was done to the machine's clock meanwhile."""

import time

from bgjob.core.job import Job
from bgjob.system import processes

TICKS_APART_S = 1.0  # the kernel stamps files and processes a tick late, and a step of the clock is no second


def ran_s(job: Job) -> float | None:
    """How long the job has run until now; None in the instant before it is exec'd."""
    if job.run is None:
        return None
    known_s = _known_ran_s(job)
    return max(0.0, time.time() - job.run.started_at) if known_s is None else known_s


def idle_s(job: Job, written_at: float) -> float:
    """Since the job printed, or else since it began; `written_at` is 0 if it has printed nothing."""
    began = job.run.started_at if job.run else job.spec.created_at
    now, ran_s = time.time(), _known_ran_s(job)
    by_clock_s = now - (written_at or began)
    if ran_s is None:
        return max(0.0, by_clock_s)
    return likely_idle_s(by_clock_s, clock_set_by_s=now - began - ran_s, ran_s=ran_s)


def likely_idle_s(by_clock_s: float, *, clock_set_by_s: float, ran_s: float) -> float:
    """If the clock was set while the job ran: was that before its last byte, or after?

    Of the two possible times, the one that fits into the life of the job; the shorter if both do, zero if
    neither does: a wait for silence must not end early.
    """
    possible = (by_clock_s, by_clock_s - clock_set_by_s)
    likely = [idle for idle in possible if -TICKS_APART_S <= idle <= ran_s + TICKS_APART_S]
    return min(max(0.0, min(likely, default=0.0)), ran_s)


def _known_ran_s(job: Job) -> float | None:
    """By its process, if that is of this machine."""
    return _ran_s(job.run.pid) if job.run and job.spec.target is None else None


def _ran_s(pid: int) -> float | None:
    """By the kernel's clock since boot, which cannot be set; None where the kernel does not tell."""
    start_ticks = processes.stat_of(pid)[processes.START_TICKS]
    return max(0.0, processes.age_s(start_ticks)) if start_ticks else None

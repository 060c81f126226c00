"""Why a run of a job ended, or is being ended.

    exited, signaled            it ended by itself
    killed, timed_out           a client, a signal to the shim or the job's timeout ended it
    over_limit:<limit>          it used more than it may

A cause is a text, because it goes to the guard as one, also to a guard of the version before.
"""

from __future__ import annotations


class Cause(str):
    __slots__ = ()

    @classmethod
    def over_limit(cls, limit: str) -> Cause:
        return cls(f"over_limit:{limit}")

    @property
    def kind(self) -> str:
        return self.partition(":")[0]

    @property
    def limit(self) -> str | None:
        """Which limit, if it was one."""
        return self.partition(":")[2] or None

    @property
    def ends_one_run(self) -> bool:
        """And not the job. Limits count anew for each run, except for output, which is that of all runs."""
        return self in (EXITED, SIGNALED) or self.limit not in (None, "output")


EXITED, SIGNALED, KILLED, TIMED_OUT = map(Cause, ("exited", "signaled", "killed", "timed_out"))

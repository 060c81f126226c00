"""Running a command: start it or find it running, and perhaps wait for it, in one call."""

from collections.abc import Callable, Mapping
from typing import Literal, Unpack, assert_never

from bgjob.api.conditions import Conditions
from bgjob.api.interact import Steering
from bgjob.api.output import Shown
from bgjob.api.results import Ran
from bgjob.api.start import Options, Starting
from bgjob.api.wait import Cancellation, Tell, Waiting
from bgjob.core.errors import AlreadyRunning, InvalidArgument
from bgjob.core.job import Job, Lost, Queued, Running

IfRunning = Literal["new", "reuse", "refuse", "restart"]


class Executing(Starting, Steering, Waiting):
    def run(
        self,
        command: str,
        *,
        if_running: IfRunning = "new",
        wait_s: float = 0.0,
        shown: Shown | None = None,
        cancellation: Cancellation | None = None,
        tell: Tell | None = None,
        **options: Unpack[Options],
    ) -> Ran:
        name = options.get("name")
        job, reused = self._ensure(name, if_running, lambda: self.execute(command, **options))
        if reused and isinstance(job.state, Queued):
            self._move(job, options.get("terms"))
        if wait_s <= 0 or isinstance(job.state, Lost):
            return Ran(job, reused, None, self._place(job) if isinstance(job.state, Queued) else None)
        waited = self.wait(
            [job.id], Conditions(), timeout_s=wait_s, shown=shown, cancellation=cancellation, tell=tell
        )
        look = waited[0].look
        return Ran(look.job, reused, waited[0], look.place)

    def _move(self, job: Job, terms: Mapping[str, object] | None) -> None:
        """Asked for again, it may have become more urgent."""
        priority = self._terms(terms).get("priority")
        if priority is not None:
            self._moved(job.id, priority)  # if it has started meanwhile, so much the better

    def _ensure(self, name: str | None, if_running: IfRunning, start: Callable[[], Job]) -> tuple[Job, bool]:
        """(the job, whether it ran before). Of several callers at once with one name, one starts it."""
        if if_running == "new":
            return start(), False
        if not name:
            raise InvalidArgument(
                f"if_running={if_running!r} needs a name: it is by its name that a job is found."
            )
        with self._store.name_lock(name):
            running = self._running(name)
            if running is None:
                return start(), False
            match if_running:
                case "reuse":
                    return running, True
                case "refuse":
                    raise AlreadyRunning(name, running.id)
                case "restart":
                    self.kill(running.id)
                    return start(), False
                case _:
                    assert_never(if_running)

    def _running(self, name: str) -> Job | None:
        for _, job in self._store.jobs():
            if job.spec.name == name and isinstance(job.state, Running):
                return job
        return None

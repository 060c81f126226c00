"""Steering a job: what is typed into it, and its end."""

import signal
import time
from typing import Any

from bgjob import processes
from bgjob.api.answers import Interaction, Kill, KillWord
from bgjob.api.read import Reading
from bgjob.control import Line, NoShim
from bgjob.errors import InvalidArgument, JobNotFound, NotRunning, NotSteerable, StdinClosed
from bgjob.job import Job, Lost, Running

QUIET_S = 0.005  # a job that has printed and then nothing for so long has answered
SHIM_PATIENCE_S = 10.0
KILL_PATIENCE_S = 20.0


class Steering(Reading):
    def interact(
        self, job_id: str, text: str, *, wait_s: float = 0.5, close_stdin: bool = False
    ) -> Interaction:
        data = _input_bytes(text, close_stdin)
        if not isinstance(self._store.load(job_id).state, Running):
            raise NotRunning(job_id)
        try:
            fed, answered = self._feed(job_id, data, wait_s, close_stdin)
        except NoShim:
            if isinstance(self._store.load(job_id).state, Running):
                raise NotSteerable(job_id, "its shim does not answer") from None
            raise NotRunning(job_id) from None
        except TimeoutError:
            raise NotSteerable(job_id, "its shim does not answer in time") from None
        output = self.output(job_id, since=str(fed["at"]))
        return Interaction(output, fed["accepted"], answered["unread"])

    def _feed(
        self, job_id: str, data: bytes, wait_s: float, close_stdin: bool
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        deadline = time.monotonic() + wait_s
        patience_s = wait_s + SHIM_PATIENCE_S
        with Line(self._store.control_path(job_id)) as shim:
            fed = shim.ask(patience_s, data, op="stdin", length=len(data), close=close_stdin, wait_s=wait_s)
            self._check_fed(job_id, fed)
            return fed, _wait_for_answer(shim, fed["at"], deadline - time.monotonic()) or fed

    def _check_fed(self, job_id: str, fed: dict[str, Any]) -> None:
        if fed["ok"]:
            return
        if isinstance(self._store.load(job_id).state, Running):
            raise StdinClosed(job_id)
        raise NotRunning(job_id)

    def kill(self, job_id: str, *, grace_s: float = 5.0, signal: str = "TERM") -> Kill:
        number = _signal_number(signal)
        try:
            job = self._store.load(job_id)
        except JobNotFound:
            return Kill("not_found", 0, None)
        if not self._store.has_shim(job_id):
            return self._kill_without_shim(job)
        try:
            with Line(self._store.control_path(job_id)) as shim:
                answer = shim.ask(grace_s + KILL_PATIENCE_S, op="kill", signal=number, grace_s=grace_s)
        except NoShim:
            return self._kill_without_shim(self._settled(job_id))
        except TimeoutError:
            left = len(self._processes(self._store.load(job_id)))
            raise NotSteerable(job_id, f"{left} of its processes do not die, not even of SIGKILL") from None
        word: KillWord = "killed" if answer["was_running"] else "already_terminated"
        return Kill(word, answer["processes"], self._store.load(job_id))

    def _kill_without_shim(self, job: Job) -> Kill:
        """It has ended; or its shim was killed, and what is left of it must go."""
        left = processes.kill_marked(job.id) if isinstance(job.state, Lost) else 0
        return Kill("killed" if left else "already_terminated", left, job)

    def _settled(self, job_id: str) -> Job:
        """A dying shim's socket closes a moment before its lock is free."""
        deadline = time.monotonic() + SHIM_PATIENCE_S
        while self._store.has_shim(job_id) and time.monotonic() < deadline:
            time.sleep(0.002)
        return self._store.load(job_id)


def _wait_for_answer(shim: Line, offset: int, patience_s: float) -> dict[str, Any] | None:
    """Until the job has printed something and gone quiet, or ended, or the time is up."""
    if patience_s <= 0:
        return None
    try:
        return shim.ask(
            patience_s + SHIM_PATIENCE_S, op="wait", beyond=offset, quiet_s=QUIET_S, timeout_s=patience_s
        )
    except NoShim:
        return None  # it has ended meanwhile


def _input_bytes(text: str, close_stdin: bool) -> bytes:
    """A newline is added where the input has none; nothing at all may be sent to close stdin."""
    if not text.endswith("\n") and (text or not close_stdin):
        text += "\n"
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"input is not valid Unicode at character {error.start}.") from None


def _signal_number(name: str) -> int:
    full = name.upper() if name.upper().startswith("SIG") else f"SIG{name.upper()}"
    if full not in signal.Signals.__members__:
        raise InvalidArgument(
            f"signal={name[:40]!r} is not a signal. Accepted: names such as TERM, INT, HUP, KILL."
        )
    return signal.Signals[full]

"""One trial: a system call fails, or takes long, in one process of a job; and what must be true all the same."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from bgjob.api import Typed
from bgjob.core.errors import BgjobError, NotRunning, NotSteerable, StdinClosed
from bgjob.core.job import Exited, Lost, NeverStarted, Running, State
from bgjob.home.log_format import STDERR, STDOUT
from bgjob.system import processes
from tests.chaos.stage import Launch, Role, Scene, Server, Stage, Violation
from tests.support.logs import missing_bytes
from tests.support.process_table import end_whoever_is_in, go_on
from tests.support.waiting import wait_until

DELAY = "a delay of 200 ms"
FAULTS = ("ENOSPC", "EDQUOT", "EIO", "EMFILE", "ENFILE", "EAGAIN", "ENOMEM", "EINTR", DELAY)
CALLS = {
    "open": ("openat",),
    "write": ("write", "pwrite64"),
    "splice": ("splice",),
    "rename": ("rename", "renameat", "renameat2"),
    "fsync": ("fsync", "fdatasync"),
    "fork": ("clone", "clone3", "fork", "vfork"),
    "pipe": ("pipe2",),
    "mkdir": ("mkdir", "mkdirat"),
    "socket": ("socket", "socketpair"),
}
KIND = {name: kind for kind, names in CALLS.items() for name in names}
LINE = re.compile(r"^([a-z0-9_]+)\(", re.MULTILINE)
HANG_S = 10.0
LASTING_S = 2.0


class Injection(NamedTuple):
    """A fault at some of the times that a process makes this system call, counted from 1: 3, 1..5, or 3+ for ever."""

    call: str
    fault: str
    when: str

    @property
    def expression(self) -> str:
        effect = "delay_enter=200000" if self.fault == DELAY else f"error={self.fault}"
        return f"{self.call}:{effect}:when={self.when}"

    @property
    def lasts(self) -> bool:
        return self.when.endswith("+")

    def __str__(self) -> str:
        return f"{self.fault} at {self.call}#{self.when}"


class Saboteur:
    """strace, attached to one stopped process: it spoils some of its calls, or counts them all."""

    def __init__(self, pid: int, injection: Injection | None, notes: Path) -> None:
        self._notes = notes
        watched = injection.call if injection else ",".join(f"?{name}" for name in KIND)
        spoil = ["-e", f"inject={injection.expression}"] if injection else []
        self._strace = subprocess.Popen(
            ["strace", "-o", str(notes), "-e", f"trace={watched}", *spoil, "-p", str(pid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        assert self._strace.stderr is not None
        with self._strace.stderr as words:
            first_words = words.readline()
        assert b"attached" in first_words, first_words
        go_on(pid)

    def strikes(self) -> int:
        """How many calls were spoilt; once the process is gone."""
        seen = self._seen()
        return seen.count("(INJECTED)") + seen.count("(DELAYED)")

    def counts(self) -> Counter[str]:
        return Counter(LINE.findall(self._seen()))

    def _seen(self) -> str:
        self._strace.wait(HANG_S)
        return self._notes.read_text()

    @property
    def was_stopped(self) -> bool:
        return self._strace.poll() == -signal.SIGKILL

    def stop(self) -> None:
        """The process goes on, unspoilt."""
        if self._strace.poll() is None:
            self._strace.kill()
        self._strace.wait()


# -- the job --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """Prints on both streams, reads a line, prints more, and exits with 9."""

    name: str
    numbers: int
    options: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    is_bounded: bool = False

    @property
    def command(self) -> str:
        quiet = "stty -echo -opost; " if self.options.get("pty") else ""
        return (
            f"{quiet}echo aside >&2; seq 1 {self.numbers}; echo ready; "
            f"read -r line; echo got $line; seq 1 {self.numbers}; echo last >&2; exit 9"
        )

    def printed(self, line: str) -> dict[int, bytes]:
        numbers = "".join(f"{number}\n" for number in range(1, self.numbers + 1))
        stdout, stderr = f"{numbers}ready\ngot{line and ' '}{line}\n{numbers}", "aside\nlast\n"
        if self.options.get("pty"):
            stdout, stderr = f"aside\n{stdout}last\n", ""
        return {STDOUT: stdout.encode(), STDERR: stderr.encode()}


PIPES = Job("pipes", 20_000)
BOUNDED = Job("a bounded log", 10_000, settings={"MCP_BG_MAX_OUTPUT_SIZE": "40000"}, is_bounded=True)
TERMINAL = Job("a terminal", 2_000, options={"pty": True})


@dataclass(frozen=True)
class Case:
    """Who is spoilt, and what it does meanwhile. A guard has its shim killed, or else it would sleep."""

    role: Role
    job: Job = PIPES
    launch: Launch = "zygote running"

    def __str__(self) -> str:
        return f"{self.role} ({self.launch if self.role == 'starter' else self.job.name})"

    def may_cost_output(self, injection: Injection | None) -> bool:
        """A bounded log always does; else it takes a fault where the log is written."""
        if self.job.is_bounded or injection is None:
            return self.job.is_bounded
        is_near = self.role != "starter" and KIND[injection.call] in ("open", "write", "splice", "mkdir")
        is_retried = injection.fault == DELAY or (
            injection.fault == "EINTR" and "mkdir" not in injection.call
        )
        return is_near and not is_retried


@dataclass(frozen=True)
class Result:
    case: Case
    injection: Injection
    strikes: int
    outcome: str
    """What became of the job; or which rule does not hold."""
    violates: bool = False
    crash: str = ""

    def __str__(self) -> str:
        return f"{self.case}, {self.injection}: {self.outcome} {self.crash}"


def counts_of(stage: Stage, case: Case) -> Counter[str]:
    """What the process calls when nothing fails."""
    with stage.scene(**case.job.settings) as scene:
        trial = Trial(scene, case, None)
        outcome = trial.outcome()
        assert outcome == "whole" or case.job.is_bounded, outcome
        return trial.saboteur.counts()


def attempt(stage: Stage, case: Case, injection: Injection) -> Result:
    with stage.scene(**case.job.settings) as scene:
        try:
            trial = Trial(scene, case, injection)
            outcome = trial.outcome()
            result = Result(case, injection, trial.saboteur.strikes(), outcome, crash=crash_in(scene))
        except (Violation, AssertionError, BgjobError, subprocess.TimeoutExpired) as why:
            end_whoever_is_in(scene.home)
            return Result(case, injection, 1, f"{type(why).__name__}: {why}", True, crash_in(scene))
    shutil.rmtree(scene.directory)
    return result


class Trial:
    def __init__(self, scene: Scene, case: Case, injection: Injection | None) -> None:
        self._scene, self._case, self._injection = scene, case, injection
        self._jobs = scene.jobs
        self._server, pid = cast(scene, case)
        self._descriptors = descriptors(self._server)
        self.saboteur = Saboteur(pid, injection, scene.directory / "trace")
        scene.leave.callback(self.saboteur.stop)

    def outcome(self) -> str:
        answer = self._ask()
        self._lift_later()
        outcome = self._see_nothing_runs(answer["error"]) if "error" in answer else self._see(answer["id"])
        self._scene.dismiss()
        wait_until(lambda: not self._scene._held(), "everything is free")
        for job_id in self._scene.job_ids():
            if left := processes.marked(job_id):
                raise Violation(f"processes are left: {left}")
        return outcome

    def _ask(self) -> dict[str, str]:
        began = time.monotonic()
        self._server.ask(self._case.job.command, self._case.job.options)
        try:
            answer = self._server.answer()
        except TimeoutError:
            raise Violation("execute does not answer") from None
        took_s = time.monotonic() - began
        if took_s > HANG_S:
            raise Violation(f"execute took {took_s:.1f} s")
        if not answer:
            raise Violation("execute has raised what is no BgjobError")
        if leaked := descriptors(self._server) - self._descriptors:
            raise Violation(f"the server has opened {leaked} and not closed: {answer}")
        return answer

    def _see_nothing_runs(self, error: str) -> str:
        """An error is clean if it says what to do, if nothing runs, and if what is on disk says so."""
        if not error.startswith("CannotStart: ") or "and call again" not in error:
            raise Violation(f"what shall one do about {error!r}?")
        for job_id in self._scene.job_ids():
            wait_until(lambda: not self._is_running(job_id), f"nothing runs after {error!r}")  # noqa: B023
            if not was_never_started(state := self._state(job_id)):
                raise Violation(f"execute has answered {error!r}, and the job is {state}")
        return "refused"

    def _lift_later(self) -> None:
        """A fault that lasts is over some time: space is freed, memory is there again."""
        if self._injection and self._injection.lasts:
            timer = threading.Timer(LASTING_S, self.saboteur.stop)
            timer.start()
            self._scene.leave.callback(timer.join)
            self._scene.leave.callback(timer.cancel)

    def _see(self, job_id: str) -> str:
        if self._is_taken_over:
            self._kill_the_shim(job_id)
        line = self._type_a_line(job_id)
        self._wait(job_id, "its end")
        outcome = self._judge(job_id, self._state(job_id), line)
        return f"{outcome}, once the fault was over" if self.saboteur.was_stopped else outcome

    @property
    def _is_taken_over(self) -> bool:
        """A guard sleeps unless its shim is killed; but one that never came to be cannot take over."""
        is_born = self._injection is None or KIND[self._injection.call] not in ("fork", "socket")
        return self._case.role == "guard" and is_born

    def _kill_the_shim(self, job_id: str) -> None:
        self._wait(job_id, "ready", pattern="ready", literal=True)
        run = self._jobs.status(job_id).job.run
        assert run is not None
        os.kill(run.shim_pid, signal.SIGKILL)

    def _type_a_line(self, job_id: str) -> str:
        """What the job has read then: nothing, if its stdin is closed, or if it has come to no good."""
        for _ in range(100):
            self._wait(job_id, "its question", for_input=True)
            try:
                if self._jobs.interact(job_id, Typed("hello")).accepted_bytes:
                    return "hello"
            except NotSteerable:
                continue
            except (NotRunning, StdinClosed):
                return ""
        raise Violation("it cannot be typed into")

    def _wait(self, job_id: str, what: str, **condition: Any) -> None:
        came = self._jobs.wait_for([job_id], timeout_s=LASTING_S + HANG_S, **condition)[0].came
        if came is None or came.is_unasked_prompt:
            raise Violation(f"there is no {what}, but {came}: {self._state(job_id)}")

    def _state(self, job_id: str) -> State:
        return self._jobs.status(job_id).job.state

    def _is_running(self, job_id: str) -> bool:
        return isinstance(self._state(job_id), Running)

    def _judge(self, job_id: str, state: State, line: str) -> str:
        if isinstance(state, Lost | NeverStarted):
            return self._judge_failed(job_id, state)
        if not isinstance(state, Exited) or state.code != 9:
            raise Violation(f"it ended as {state}")
        wait_until(lambda: not self._jobs.has_shim(job_id), "its lock is free")
        printed = self._case.job.printed(line)
        if (state.stdout_bytes, state.stderr_bytes) != tuple(map(len, printed.values())):
            raise Violation(f"it has printed {[len(data) for data in printed.values()]}, and not {state}")
        missing = missing_bytes(self._jobs, job_id, self._scene.home / "jobs" / job_id / "log", printed)
        if missing and not self._case.may_cost_output(self._injection):
            raise Violation(f"{missing} bytes are missing")
        return "whole, with a counted gap" if missing else "whole"

    def _judge_failed(self, job_id: str, state: State) -> str:
        """Two faults at once may lose a job. One must not, unless it has never run."""
        left = processes.marked(job_id)
        if was_never_started(state) and not left and not self._is_taken_over:
            return "never started"
        if was_never_started(state) or not self._is_taken_over:
            raise Violation(f"it is {state}, and {left} run")
        self._jobs.kill(job_id, grace_s=0)
        return "lost, and ended by kill_job" if left else "lost"


def cast(scene: Scene, case: Case) -> tuple[Server, int]:
    """A server, and the pid of the one that is stopped to be spoilt."""
    if case.role == "starter":
        server = scene.with_server(case.launch)
        server.stop()
        return server, server.pid
    zygote = scene.with_zygote(case.role)
    return scene.with_server_of(zygote), zygote.stopped_pid()


def descriptors(server: Server) -> set[str]:
    """What a server has open, but for sockets: it may have booted a zygote."""
    found = set()
    for path in Path(f"/proc/{server.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.add(f"{path.name} {path.readlink()}")
    return {entry for entry in found if "socket:" not in entry}


def was_never_started(state: State) -> bool:
    return isinstance(state, NeverStarted) or (isinstance(state, Lost) and "never started" in state.reason)


def crash_in(scene: Scene) -> str:
    """What a shim or guard has died of, if it has left word."""
    words = [path.read_text().splitlines() for path in scene.home.glob("jobs/*/shim-error.txt")]
    return f"(died of {'; '.join(lines[-1] if lines else '?' for lines in words)})" if words else ""

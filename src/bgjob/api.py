"""The door: the verbs that every face uses."""

import contextlib
import os
import shutil
import signal
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from bgjob import excerpt, policy, processes
from bgjob.config import Settings, own_variables, settings_from
from bgjob.control import Line, NoShim
from bgjob.errors import (
    BadSetting,
    InvalidArgument,
    InvalidCommand,
    JobLimitReached,
    JobNotFound,
    NotRunning,
    NotSteerable,
    StdinClosed,
)
from bgjob.job import Job, Lost, Running, Spec, StatusWord, status_word
from bgjob.log_format import STDERR, STDOUT
from bgjob.log_reader import LogReader, Rotated
from bgjob.spawn import Handover, Spawner
from bgjob.store import JOB_ID, Store, run_from

Answer = TypeVar("Answer")
KillWord = Literal["killed", "already_terminated", "not_found"]

SHELLS = ("sh", "bash", "dash", "zsh", "ksh")
DEFAULT_SHELL = "/bin/sh"
QUIET_S = 0.005  # a job that has printed and then nothing for so long has answered
SHIM_PATIENCE_S = 10.0
KILL_PATIENCE_S = 20.0
READ_TRIES = 100
FOLLOW_BYTES = 1 << 20
FOLLOW_PATIENCE_S = 3600.0


@dataclass(frozen=True)
class Output:
    stdout: str
    stderr: str
    cursor: str
    """Pass as `since` to get only what is printed after this answer."""
    stdout_left_out_bytes: int = 0
    """Bytes this answer leaves out but the log still has; the text says where, and the cursor to read them."""
    stderr_left_out_bytes: int = 0
    stdout_dropped_bytes: int = 0
    """Bytes the log no longer has (output limit, full disk); the text says where."""
    stderr_dropped_bytes: int = 0


@dataclass(frozen=True)
class Interaction:
    output: Output
    accepted_bytes: int
    """How much of the input went into the job's stdin."""
    unread_bytes: int
    """How much of that the job has not read yet."""


@dataclass(frozen=True)
class Kill:
    status: KillWord
    processes: int
    """How many processes were alive when the kill began; none are when it answers."""
    job: Job | None


@dataclass(frozen=True)
class Page:
    jobs: list[Job]
    next_cursor: str | None
    """None: this was the last page."""


@dataclass(frozen=True)
class Chunk:
    """Bytes as the job printed them; `dropped_bytes` are missing before them."""

    stream: int
    data: bytes
    end: int
    dropped_bytes: int


@dataclass(frozen=True)
class Look:
    job: Job
    output_bytes: int
    descendants: int
    """Processes of the job that are alive now, its main process included while it runs."""


def open_jobs(environ: Mapping[str, str], *, many: bool = True) -> "Jobs":
    """The door to the store that this environment names. `many`: worth having a zygote for."""
    settings = settings_from(environ)
    if not os.path.isdir(settings.working_dir):
        raise BadSetting("MCP_BG_WORKING_DIR", settings.working_dir, "a directory that exists")
    return Jobs(Store(home_from(environ)), settings, environ, Spawner(zygote=many))


def home_from(environ: Mapping[str, str]) -> str:
    if home := environ.get("BGJOB_HOME"):
        return home
    state = environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(state, "bgjob")


class Jobs:
    def __init__(
        self, store: Store, settings: Settings, environ: Mapping[str, str], spawner: Spawner
    ) -> None:
        self._store, self._settings, self._spawner = store, settings, spawner
        own = own_variables(environ)
        self._environment = {name: value for name, value in environ.items() if name not in own}

    def warm_up(self) -> None:
        """Get ready for a first job before it comes."""
        self._spawner.warm_up()

    def close(self) -> None:
        self._spawner.close()

    # -- start --------------------------------------------------------------------------------------

    def execute(
        self,
        command: str,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        name: str | None = None,
        timeout_s: float | None = None,
        shell: str | None = None,
    ) -> Job:
        self._check_policy(command, cwd, env)
        spec = Spec(
            id=str(uuid.uuid4()),
            command=command,
            shell=_shell(shell),
            cwd=_directory(self._settings.working_dir, cwd),
            created_at=time.time(),
            max_output_bytes=self._settings.max_output_bytes,
            name=name,
            timeout_s=timeout_s if timeout_s is not None else self._settings.job_timeout_s,
        )
        self._clean()
        return self._launch(spec, {**self._environment, **_checked_environment(env or {})})

    def _check_policy(self, command: str, cwd: str | None, env: Mapping[str, str] | None) -> None:
        allowed = self._settings.allowed_commands
        if why := policy.broken_rule(command, allowed):
            raise InvalidCommand(why)
        if allowed and env:
            raise InvalidCommand(
                "env cannot be set while MCP_BG_ALLOWED_COMMANDS is: it can change what a command runs"
            )
        if (
            allowed
            and cwd
            and not _is_inside(_directory(self._settings.working_dir, cwd), self._settings.working_dir)
        ):
            raise InvalidCommand("cwd must be inside MCP_BG_WORKING_DIR while MCP_BG_ALLOWED_COMMANDS is set")

    def _launch(self, spec: Spec, environment: Mapping[str, str]) -> Job:
        with contextlib.ExitStack() as ours:
            slot = self._store.claim_slot(self._settings.max_jobs)
            if slot is None:
                raise JobLimitReached(self._settings.max_jobs)
            ours.callback(os.close, slot)
            new = self._store.create(spec)
            ours.callback(os.close, new.lock)
            start = self._spawner.start(Handover(new.directory, new.lock, slot, environment))
            self._store.make_durable(new)  # while the child is being exec'd
            run = run_from(start.finish())
        return Job(spec, Running(run), run) if run else self._store.load(spec.id)

    # -- look ---------------------------------------------------------------------------------------

    def look(self, job_id: str) -> Look:
        job = self._store.load(job_id)
        output_bytes = self._reading(job_id, lambda log: log.end)
        return Look(job, output_bytes, len(self._processes(job)))

    def list(self, status: StatusWord | None = None, limit: int = 100, cursor: str | None = None) -> Page:
        self._clean()
        found: list[tuple[str, Job]] = []
        for place, job in self._store.jobs(before=cursor):
            if status is None or status_word(job.state) == status:
                if len(found) == limit:
                    return Page([job for _, job in found], found[-1][0])
                found.append((place, job))
        return Page([job for _, job in found], None)

    def find(self, prefix: str) -> Job:
        """The one job whose id or name starts so: for people, who do not type UUIDs."""
        if JOB_ID.fullmatch(prefix):
            return self._store.load(prefix)
        by_id = [job_id for _, job_id in self._store.ids() if prefix and job_id.startswith(prefix)]
        if len(by_id) == 1:
            return self._store.load(by_id[0])
        if len(by_id) > 1:
            raise InvalidArgument(
                f"{prefix!r} fits {len(by_id)} jobs: {', '.join(by_id[:5])}. Give more of the id."
            )
        for _, job in self._store.jobs():
            if job.spec.name == prefix:
                return job
        raise JobNotFound(prefix)

    def _processes(self, job: Job) -> Sequence[int]:
        if isinstance(job.state, Lost):
            return processes.marked(job.id)
        if job.run is None or not (isinstance(job.state, Running) or self._store.has_shim(job.id)):
            return []
        return processes.alive(processes.descendants(job.run.shim_pid))

    # -- read ---------------------------------------------------------------------------------------

    def output(self, job_id: str, since: str | None = None) -> Output:
        running = isinstance(self._store.load(job_id).state, Running)
        return self._reading(job_id, lambda log: self._window(log, since, running))

    def tail(self, job_id: str, lines: int = 50) -> Output:
        self._store.load(job_id)
        budget = self._settings.max_response_bytes

        def read(log: LogReader) -> Output:
            stdout, stderr = (excerpt.tail(log, stream, lines, budget) for stream in (STDOUT, STDERR))
            return _output(stdout, stderr, log.end)

        return self._reading(job_id, read)

    def follow(self, job_id: str, wait: bool) -> Iterator[Chunk]:
        """Everything the job printed, in the order of the log; with `wait`, until it has ended."""
        at = 0
        while True:
            ended = not isinstance(
                self._store.load(job_id).state, Running
            )  # asked first: then the log is whole
            for chunk in self._reading(job_id, lambda log, at=at: list(_chunks(log, at))):  # type: ignore[misc]
                yield chunk
                at = chunk.end
            if (ended or not wait) and at >= self._reading(job_id, lambda log: log.end):
                return
            if wait and not ended:
                self._wait_beyond(job_id, at)

    def _wait_beyond(self, job_id: str, offset: int) -> None:
        with contextlib.suppress(NoShim, TimeoutError), Line(self._store.control_path(job_id)) as shim:
            shim.ask(FOLLOW_PATIENCE_S, op="wait", beyond=offset)

    def _window(self, log: LogReader, since: str | None, running: bool) -> Output:
        view = excerpt.window(since, log.end)
        budget = self._settings.max_response_bytes
        stdout, stderr = (excerpt.whole(log, stream, view, budget, running) for stream in (STDOUT, STDERR))
        return _output(stdout, stderr, view.end)

    def _reading(self, job_id: str, read: "Callable[[LogReader], Answer]") -> "Answer":
        directory = self._store.log_directory(job_id)
        for _ in range(READ_TRIES):
            with contextlib.suppress(Rotated):
                return read(LogReader(directory))
        raise NotSteerable(job_id, "its output is replaced faster than it can be read")

    # -- steer --------------------------------------------------------------------------------------

    def interact(
        self, job_id: str, text: str, *, wait_s: float = 0.5, close_stdin: bool = False
    ) -> Interaction:
        data = _input_bytes(text, close_stdin)
        if not isinstance(self._store.load(job_id).state, Running):
            raise NotRunning(job_id)
        deadline = time.monotonic() + wait_s
        try:
            with Line(self._store.control_path(job_id)) as shim:
                fed = shim.ask(
                    wait_s + SHIM_PATIENCE_S,
                    data,
                    op="stdin",
                    length=len(data),
                    close=close_stdin,
                    wait_s=wait_s,
                )
                self._check_fed(job_id, fed)
                answered = _wait_for_answer(shim, fed["at"], deadline - time.monotonic()) or fed
        except NoShim:
            if isinstance(self._store.load(job_id).state, Running):
                raise NotSteerable(job_id, "its shim does not answer") from None
            raise NotRunning(job_id) from None
        except TimeoutError:
            raise NotSteerable(job_id, "its shim does not answer in time") from None
        output = self.output(job_id, since=str(fed["at"]))
        return Interaction(output, fed["accepted"], answered["unread"])

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

    def _clean(self) -> None:
        settings = self._settings
        self._store.clean(settings.keep_jobs, settings.keep_days, settings.cleanup_interval_s)


def _chunks(log: LogReader, start: int) -> Iterator[Chunk]:
    """The next megabyte or so."""
    at = start
    for stream, piece in log.interleaved(start, log.end):
        yield Chunk(stream, piece.data, piece.end, piece.start - at)
        at = piece.end
        if at - start > FOLLOW_BYTES:
            return


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


def _output(stdout: excerpt.Excerpt, stderr: excerpt.Excerpt, cursor: int) -> Output:
    return Output(
        stdout.text,
        stderr.text,
        str(cursor),
        stdout.left_out_bytes,
        stderr.left_out_bytes,
        stdout.dropped_bytes,
        stderr.dropped_bytes,
    )


def _shell(name: str | None) -> str:
    if name is None:
        return DEFAULT_SHELL
    path = shutil.which(name) if name in SHELLS else None
    if path is None:
        found = ", ".join(shell for shell in SHELLS if shutil.which(shell))
        raise InvalidArgument(f"shell={name[:40]!r} is not one we can use here. Accepted: {found}.")
    return path


def _directory(base: str, path: str | None) -> str:
    directory = os.path.abspath(os.path.join(base, os.path.expanduser(path) if path else ""))
    if "\0" in directory or not os.path.isdir(directory):
        raise InvalidArgument(f"cwd={path!r} is not a directory that exists: looked at {directory!r}.")
    return directory


def _is_inside(path: str, base: str) -> bool:
    base = os.path.realpath(base)
    return os.path.commonpath([os.path.realpath(path), base]) == base


def _checked_environment(env: Mapping[str, str]) -> Mapping[str, str]:
    for name, value in env.items():
        if not name or "=" in name or "\0" in name + value:
            raise InvalidArgument(
                f"env has {name[:40]!r}: a name must not be empty or contain =, nothing may contain NUL."
            )
    return env


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

"""Starting jobs."""

import contextlib
import json
import math
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypedDict, Unpack

from bgjob.api.status import Looking
from bgjob.core import options, policy
from bgjob.core.config import Settings
from bgjob.core.errors import (
    CannotStart,
    InvalidArgument,
    InvalidCommand,
    JobLimitReached,
    JobNotFound,
    NotAllowed,
    WorkingDirectoryGone,
)
from bgjob.core.job import Job, Lost, NeverStarted, Queued, Running, Spec
from bgjob.core.patterns import compile_pattern
from bgjob.home import event_log, jobdir, queue_dir, watch_registry
from bgjob.link.spawn import Handover, packed
from bgjob.output.cleaner import first_hidden
from bgjob.store import quota
from bgjob.store.records import run_from
from bgjob.terminal.size import MOST_COLS, MOST_ROWS

SHELLS = ("sh", "bash", "dash", "zsh", "ksh")
DEFAULT_SHELL = "/bin/sh"
NAME_MAX_CHARACTERS = 200
# elsewhere these can be seen; in a name they are controls too
BLANKS = {ord(letter): "\r" for letter in "\n\t"}
MOST_WATCHES = 20
MOST_COMMAND_BYTES = jobdir.RECORD_MAX_BYTES - (1 << 20)  # as JSON: what is started can be read again
JSON_MAX_BYTES = 12  # of one character
MANY_WITHIN_S = 0.03
VARIABLE = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)")
# a desktop's too: a notification is what many want of an event
HOOK_VARIABLES = (
    *("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER"),
    *("DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR"),
)


class Options(TypedDict, total=False):
    """How a command is run: what `execute` takes beside it."""

    cwd: str | None
    env: Mapping[str, str] | None
    name: str | None
    timeout_s: float | None
    shell: str | None
    pty: bool
    rows: int
    cols: int
    queue: bool
    after: Sequence[str] | None
    watch: Sequence[str] | None
    terms: Mapping[str, object] | None
    """See bgjob.core.options."""


class Starting(Looking):
    _queued_at = -math.inf

    def execute(self, command: str, **asked: Unpack[Options]) -> Job:
        """A job that runs; or that has failed already, and says why."""
        env = asked.get("env") or {}
        self._check_policy(command, asked.get("cwd"), env)
        given = self._terms(asked.get("terms"))
        spec = self._spec(command, given, **asked)
        environment = {**self._environment, **_checked_environment(env)}
        if self._settings.allowed_commands:
            environment |= policy.NO_SHELL_ESCAPES
        try:
            self._store.prepare()
            self._clean()
            self._make_room()
            with self._watched(spec):
                return self._begin(spec, environment, given.get("priority", 0))
        except OSError as error:
            raise CannotStart(error, self._store.home) from error

    def _begin(self, spec: Spec, environment: Mapping[str, str], priority: int) -> Job:
        """At once where that is possible; else, if it may wait, in its turn."""
        if not spec.queue:
            return self._launch(spec, environment)
        if not self._must_wait(spec):
            with contextlib.suppress(JobLimitReached):
                return self._launch(spec, environment)
        return self._enqueue(spec, environment, priority)

    def _must_wait(self, spec: Spec) -> bool:
        """Others were first, or it is not time. Of many at once a drainer starts some while we take the next."""
        home, now = self._store.home, time.monotonic()
        is_one_of_many, self._queued_at = now - self._queued_at < MANY_WITHIN_S, now
        if is_one_of_many or queue_dir.has_dispatcher(home) or queue_dir.entries(home):
            return True
        return queue_dir.readiness(home, vars(spec))[0] != "ready"

    def _enqueue(self, spec: Spec, environment: Mapping[str, str], priority: int) -> Job:
        new = self._store.create(spec, packed(vars(spec), environment, self._umask), priority)
        with contextlib.suppress(OSError):  # it will run, and an error would say that it does not
            self._store.make_durable(new)  # before it starts: what is written meanwhile would be synced too
        event_log.append(self._store.events, "queued", spec.id, name=spec.name, priority=priority)
        os.close(new.lock)
        self._see_to_the_queue()
        return Job(spec, Queued(None), None)

    def _make_room(self) -> None:
        if self._settings.max_store_bytes is not None:
            quota.make_room(self._store, self._settings.max_store_bytes)

    def _spec(self, command: str, given: Mapping[str, Any], **asked: Unpack[Options]) -> Spec:
        name, timeout_s = asked.get("name"), asked.get("timeout_s")
        rows, cols = asked.get("rows", 24), asked.get("cols", 80)
        _check_name(name)
        _check_timeout(timeout_s)
        check_size(rows, cols)
        return Spec(
            id=str(uuid.uuid4()),
            command=command,
            shell=_shell(asked.get("shell")),
            cwd=_directory(self._settings.working_dir, asked.get("cwd")),
            created_at=time.time(),
            max_output_bytes=given.get("output", self._settings.max_output_bytes),
            name=name,
            timeout_s=timeout_s if timeout_s is not None else self._settings.job_timeout_s,
            pty=asked.get("pty", False),
            rows=rows,
            cols=cols,
            restricted=bool(self._settings.allowed_commands),
            limits=options.limits_of(given),
            on_output_limit=given.get("on_output", "drop_oldest"),
            watch=_checked_watch(asked.get("watch")),
            restart=options.restart_of(given),
            queue=self._queue(given, asked.get("queue", False), asked.get("after") or ()),
            group=self._checked_group(given.get("group")),
            on_event=self._settings.on_event,
            keep_days=self._settings.keep_days,
            keep_jobs=self._settings.keep_jobs,
        )

    def _queue(self, given: Mapping[str, Any], queue: bool, after: Sequence[str]) -> dict[str, Any]:
        """Empty: it is to start now or not at all."""
        delay_s = given.get("delay_s", 0.0)
        if not (queue or after or delay_s):
            return {}
        return {
            "after": [self.find(each).id for each in after],
            "after_policy": given.get("after_policy", "success"),
            "not_before": queue_dir.now_s() + delay_s if delay_s else 0.0,
            "max_jobs": self._settings.max_jobs,
            "group_slots": self._settings.groups.get(given.get("group", "")),
        }

    def _terms(self, given: Mapping[str, object] | None) -> Mapping[str, Any]:
        return {**options.checked(self._settings.limits), **options.checked(given or {})}

    def _checked_group(self, group: str | None) -> str | None:
        groups = self._settings.groups
        if group is not None and group not in groups:
            known = f"Accepted: {', '.join(groups)}." if groups else "There are none."
            raise InvalidArgument(f"={group!r} is not in MCP_BG_GROUPS. {known}", argument="group")
        return group

    def _check_policy(self, command: str, cwd: str | None, env: Mapping[str, str] | None) -> None:
        allowed, base = self._settings.allowed_commands, self._settings.working_dir
        _check_length(command)
        if why := policy.broken_rule(command, allowed):
            raise InvalidCommand(why)
        if allowed and env:
            raise InvalidCommand(
                "env cannot be set while MCP_BG_ALLOWED_COMMANDS is: it can change what a command runs"
            )
        if allowed and cwd and not _is_inside(_directory(base, cwd), base):
            raise InvalidCommand("cwd must be inside MCP_BG_WORKING_DIR while MCP_BG_ALLOWED_COMMANDS is set")

    @contextlib.contextmanager
    def _watched(self, spec: Spec) -> Iterator[None]:
        """Somebody looks after its watches and events, also when we are gone."""
        home = self._store.home
        if not spec.watch and not spec.on_event:
            yield
            return
        with contextlib.ExitStack() as undo:
            watch_registry.add(home, spec.id, self._hook_environment(spec.on_event))
            undo.callback(watch_registry.remove, home, spec.id)
            yield
            undo.pop_all()
        watch_registry.ensure_watcher(home, self._environment)

    def _hook_environment(self, command: str | None) -> dict[str, str]:
        """What the command for its events gets of our environment: what any program wants, and what it names itself.

        It rests on disk while the job has events: so no token that somebody else is meant to have.
        """
        if command is None:
            return {}
        wanted = {*HOOK_VARIABLES, *VARIABLE.findall(command)}
        return {name: value for name, value in self._environment.items() if name in wanted}

    def _launch(self, spec: Spec, environment: Mapping[str, str]) -> Job:
        with contextlib.ExitStack() as ours:
            slots = self._store.claim_slots(
                self._settings.max_jobs, spec.group, self._settings.groups.get(spec.group or "")
            )
            for slot in slots:
                ours.callback(os.close, slot)
            new = self._store.create(spec)
            ours.callback(os.close, new.lock)
            start = self._spawner.start(Handover(new.directory, new.lock, slots, vars(spec), environment))
            with contextlib.suppress(OSError):  # it runs, and an error would say that it does not
                self._store.make_durable(new)  # while the child is being exec'd
            answer = start.finish()
        run = run_from(answer)
        return Job(spec, Running(run), run) if run else self._failed(spec, answer)

    def _failed(self, spec: Spec, answer: Mapping[str, Any]) -> Job:
        """Its record says why. If even that could not be written, what its shim has told us does."""
        try:
            job = self._store.load(spec.id)
        except JobNotFound:  # an error would say that nothing was run
            return Job(
                spec, Lost("its directory was removed as it started: whether it ran is not known"), None
            )
        if "error" in answer and not isinstance(job.state, NeverStarted):
            why = OSError(answer["error"])
            why.errno = answer.get("errno")
            raise why
        return job


def check_may_steer(settings: Settings, job: Job) -> None:
    """A server with an allow-list types only into what it could have started itself."""
    allowed, spec = settings.allowed_commands, job.spec
    if not allowed:
        return
    if why := policy.broken_rule(spec.command, allowed):
        raise NotAllowed(job.id, why)
    if not _is_inside(spec.cwd, settings.working_dir):
        raise NotAllowed(job.id, "it does not run inside MCP_BG_WORKING_DIR")
    if spec.pty and not spec.restricted:
        why = "a server without MCP_BG_ALLOWED_COMMANDS started it on a terminal, where pagers run commands"
        raise NotAllowed(job.id, why)


def _check_length(command: str) -> None:
    if len(command) * JSON_MAX_BYTES > MOST_COMMAND_BYTES and len(json.dumps(command)) > MOST_COMMAND_BYTES:
        raise InvalidCommand(
            f"it has {len(command)} characters, and a job's record at most {MOST_COMMAND_BYTES} bytes for them; "
            "write it into a file, and run that"
        )


def _check_name(name: str | None) -> None:
    if name is None:
        return
    if not 0 < len(name) <= NAME_MAX_CHARACTERS:
        raise InvalidArgument(
            f" has {len(name)} characters. Accepted: 1 to {NAME_MAX_CHARACTERS}.", argument="name"
        )
    unseen = first_hidden(name.translate(BLANKS))
    if unseen is not None:
        raise InvalidArgument(
            f" has U+{ord(name[unseen]):04X} at position {unseen}, which cannot be seen. Accepted: one line of "
            "text without control, bidi or zero-width characters.",
            argument="name",
        )


def _check_timeout(timeout_s: float | None) -> None:
    if timeout_s is not None and not 0 < timeout_s < float("inf"):
        raise InvalidArgument(
            f"={timeout_s} is not a time. Accepted: seconds, more than 0.", argument="timeout_s"
        )


def check_size(rows: int, cols: int) -> None:
    if not (1 <= rows <= MOST_ROWS and 1 <= cols <= MOST_COLS):
        raise InvalidArgument(
            f"A terminal of {rows} rows and {cols} cols. Accepted: 1 to {MOST_ROWS} rows, 1 to {MOST_COLS} cols."
        )


def _checked_watch(watch: Sequence[str] | None) -> list[str]:
    if watch and len(watch) > MOST_WATCHES:
        raise InvalidArgument(
            f" has {len(watch)} patterns. Accepted: at most {MOST_WATCHES}.", argument="watch"
        )
    for pattern in watch or ():
        try:
            compile_pattern(pattern)
        except InvalidArgument as problem:
            raise InvalidArgument(f": {problem}", argument="watch") from None
    return list(watch or ())


def _shell(name: str | None) -> str:
    if name is None:
        return DEFAULT_SHELL
    path = shutil.which(name) if name in SHELLS else None
    if path is None:
        found = ", ".join(shell for shell in SHELLS if shutil.which(shell))
        raise InvalidArgument(f"shell={name[:40]!r} is not one we can use here. Accepted: {found}.")
    return path


def _directory(base: str, path: str | None) -> str:
    directory = absolute(os.path.join(base, os.path.expanduser(path) if path else ""))
    if "\0" not in directory and os.path.isdir(directory):
        return directory
    if not path:
        raise WorkingDirectoryGone(base)
    raise InvalidArgument(
        f"={path!r} is not a directory that exists: looked at {directory!r}.", argument="cwd"
    )


def absolute(path: str) -> str:
    try:
        return os.path.abspath(path)
    except FileNotFoundError:  # it is relative, and where we are has no name any more
        raise WorkingDirectoryGone(".") from None


def _is_inside(path: str, base: str) -> bool:
    base = os.path.realpath(absolute(base))
    return os.path.commonpath([os.path.realpath(path), base]) == base


def _checked_environment(env: Mapping[str, str]) -> Mapping[str, str]:
    for name, value in env.items():
        if not name or "=" in name or "\0" in name + value:
            raise InvalidArgument(
                f" has {name[:40]!r}: a name must not be empty or contain =, nothing may contain NUL.",
                argument="env",
            )
    return env

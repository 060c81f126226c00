"""What a caller asks for, checked, as the spec of a job."""

import json
import os
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, get_args

from bgjob.api.context import Context
from bgjob.api.find import find_job
from bgjob.core import options
from bgjob.core.config import Settings
from bgjob.core.errors import InvalidArgument, InvalidCommand, WorkingDirectoryGone
from bgjob.core.job import JOB_ID, LOCAL, Spec, StdinWord
from bgjob.core.notify import Notify
from bgjob.core.patterns import compile_pattern
from bgjob.home import jobdir, queue_dir
from bgjob.output.cleaner import first_hidden
from bgjob.store.notify_rules import notify_rules
from bgjob.terminal.size import MOST_COLS, MOST_ROWS

if TYPE_CHECKING:
    from bgjob.core.targets import Target

SHELLS = ("sh", "bash", "dash", "zsh", "ksh")
SMALLEST_SHELL = "/bin/sh"
NAME_MAX_CHARACTERS = 200
# elsewhere these can be seen; in a name they are controls too
BLANKS = {ord(letter): "\r" for letter in "\n\t"}
MOST_WATCHES = 20
MOST_COMMAND_BYTES = jobdir.RECORD_MAX_BYTES - (1 << 20)  # as JSON: what is started can be read again
JSON_MAX_BYTES = 12  # of one character


class Asked(TypedDict, total=False):
    """What a caller may ask for, beside the command."""

    id: str
    """Of the job; else it gets a new one. Asked for twice it is one job: see start_once."""
    cwd: str | None
    env: Mapping[str, str] | None
    name: str | None
    timeout_s: float | None
    shell: str | None
    pty: bool
    rows: int
    cols: int
    stdin: StdinWord | None
    queue: bool
    after: Sequence[str] | None
    watch: Sequence[str] | None
    by: Mapping[str, str]
    """Who asks: see Spec."""
    options: Mapping[str, object] | None
    """Limits, restarts, the place in the queue, what a target is asked for and who is told, by the names of
    bgjob.core.options."""
    target: str | None
    """Where it is to run: a name of targets.toml. None: on this machine."""


def priority_of(asked: Asked) -> int | None:
    """Within the queue; None: the caller gave none."""
    priority: int | None = options.checked(asked.get("options") or {}).get("priority")
    return priority


def spec_of(context: Context, command: str, **asked: Unpack[Asked]) -> Spec:
    """InvalidArgument or InvalidCommand: what is asked for cannot be."""
    settings, target = context.settings, target_meant(context, asked.get("target"))
    chosen = options.checked(asked.get("options") or {})
    resources = options.resources_of(chosen, target.kind if target else None)
    # limits and groups of a target are those of its home
    given = chosen if target else {**options.checked(settings.limits), **chosen}
    name, timeout_s = asked.get("name"), asked.get("timeout_s")
    rows, cols = asked.get("rows", 24), asked.get("cols", 80)
    _check_name(name)
    _check_timeout(timeout_s)
    check_size(rows, cols)
    return Spec(
        id=_checked_id(asked["id"]) if "id" in asked else new_id(),
        command=command,
        created_at=time.time(),
        max_output_bytes=given.get("output", settings.max_output_bytes),
        name=name,
        timeout_s=timeout_s if timeout_s is not None else settings.job_timeout_s,
        pty=asked.get("pty", False),
        rows=rows,
        cols=cols,
        stdin=_checked_stdin(asked.get("stdin"), pty=asked.get("pty", False)),
        restricted=bool(settings.allowed_commands),
        limits=options.limits_of(given),
        on_output_limit=given.get("on_output", "drop_oldest"),
        watch=_checked_watch(asked.get("watch")),
        restart=options.restart_of(given),
        queue=_queue(context, given, asked.get("queue", False), asked.get("after") or ()),
        on_event=settings.on_event,
        notify=_checked_notify(context.store.home, given.get("notify")),
        keep_days=settings.keep_days,
        keep_jobs=settings.keep_jobs,
        by=asked.get("by") or {},
        target=target.name if target else None,
        resources=resources,
        **(_there(target, given, asked) if target else _here(settings, given, asked)),
    )


def _here(settings: Settings, given: Mapping[str, Any], asked: Asked) -> dict[str, Any]:
    return {
        "shell": _shell(asked.get("shell")),
        "cwd": working_directory(settings.working_dir, asked.get("cwd")),
        "group": _checked_group(settings.groups, given.get("group")),
    }


def _there(target: "Target", given: Mapping[str, Any], asked: Asked) -> dict[str, Any]:
    """What of it there is, and which groups, is known there."""
    return {
        "shell": _shell_there(asked.get("shell")),
        "cwd": _directory_there(target, asked.get("cwd")),
        "group": given.get("group"),
    }


def target_meant(context: Context, name: str | None) -> "Target | None":
    """None: this machine. InvalidArgument: there is no such target."""
    targets = context.targets
    if name in (None, "", LOCAL):
        return None
    if name not in targets:
        known = f"Accepted: {', '.join([LOCAL, *targets])}, of {targets.path}."
        none = f"There are no targets: {targets.path} names none. Leave it out, and the job runs on this machine."
        raise InvalidArgument(
            f"={str(name)[:40]!r} is not known. {known if targets else none}", argument="target"
        )
    return targets[name]


def _shell_there(name: str | None) -> str:
    """Its machine finds it; empty: the default there."""
    if name is not None and name not in SHELLS:
        raise InvalidArgument(
            f"={name[:40]!r} is not one we can use. Accepted: {', '.join(SHELLS)}.", argument="shell"
        )
    return name or ""


def _directory_there(target: "Target", path: str | None) -> str:
    """As the caller gave it: whether it exists is known there."""
    directory = path or target.cwd or "~"
    if "\0" in directory:
        raise InvalidArgument(f"={path!r} is not a directory.", argument="cwd")
    return directory


def _queue(context: Context, given: Mapping[str, Any], queue: bool, after: Sequence[str]) -> dict[str, Any]:
    """Empty: the job is to start now or not at all."""
    delay_s = given.get("delay_s", 0.0)
    if not (queue or after or delay_s):
        return {}
    return {
        **queued_in_turn(context, given.get("group")),
        "after": [find_job(context, each).id for each in after],
        "after_policy": given.get("after_policy", "success"),
        "not_before": queue_dir.now_s() + delay_s if delay_s else 0.0,
    }


def queued_in_turn(context: Context, group: str | None) -> dict[str, Any]:
    """The queue of a spec: it waits for a free slot and for nothing else."""
    return {
        "after": [],
        "after_policy": "success",
        "not_before": 0.0,
        "max_jobs": context.settings.max_jobs,
        "group_slots": context.settings.groups.get(group or ""),
    }


def _checked_group(groups: Mapping[str, int], group: str | None) -> str | None:
    if group is not None and group not in groups:
        known = f"Accepted: {', '.join(groups)}." if groups else "There are none."
        raise InvalidArgument(f"={group!r} is not in MCP_BG_GROUPS. {known}", argument="group")
    return group


def _checked_notify(home: str, notify: Notify | None) -> Notify | None:
    known = {rule.way for rule in notify_rules(home)} if notify else set()
    for way in notify or ():
        if way not in known:
            where = {"webhook": " URL"}.get(way, "")
            raise InvalidArgument(
                f" names {way}, for which there is no rule here.",
                f"The user adds one by: bgjob notify add {way}{where}",
                argument="notify",
            )
    return notify


def check_length(command: str) -> None:
    if len(command) * JSON_MAX_BYTES > MOST_COMMAND_BYTES and len(json.dumps(command)) > MOST_COMMAND_BYTES:
        raise InvalidCommand(
            f"it has {len(command)} characters, and a job's record at most {MOST_COMMAND_BYTES} bytes for them; "
            "write it into a file, and run that"
        )


def _checked_id(job_id: str) -> str:
    if not JOB_ID.fullmatch(job_id):
        raise InvalidArgument(f"={job_id[:40]!r} is not an id of a job. Accepted: a UUID 4.", argument="id")
    return job_id


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
    if not name.strip():
        raise InvalidArgument(" is blank. Accepted: a text that can be seen.", argument="name")


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


def _checked_stdin(stdin: StdinWord | None, *, pty: bool) -> StdinWord:
    if stdin not in (None, *get_args(StdinWord)):
        raise InvalidArgument(f"={str(stdin)[:40]!r} is not known. Accepted: open, null.", argument="stdin")
    if stdin == "null" and pty:
        raise InvalidArgument(
            "='null' does not go with pty=true: the stdin of a job on a terminal is the terminal. Leave out one.",
            argument="stdin",
        )
    return stdin or "open"


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


def new_id() -> str:
    import uuid  # with `platform`, 2 ms that a server's start does not need

    return str(uuid.uuid4())


def _shell(name: str | None) -> str:
    import shutil  # as above

    if name is None:
        return shutil.which("bash") or SMALLEST_SHELL  # what models and people write is bash
    path = shutil.which(name) if name in SHELLS else None
    if path is None:
        found = ", ".join(shell for shell in SHELLS if shutil.which(shell))
        raise InvalidArgument(
            f"={name[:40]!r} is not one we can use here. Accepted: {found}.", argument="shell"
        )
    return path


def working_directory(base: str, path: str | None) -> str:
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
    except FileNotFoundError:  # the path is relative, and our working directory was deleted
        raise WorkingDirectoryGone(".") from None


def is_inside(path: str, base: str) -> bool:
    base = os.path.realpath(absolute(base))
    return os.path.commonpath([os.path.realpath(path), base]) == base


def checked_environment(env: Mapping[str, str]) -> Mapping[str, str]:
    for name, value in env.items():
        if not name or "=" in name or "\0" in name + value:
            raise InvalidArgument(
                f" has {name[:40]!r}: a name must not be empty or contain =, nothing may contain NUL.",
                argument="env",
            )
    return env

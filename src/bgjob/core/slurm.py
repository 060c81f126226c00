"""Slurm's words: what is asked of sbatch, what squeue and sinfo print, and what the end of a job there means here."""

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from bgjob.core.engine import ClusterInfo, EngineState, NodeInfo, Phase, Resources
from bgjob.core.errors import InvalidArgument
from bgjob.core.late_pattern import late_pattern
from bgjob.core.values import MIB

JOB_COMMENT, SESSION_COMMENT = "bgjob:", "bgjob-session:"
"""What a job of ours is known by. Slurm gives a number out again, if its controller was killed."""
WORD = late_pattern(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}", re.ASCII)
SESSION_NAME = late_pattern(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,49}", re.ASCII)

# -- what is asked -------------------------------------------------------------------------------------


def sbatch_flags(resources: Resources) -> list[str]:
    """InvalidArgument: a value is none that Slurm could know."""
    flags = ["--nodes=1", "--ntasks=1"]
    if resources.cpus is not None:
        flags.append(f"--cpus-per-task={resources.cpus}")
    if resources.gpus:
        flags.append(f"--gres=gpu:{resources.gpus}")
    if resources.memory_bytes is not None:
        flags.append(f"--mem={_ceil(resources.memory_bytes, MIB)}M")
    if resources.time_limit_s is not None:
        minutes, seconds = divmod(_ceil(resources.time_limit_s, 1), 60)
        flags.append(f"--time={minutes}:{seconds:02}")
    if resources.labels:
        features = (_word("labels", value) for value in resources.labels.values())
        flags.append(f"--constraint={'&'.join(sorted(set(features)))}")
    for option, name in (("partition", "partition"), ("account", "account"), ("nodelist", "node")):
        if (value := getattr(resources, name)) is not None:
            flags.append(f"--{option}={_word(name, value)}")
    return flags


def _ceil(value: float, unit: int) -> int:
    return int(-(-value // unit))


def _word(argument: str, value: str) -> str:
    if not WORD.fullmatch(value):
        accepted = "letters, digits and _ . : -, at most 100"
        raise InvalidArgument(f" has {value[:40]!r}. Accepted: {accepted}.", argument=argument)
    return value


def checked_session(name: str) -> str:
    if not SESSION_NAME.fullmatch(name):
        raise InvalidArgument(
            f"={name[:40]!r} is no name. Accepted: letters, digits and _ . -, at most 50.", argument="session"
        )
    return name


# -- what it says of jobs ------------------------------------------------------------------------------

# By width and not by a mark between them: comments are other people's words, and any mark may be in them.
SQUEUE_COLUMNS = {"JobID": 20, "State": 20, "Reason": 80, "NodeList": 80, "exit_code": 12, "Comment": 100}
SINFO_COLUMNS = {
    "NodeList": 60,
    "StateCompact": 20,
    "CPUsState": 40,
    "Memory": 20,
    "AllocMem": 20,
    "Gres": 200,
    "GresUsed": 200,
    "Features": 400,
}
NONE_WORDS = ("", "None", "(null)", "N/A")
QUEUED = ("PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT")
STARTING = ("CONFIGURING",)
NEVER: Mapping[str, str] = {
    "AccountNotAllowed": "its account may not use this partition",
    "AssocMax*Per*": "it asks for more than its account may have per job",
    "BadConstraints": "no node can meet its constraints",
    "InvalidAccount": "its account is not valid",
    "InvalidQOS": "its quality of service is not valid",
    "MaxMemPerLimit": "it asks for more memory than a job may have",
    "PartitionConfig": "it asks for more time or nodes than its partition allows",
    "PartitionNodeLimit": "it asks for another number of nodes than its partition allows",
    "PartitionTimeLimit": "its time limit is above that of its partition",
    "QOSMax*Per*": "it asks for more than its quality of service allows per job",
    "QOSMin*": "it asks for less than its quality of service demands",
    "QOSNotAllowed": "its quality of service may not use this partition",
}
"""Reasons of a pending job that waiting does not resolve, as shell patterns: the request itself is beyond a limit.

They exclude what ends by itself or is lifted in the daily operation of a cluster, such as a partition or node that
is down, a job that is held, a limit on the sum of several jobs (AssocGrp*, QOSGrp*, *PerUser), a reservation.
"""
# Limits on the sum of what one user has at a time, which resolve.
OF_A_SUM = ("*PerUser*", "*PerAccount*", "*JobsLimit", "*SubmitJob*")
ENDS = (
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "LAUNCH_FAILED", "NODE_FAIL"),
    *("OUT_OF_MEMORY", "PREEMPTED", "RECONFIG_FAIL", "REVOKED", "TIMEOUT"),
)


def columns(widths: Mapping[str, int]) -> str:
    """As squeue and sinfo take them after -O."""
    return ",".join(f"{name}:{width}" for name, width in widths.items())


def _cells(line: str, widths: Mapping[str, int]) -> dict[str, str]:
    cells, start = {}, 0
    for name, width in widths.items():
        cell = line[start : start + width].strip()
        cells[name], start = "" if cell in NONE_WORDS else cell, start + width
    return cells


def states_of(lines: Iterable[str]) -> dict[str, EngineState]:
    """By comment: the jobs and sessions that are ours. Of two with one comment, the one that is furthest from its
    end; of two such, the first that was submitted."""
    found: dict[str, EngineState] = {}
    for line in lines:
        cells = _cells(line, SQUEUE_COLUMNS)
        if cells["Comment"].startswith((JOB_COMMENT, SESSION_COMMENT)):
            state, comment = _state(cells), cells["Comment"]
            found[comment] = min(found.get(comment, state), state, key=_rank)
    return found


def _state(cells: Mapping[str, str]) -> EngineState:
    word, status = cells["State"], cells["exit_code"]
    return EngineState(
        phase=phase_of(word),
        engine_id=cells["JobID"],
        node=cells["NodeList"] or None,
        reason=cells["Reason"] or None,
        end=word if word in ENDS else None,
        exit_code=_exit_code(int(status)) if word in ENDS and status.isdigit() else None,
    )


def _exit_code(status: int) -> int:
    """As wait() tells it."""
    return 128 + (status & 0x7F) if status & 0x7F else status >> 8


def phase_of(word: str) -> Phase:
    """A word that is not known here is that of a job which is there."""
    if word in QUEUED:
        return "queued"
    if word in STARTING:
        return "starting"
    return "gone" if word in ENDS else "active"


def _rank(state: EngineState) -> tuple[int, int]:
    order = ("active", "starting", "queued", "gone").index(state.phase)
    return order, int(state.engine_id) if state.engine_id.isdigit() else 0


def why_never(reason: str | None) -> str | None:
    """Return why a job that waits for this reason will never run; None if it may."""
    if reason is None or any(fnmatchcase(reason, pattern) for pattern in OF_A_SUM):
        return None
    why = next((why for pattern, why in NEVER.items() if fnmatchcase(reason, pattern)), None)
    return why and f"{reason}: {why}"


# -- what its end means --------------------------------------------------------------------------------

Record = dict[str, Any]
CANCELLED = "CANCELLED"
CANCELLED_BY = late_pattern(r"CANCELLED by ([0-9]{1,10})", re.ASCII)
WORDS: Mapping[str, Record] = {
    "OUT_OF_MEMORY": {"cause": "over_limit", "limit": "memory", "reason": "Slurm: it ran out of memory"},
    "TIMEOUT": {"cause": "timed_out", "reason": "Slurm: it reached its time limit"},
    "DEADLINE": {"cause": "timed_out", "reason": "Slurm: its deadline has passed"},
    CANCELLED: {"cause": "killed"},
    "REVOKED": {"cause": "killed", "reason": "Slurm: it was revoked"},
    "PREEMPTED": {"cause": "killed", "reason": "Slurm: it was preempted by another job"},
}
BROKEN = ("NODE_FAIL", "BOOT_FAIL", "LAUNCH_FAILED", "RECONFIG_FAIL")


def final_outcome(
    outcome: Mapping[str, Any] | None, state: EngineState | None, *, is_cancelled: bool = False
) -> Record:
    """How a job that Slurm calls ended has ended. `outcome`: as its shim left it; `state`: what Slurm says, None if
    Slurm has forgotten the job; `is_cancelled`: we requested that, and Slurm's queue may not show it yet.

    The shim knows the job's own end, and Slurm why the job was made to end: all that a shim sees of a scancel, a time
    limit or a preemption is SIGTERM, and of a lack of memory it may see nothing.
    """
    end = (state.end if state else None) or (CANCELLED if is_cancelled else "")
    if outcome is None:
        return dict(WORDS[end]) if end in WORDS else {"cause": "lost", "reason": _why_lost(state)}
    if end not in WORDS or not _may_be_slurms_doing(outcome, end):
        return dict(outcome)
    return {**outcome, **WORDS[end]}


def cancelled_by(accounted: str) -> str:
    """Return the reason of a job that others have cancelled. `accounted`: its states as printed by sacct, or empty."""
    found = CANCELLED_BY.search(accounted)
    return f"Slurm: cancelled by uid {found[1]}" if found else "Slurm: cancelled, and not by bgjob"


def _may_be_slurms_doing(outcome: Mapping[str, Any], end: str) -> bool:
    """A job that has succeeded was not stopped. But if the kernel ended one of its processes for lack of memory, the
    others may not have noticed."""
    cause = outcome.get("cause")
    if cause == "exited":
        return end == "OUT_OF_MEMORY" or outcome.get("exit_code") != 0
    return cause in ("signaled", "killed")


def needs_slurms_word(outcome: Mapping[str, Any]) -> bool:
    """Whether Slurm may know better how this job ended, so that its word is worth a wait of seconds."""
    return outcome.get("cause") in ("signaled", "killed")


def _why_lost(state: EngineState | None) -> str:
    if state is None:
        return "Slurm does not know the job any more, and the job has left no record of its end"
    how = f"{state.end} ({state.reason})" if state.reason else str(state.end)
    if state.end in BROKEN:
        return f"Slurm says {how}: node {state.node} has failed"
    return f"Slurm says {how}, and the job has left no record of its end"


# -- what it says of nodes -----------------------------------------------------------------------------

UP = (
    "idle",
    "mix",
    "mixed",
    "alloc",
    "allocated",
    "comp",
    "completing",
    "plnd",
    "planned",
    "resv",
    "reserved",
)
GPU_COUNT = late_pattern(r"(?:^|,)gpu(?::[A-Za-z][^:(,]*)?:([0-9]+)", re.ASCII)


def cluster_of(lines: Iterable[str], queued: int) -> ClusterInfo:
    """A node of two partitions is told twice."""
    nodes = {cells["NodeList"]: cells for cells in (_cells(line, SINFO_COLUMNS) for line in lines)}
    return ClusterInfo([_node(cells) for name, cells in sorted(nodes.items()) if name], queued)


def _node(cells: Mapping[str, str]) -> NodeInfo:
    cpus_used, cpus_free, _other, cpus = map(int, (cells["CPUsState"] or "0/0/0/0").split("/"))
    memory, used = (int(cells[name] or 0) * MIB for name in ("Memory", "AllocMem"))
    gpus, gpus_used = (_gpus(cells[name]) for name in ("Gres", "GresUsed"))
    state = cells["StateCompact"]
    is_up = (
        state in UP
    )  # a mark at the end, such as that of a node which does not answer, makes it another word
    return NodeInfo(
        name=cells["NodeList"],
        state=state,
        is_up=is_up,
        cpus=cpus or cpus_used + cpus_free,
        cpus_free=cpus_free if is_up else 0,
        memory_bytes=memory,
        memory_free_bytes=max(0, memory - used) if is_up else 0,
        gpus=gpus,
        gpus_free=max(0, gpus - gpus_used) if is_up else 0,
        labels=[label for label in cells["Features"].split(",") if label],
    )


def _gpus(gres: str) -> int:
    return sum(map(int, GPU_COUNT.findall(gres)))

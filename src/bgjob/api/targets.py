"""Targets as they stand: which machines there are, what is free, what waits, and whether they answer.

What is told of a target is asked of its relay, of all targets at once; the jobs are counted here.
"""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from bgjob.api.context import Context
from bgjob.api.job_json import Moment, utc
from bgjob.api.spec import target_meant
from bgjob.api.target_advice import advice_for, lack_here
from bgjob.api.target_nodes import amounts, nodes_of, queue_of
from bgjob.core.errors import BgjobError, JobNotFound, TargetUnreachable
from bgjob.core.frozen import NOTHING, Frozen, replace
from bgjob.core.job import LOCAL, Queued, Running
from bgjob.core.target_keys import TargetKind
from bgjob.core.targets import Target, as_record
from bgjob.home import target_dir
from bgjob.store.records import read_unreachable

LOOK_S, CHECK_S = 6.0, 60.0
MOST_AT_ONCE = 32
MOST_NODES = 50
"""Of one target, in an answer about all."""


class TargetStatus(Frozen):
    name: str
    kind: TargetKind
    description: str
    place: str
    """How it is reached: a destination of ssh, an address."""
    reachable: bool | None = None
    """None: it was asked, and has not answered within the time for a look."""
    since: float | None = None
    """Since when it cannot be reached, as far as its relay knows."""
    why: str | None = None
    advice: str | None = None
    """What to do next."""
    nodes: Sequence[Mapping[str, Any]] = ()
    """In the words of api.target_nodes, those with room first."""
    queue: Mapping[str, int] = NOTHING
    """Of all users' jobs there: running, queued, slots."""
    running: int = 0
    """Our own jobs."""
    queued: int = 0


def target_statuses(
    context: Context, names: Sequence[str] | None = None, *, check: bool = False
) -> list[TargetStatus]:
    """`names`: of these alone, else of all. `check`: an answer is waited for as long as a connection may take.

    InvalidArgument: there is no such target.
    """
    targets = _meant(context, names)
    if not targets:
        return []
    from concurrent.futures import ThreadPoolExecutor  # few callers have targets

    with ThreadPoolExecutor(min(len(targets), MOST_AT_ONCE)) as workers:
        return list(workers.map(lambda target: _status(context, target, check=check), targets))


def target_as_json(
    status: TargetStatus, moment: Moment = utc, most_nodes: int | None = None
) -> dict[str, Any]:
    """For scripts, for models and for the page. Nothing that is None."""
    left_out = 0 if most_nodes is None else max(0, len(status.nodes) - most_nodes)
    known = {
        "name": status.name,
        "kind": status.kind,
        "description": status.description or None,
        "place": status.place,
        "reachable": status.reachable,
        "since": None if status.since is None else moment(status.since),
        "why": status.why,
        "advice": status.advice,
        "jobs": {"running": status.running, "queued": status.queued},
        "queue": dict(status.queue) or None,
        "total": amounts(status.nodes) or None,
        "free": amounts(status.nodes, "free") or None,
        "nodes": [dict(node) for node in status.nodes[:most_nodes]] or None,
        "nodes_left_out": left_out or None,
    }
    return {word: value for word, value in known.items() if value is not None}


def _meant(context: Context, names: Sequence[str] | None) -> list[Target]:
    if names is None:
        return list(context.targets.values())
    found = [target_meant(context, name) for name in names if name != LOCAL]
    return [target for target in found if target]


# -- one target -------------------------------------------------------------------------------------


def _status(context: Context, target: Target, *, check: bool) -> TargetStatus:
    running, queued = _counts(context, target)
    here = target.name, target.kind, target.description, target.place
    status = TargetStatus(*here, running=running, queued=queued)
    if lack := lack_here(target, context.environment):
        return replace(status, reachable=False, why=lack.why, advice=lack.advice)
    from bgjob.remote.client import NoAnswer  # few commands need it

    try:
        told = _told(context, target, check=check)
    except NoAnswer as problem:
        more = None if check else f"bgjob targets --check {target.name} waits longer."
        return replace(status, reachable=False if check else None, why=problem.why, advice=more)
    except BgjobError as problem:
        return _unreachable(context, status, target, problem)
    return replace(status, reachable=True, nodes=nodes_of(told), queue=queue_of(told))


def _told(context: Context, target: Target, *, check: bool) -> Mapping[str, Any]:
    """Return what its engine reports. `check`: only if a job could start with its entry in the file."""
    from bgjob.remote.client import ask_relay

    home = context.store.home
    try:
        context.store.prepare()
        target_dir.make(home, target.name, as_record(target))
    except OSError as problem:
        raise TargetUnreachable(target.name, f"our own job store cannot be written: {problem}") from None
    patience_s, asked = (CHECK_S, {"check": True}) if check else (LOOK_S, {})
    return ask_relay(home, target.name, context.environment, patience_s, op="info", **asked)


def _unreachable(context: Context, status: TargetStatus, target: Target, problem: BgjobError) -> TargetStatus:
    why = problem.why if isinstance(problem, TargetUnreachable) else str(problem)
    advice = advice_for(target, why, problem.trouble) or None
    return replace(status, reachable=False, since=_since(context, target.name), why=why, advice=advice)


def _since(context: Context, name: str) -> float | None:
    """The longest that a machine of it has not been reached."""
    return min((since for since, _ in read_unreachable(context.store.home, name).values()), default=None)


def _counts(context: Context, target: Target) -> tuple[int, int]:
    """Of our jobs there, how many run and how many wait."""
    states = []
    for job_id in target_dir.registered(context.store.home, target.name):
        with contextlib.suppress(JobNotFound):
            states.append(context.store.load(job_id).state)
    queued = sum(isinstance(state, Queued) for state in states)
    return sum(isinstance(state, Running) for state in states) - queued, queued

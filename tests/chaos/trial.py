"""One trial: a play during which one process is killed at one system call, and what must be true all the same."""

import os
import random
import shutil
import signal
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from bgjob.core.errors import BgjobError
from bgjob.core.job import Lost, NeverStarted, Running
from tests.chaos.plays import Actor, Play
from tests.chaos.stage import Launch, Role, Scene, Stage, Violation
from tests.chaos.strace import Point, Tracer
from tests.support.process_table import parent_of, wait_until_gone
from tests.support.waiting import wait_until

AT_ONCE = 6
FORKS = ("clone", "clone3", "vfork", "fork")
MOST_TRIES_MORE = 2
ALIKE_EVERY, OWN_EVERY = {"shim": 8}, {"shim": 2}
"""Shims have by far the most points. A guard lists about 17 in each play, at times the same in all of them."""
ALIKE_EVERY_ELSE = 4


@dataclass(frozen=True)
class Case:
    play: Play
    role: Role
    launch: Launch = "zygote running"
    with_starter: bool = False
    """The starter is killed too, before the guard can know that its shim was."""

    def __str__(self) -> str:
        return f"{self.role}, {self.play.name}" + (f", {self.launch}" if self.role == "starter" else "")


@dataclass(frozen=True)
class Result:
    case: Case
    point: Point
    struck: bool
    outcome: str
    """What became of the job; or which invariant does not hold."""
    violates: bool = False

    def __str__(self) -> str:
        return f"{self.case}, killed at {self.point}: {self.outcome}"


def points_of(stage: Stage, case: Case, every: bool) -> list[Point]:
    """All that the process calls when nobody kills it; unless `every`, without those that nothing tells apart."""
    with stage.scene(**case.play.settings) as scene:
        perform(scene, case, None)
        return scene.traced.points(every)


def try_point(stage: Stage, case: Case, point: Point) -> Result:
    scene = stage.scene(**case.play.settings)
    try:
        with scene:
            outcome = perform(scene, case, point)
            struck = scene.traced.struck()
    except (Violation, AssertionError, BgjobError) as violation:
        return Result(case, point, True, f"{type(violation).__name__}: {violation}", violates=True)
    shutil.rmtree(scene.directory)
    return Result(case, point, struck, outcome)


def try_until_struck(stage: Stage, case: Case, point: Point) -> Result:
    """Again, a few times, where the process made fewer calls than when they were listed: it was not killed."""
    result = try_point(stage, case, point)
    for _ in range(MOST_TRIES_MORE):
        if result.struck:
            break
        result = try_point(stage, case, point)
    return result


def perform(scene: Scene, case: Case, point: Point | None) -> str:
    if case.with_starter and point:
        outcome = perform_shim_and_starter(scene, case, point)
    elif case.role == "starter":
        outcome = perform_starter(scene, case, point)
    else:
        outcome = perform_other(scene, case, point)
    scene.dismiss()
    scene.check_nothing_is_left()
    return outcome


def perform_other(scene: Scene, case: Case, point: Point | None) -> str:
    scene.trace(scene.with_zygote(case.role).stopped_pid(), point)
    try:
        job = scene.jobs.run(case.play.command, **case.play.options).job
    except BgjobError as error:
        return f"refused: {error}"
    return see_to_its_end(Actor(scene.jobs, job.id, scene.gate), case.play)


def perform_starter(scene: Scene, case: Case, point: Point | None) -> str:
    server = scene.with_server(case.launch)
    server.stop()
    scene.trace(server.pid, point)
    server.ask(case.play.command, case.play.options)
    answer = server.answer()
    if "error" in answer:
        return f"refused: {answer['error']}"
    job_id = answer.get("id") or next(iter(scene.job_ids()), None)
    if job_id is None:
        return "none"
    actor = Actor(scene.jobs, job_id, scene.gate)
    return see_to_its_end(actor, case.play) if "id" in answer else see_what_is_there(actor, case.play)


def perform_shim_and_starter(scene: Scene, case: Case, point: Point) -> str:
    zygote = scene.with_zygote("shim")
    shim = zygote.stopped_pid()
    scene.trace(shim, point)
    guard = Tracer(parent_of(shim), None, scene.directory / "trace of the guard")
    try:
        guard.hold()
        server = scene.with_server_of(zygote)
        server.ask(case.play.command, case.play.options)
        wait_until(lambda: scene.traced.is_over or has_begun(scene), "the shim is gone, or was missed")
        os.kill(server.pid, signal.SIGKILL)
        wait_until_gone(server.pid)
    finally:
        guard.close()
    [job_id] = scene.job_ids()
    return see_what_is_there(Actor(scene.jobs, job_id, scene.gate), case.play)


def see_to_its_end(actor: Actor, play: Play) -> str:
    play.act(actor)
    play.check(actor.jobs, actor.job_id)
    return "whole"


def see_what_is_there(actor: Actor, play: Play) -> str:
    """Nobody was told of this job: it may never have started, or it is whole."""
    wait_until(lambda: has_begun_or_ended(actor), "the job runs, or is known not to")
    state = actor.jobs.status(actor.job_id).job.state
    if isinstance(state, NeverStarted) or (isinstance(state, Lost) and "never started" in state.reason):
        return "never started"
    return see_to_its_end(actor, play)


def has_begun(scene: Scene) -> bool:
    return any((scene.home / "jobs").glob("*/run.json"))


def has_begun_or_ended(actor: Actor) -> bool:
    state = actor.jobs.status(actor.job_id).job.state
    return not isinstance(state, Running) or state.run is not None


def try_until_fork(stage: Stage, case: Case) -> list[Result]:
    """Only the points at which a shim has a job, and the job's process is not there yet."""
    points = points_of(stage, case, every=True)
    begin = next(number for number, point in enumerate(points, 1) if point.call == "recvmsg")
    points = points[begin:]  # before it, a spare shim rehearses
    end = next(number for number, point in enumerate(points, 1) if point.call in FORKS)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda point: try_point(stage, case, point), points[:end]))


def try_all(stage: Stage, cases: Iterable[Case], every: bool) -> list[Result]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        cases = list(cases)
        first, *others = pool.map(lambda case: points_of(stage, case, every), cases)
        if not every:
            role = cases[0].role
            every_alike, every_own = ALIKE_EVERY.get(role, ALIKE_EVERY_ELSE), OWN_EVERY.get(role, 1)
            others = [without_most_of(first, points, every_alike, every_own) for points in others]
        listed = zip(cases, [first, *others], strict=True)
        trials = [(case, point) for case, points in listed for point in points]
        random.Random(0).shuffle(trials)  # those that wait for a timer go beside those that work
        return list(pool.map(lambda trial: try_until_struck(stage, *trial), trials))


def without_most_of(first: list[Point], points: list[Point], every_alike: int, every_own: int) -> list[Point]:
    """All plays begin alike: of that, only some points again."""
    pairs = enumerate(zip(first, points, strict=False))
    alike = next((number for number, (one, other) in pairs if one != other), min(len(first), len(points)))
    return points[:alike:every_alike] + points[alike::every_own]


def summary(results: Iterable[Result]) -> str:
    counted = Counter(f"{result.case}: {word(result)}" for result in results)
    return "\n".join(f"{number:5} {line}" for line, number in sorted(counted.items()))


def word(result: Result) -> str:
    if result.violates:
        return "VIOLATION"
    return result.outcome if result.struck else "missed"  # this time it made fewer calls

"""Jobs of other machines against jobs of this one, and against plain `ssh host command` and `srun command`.

The machines are this one: two sshd on loopback, a private Slurm, a small Ray (tests/clusters). So what is measured
is what bgjob and the engines cost; a network adds a round trip to each call that crosses it.
"""

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.lab import BenchError, Lab, column, take_turns
from bench.report import Goal, Result, Row, Samples, ratio_at_most
from bgjob.api import Typed
from tests.clusters.engine import Engine, Local, Ray, Ssh
from tests.clusters.installed import missing
from tests.clusters.ray_cluster import ray_cluster
from tests.clusters.slurm_cluster import SlurmCluster
from tests.clusters.ssh_hosts import SshHosts
from tests.clusters.target import Target

LOCAL, SSH, SLURM, SESSION, RAY = "local", "ssh", "slurm", "slurm session", "ray"
PLAIN_SSH, PLAIN_SRUN = "`ssh host true`", "`srun true`"
PLAIN = {SSH: PLAIN_SSH, SLURM: PLAIN_SRUN, SESSION: PLAIN_SRUN}
LISTED, SHORT_JOBS, PLAIN_JOBS = 20, 200, 20
STARTERS = 4
MOST_JOBS = 1000
GOALS: Mapping[tuple[str, str], Goal] = {
    ("look", SSH): ratio_at_most(2),
    ("start", SESSION): ratio_at_most(5),
    ("start to exit seen", SESSION): ratio_at_most(5),
}


class Slurm(Local):
    """This machine has its commands, and all nodes have the directory."""

    kind = "slurm"

    def table(self, home: Path, max_jobs: int) -> Mapping[str, object]:
        return {"kind": "slurm", "home": str(home)}


@dataclass
class Place:
    """Where jobs run, with one that waits for input and has printed something."""

    name: str
    target: Target
    asked: Mapping[str, Any] = field(default_factory=dict)
    cat: str = ""

    def prepare(self) -> None:
        self.target.ended(self.start("true"))  # what is made lazily: relay, connection, session
        self.cat = self.start("seq 100; exec cat")
        self.target.wait_until_printed(self.cat, "100")

    def start(self, command: str) -> str:
        return self.target.start(command, **self.asked)

    # -- what is measured: each in ms -------------------------------------------------------------------

    def start_and_end(self) -> tuple[float, float]:
        began = time.perf_counter()
        job_id = self.start("true")
        answered = time.perf_counter()
        self.target.ended(job_id)
        return (answered - began) * 1000, (time.perf_counter() - began) * 1000

    def look(self) -> float:
        return _took_ms(lambda: self.target.jobs.status(self.cat))

    def tail(self) -> float:
        return _took_ms(lambda: self.target.jobs.tail(self.cat, 20))

    def list(self) -> float:
        return _took_ms(lambda: self.target.jobs.list(limit=LISTED))

    def turn(self) -> float:
        return _took_ms(lambda: self.target.jobs.interact(self.cat, Typed("hello")))

    def jobs_per_s(self, count: int) -> float:
        began = time.perf_counter()
        with ThreadPoolExecutor(STARTERS) as pool:
            ids = list(pool.map(self.start, ["true"] * count))
        for job_id in ids:
            self.target.ended(job_id)
        return count / (time.perf_counter() - began)


def _took_ms(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1000


Command = Callable[[], None]


def targets(lab: Lab) -> Result:
    """start, look, tail, list, stdin and 200 short jobs on ssh, Slurm and Ray, against local, ssh and srun"""
    with contextlib.ExitStack() as stack:
        places, plain, notes = _places(lab, stack)
        for place in places:
            place.prepare()
        rows = [*_starts(lab, places, plain), *_looks(lab, places), *_many(lab, places, plain)]
        return Result(rows, [*notes, _about(places)])


# -- what is there ----------------------------------------------------------------------------------------


def _places(lab: Lab, stack: contextlib.ExitStack) -> tuple[list[Place], dict[str, Command], list[str]]:
    """The places, plain commands by name, and what is not there and why."""
    home = lab.new_home()

    def new(engine: Engine, **settings: str) -> Target:
        return stack.enter_context(_target(home, engine, settings))

    places, plain = [Place(LOCAL, new(Local()))], dict[str, Command]()
    notes = [f"{kind} is not measured: {why}" for kind in (SSH, SLURM, RAY) if (why := missing(kind))]
    if not missing(SSH):
        hosts = stack.enter_context(SshHosts(home / "hosts"))
        places.append(Place(SSH, new(Ssh(hosts))))
        plain[PLAIN_SSH] = _command(hosts.command(hosts.h1, "true"), os.environ)
    if not missing(SLURM):
        cluster = stack.enter_context(SlurmCluster(home / "cluster"))
        target = new(Slurm(), SLURM_CONF=str(cluster.conf))
        places += [Place(SLURM, target), Place(SESSION, target, {"options": {"session": "bench"}})]
        plain[PLAIN_SRUN] = _command(["srun", "--quiet", "true"], cluster.environ)
    if not missing(RAY):
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="bgjob-ray-"))
        places.append(Place(RAY, new(Ray(stack.enter_context(ray_cluster(Path(directory), *Ray.nodes))))))
    return places, plain, notes


@contextlib.contextmanager
def _target(home: Path, engine: Engine, settings: Mapping[str, Any]) -> Iterator[Target]:
    directory = home / engine.kind
    directory.mkdir()
    with Target(engine, directory, MOST_JOBS, **settings) as target:
        yield target


def _command(argv: Sequence[str], environ: Mapping[str, str]) -> Command:
    def run() -> None:
        done = subprocess.run(argv, env=environ, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if done.returncode:
            raise BenchError(f"{argv[0]} has failed: {done.stderr.decode()[-300:]}")

    return run


# -- rows -------------------------------------------------------------------------------------------------


def _starts(lab: Lab, places: Sequence[Place], plain: Mapping[str, Command]) -> Iterator[Row]:
    """Those that take seconds in rounds of their own, with local ones between them."""
    for slow in (False, True):
        those = [place for place in places if place.name == LOCAL or (place.name == SLURM) == slow]
        beside = {name: command for name, command in plain.items() if not slow or name == PLAIN_SRUN}
        if len(those) > 1:
            yield from _starts_of(those, beside, lab.rounds(8 if slow else 40, 2))


def _starts_of(places: Sequence[Place], plain: Mapping[str, Command], rounds: int) -> Iterator[Row]:
    turns: list[Callable[[], tuple[float, ...]]] = [place.start_and_end for place in places]
    turns += [lambda run=run: (0.0, _took_ms(run)) for run in plain.values()]  # type: ignore[misc]
    samples = take_turns(turns, rounds, lambda once: once())
    seen = dict(zip((*(place.name for place in places), *plain), column(1, samples), strict=True))
    answered = dict(zip((place.name for place in places), column(0, samples), strict=False))
    for name in list(answered)[1:]:
        yield _row("start", name, answered[name], answered[LOCAL])
        yield _row("start to exit seen", name, seen[name], seen[LOCAL])
        if PLAIN.get(name) in seen:
            yield Row(f"start to exit seen, {name}", "ms", seen[name], seen[PLAIN[name]], PLAIN[name])


def _looks(lab: Lab, places: Sequence[Place]) -> Iterator[Row]:
    measures: dict[str, Callable[[Place], float]] = {
        "look": Place.look,
        "tail": Place.tail,
        f"list of {LISTED}": Place.list,
        "stdin turn": Place.turn,
    }
    for title, once in measures.items():
        samples = take_turns(places, lab.rounds(100, 3), once)
        for place, its in list(zip(places, samples, strict=True))[1:]:
            yield _row(title, place.name, its, samples[0])


def _many(lab: Lab, places: Sequence[Place], plain: Mapping[str, Command]) -> Iterator[Row]:
    count = lab.rounds(SHORT_JOBS, 4)
    turns: dict[str, Callable[[], float]] = {
        place.name: lambda place=place: place.jobs_per_s(count)  # type: ignore[misc]
        for place in places
    }
    turns |= {name: lambda run=run: _plain_per_s(run, lab) for name, run in plain.items()}  # type: ignore[misc]
    samples = take_turns(list(turns.values()), lab.rounds(3, 1), lambda once: once(), warm_up=0)
    by_name = dict(zip(turns, samples, strict=True))
    title = f"{count} x `true`"
    for place in places[1:]:
        yield _row(title, place.name, by_name[place.name], by_name[LOCAL], "jobs/s")
        if (other := PLAIN.get(place.name)) in by_name:
            yield Row(
                f"{title}, {place.name}", "jobs/s", by_name[place.name], by_name[str(other)], str(other)
            )


def _plain_per_s(run: Command, lab: Lab) -> float:
    """As many at a time as jobs are started at a time."""
    count, began = lab.rounds(PLAIN_JOBS, 4), time.perf_counter()
    with ThreadPoolExecutor(STARTERS) as pool:
        list(pool.map(lambda _: run(), range(count)))
    return count / (time.perf_counter() - began)


def _row(title: str, name: str, ours: Samples, local: Samples, unit: str = "ms") -> Row:
    return Row(f"{title}, {name}", unit, ours, local, LOCAL, GOALS.get((title, name)))


def _about(places: Sequence[Place]) -> str:
    return f"the same calls in one process, in turns: {', '.join(place.name for place in places)}"

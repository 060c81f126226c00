"""Eight processes on one queue: they submit, cancel, move and look, and kill -9 each other and all who serve them.

    python -m tests.chaos.queue_people DIRECTORY STRIKES SEED     with BGJOB_HOME, and a mark that all will carry

Whoever is killed is replaced. All that was said and done is appended to files, a line by a single write each:

    journal    by the jobs: "+ id group" at the start, "- id group" at the end
    said       by the people: "submitted id", "asked id" (before a kill), "error text"
    strikes    one line for each kill -9: the role
"""

import contextlib
import fcntl
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bgjob.api import Jobs, open_jobs
from bgjob.core.errors import BgjobError, InvalidArgument, JobLimitReached, JobNotFound
from bgjob.home import queue_dir
from bgjob.system import processes
from tests.chaos.killer import Victim, is_named, is_whole, kill, pair_of
from tests.support.dispatchers import DISPATCHER, KEEPER
from tests.support.process_table import every_pid, seen

MARK = "BGJOB_HOME"
PEOPLE = 8
PERSON = "bgjob-person"
GROUPS = {"gpu": 1, "build": 2}
SLOTS = 4
ENOUGH = 25  # waiting: more would only take time
MOST_DESCRIPTORS = 24
ROLES = {"shim": 20, "guard": 15, "drainer": 20, "keeper": 10, "both": 15, "person": 15, "zygote": 5}
NAMES = {
    "shim": "bgjob-shim",
    "drainer": DISPATCHER,
    "keeper": KEEPER,
    "person": PERSON,
    "zygote": "bgjob-zygote",
}
COMMAND = (
    'echo "+ $BGJOB_ID {group}" >> {journal}; {work}; echo "- $BGJOB_ID {group}" >> {journal}; exit {code}'
)


class Notes:
    def __init__(self, directory: Path) -> None:
        self.journal, self.strikes = directory / "journal", directory / "strikes"
        self._said, self._turn = directory / "said", directory / "turn"

    def say(self, line: str) -> None:
        append(self._said, line)

    def said(self, word: str) -> list[str]:
        lines = self._said.read_text().splitlines()
        return [rest for first, _, rest in (line.partition(" ") for line in lines) if first == word]

    def struck(self) -> list[str]:
        return self.strikes.read_text().splitlines() if self.strikes.exists() else []

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """One strikes at a time: of a guard and its shim, only one may die."""
        with self._turn.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def append(path: Path, line: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, line.encode() + b"\n")
    os.close(fd)


class Person:
    def __init__(self, jobs: Jobs, notes: Notes, chance: random.Random, strikes: int) -> None:
        self._jobs, self._notes, self._chance, self._strikes = jobs, notes, chance, strikes
        self._home = jobs.home
        self._mark = f"{MARK}={os.environ[MARK]}".encode()
        self._mine: list[str] = []

    def live(self) -> None:
        acts = {self.submit: 40, self.cancel: 8, self.move: 6, self.look: 8, self.strike: 30}
        while len(self._notes.struck()) < self._strikes:
            (act,) = self._chance.choices(list(acts), list(acts.values()))
            try:
                act()
            except BgjobError as error:
                self._notes.say(f"error {type(error).__name__}: {error}")

    # -- what people do -----------------------------------------------------------------------------

    def submit(self) -> None:
        if len(queue_dir.entries(self._home)) > ENOUGH:
            return time.sleep(0.01)
        chance = self._chance
        group = chance.choice([None, None, None, "gpu", "build"])
        (work,) = chance.choices(
            [":", "sleep 0.02", "sleep 0.2"], [6, 3, 1]
        )  # some live until they are struck
        code = 0 if chance.random() < 0.8 else 1
        after = [chance.choice(self._mine)] if self._mine and chance.random() < 0.3 else None
        options = {
            "group": group,
            "priority": chance.randrange(-2, 3),
            "after_policy": chance.choice(["success", "any"]),
            "delay_s": chance.choice([None, None, None, 0.05]),
        }
        command = COMMAND.format(group=group or "-", journal=self._notes.journal, work=work, code=code)
        with contextlib.suppress(JobLimitReached):  # not all are willing to wait
            job = self._jobs.execute(command, queue=chance.random() < 0.95, after=after, options=options)
            self._notes.say(f"submitted {job.id}")
            self._mine.append(job.id)

    def one_that_waits(self) -> str | None:
        entries = queue_dir.entries(self._home)
        return queue_dir.job_of(self._chance.choice(entries)) if entries else None

    def cancel(self) -> None:
        if job_id := self.one_that_waits():
            self._notes.say(f"asked {job_id}")
            self._jobs.kill(job_id, grace_s=0)

    def move(self) -> None:
        if job_id := self.one_that_waits():
            with contextlib.suppress(
                InvalidArgument, JobNotFound
            ):  # it has just started, or is not yet there
                self._jobs.prioritize(job_id, self._chance.randrange(-5, 6))

    def look(self) -> None:
        self._jobs.list(limit=20)
        for pid in self._named(DISPATCHER):
            with contextlib.suppress(OSError):
                if (count := len(list(Path(f"/proc/{pid}/fd").iterdir()))) > MOST_DESCRIPTORS:
                    self._notes.say(f"error {count} descriptors of {pid}")

    # -- what nobody should do ----------------------------------------------------------------------

    def strike(self) -> None:
        (role,) = self._chance.choices(list(ROLES), list(ROLES.values()))
        with self._notes.turn():
            victims = self._victims(role)
            if not victims:
                return
            append(self._notes.strikes, role)  # before: one may be oneself
            for victim in victims:
                kill(victim)

    def _victims(self, role: str) -> list[Victim]:
        if role == "both":  # who drains, and who sees to that
            return [
                Victim(pid, partial(is_named, pid, name))
                for name in (KEEPER, DISPATCHER)
                for pid in self._named(name)
            ]
        if role in ("shim", "guard"):
            pairs = [pair for pair in map(pair_of, self._named(NAMES["shim"])) if pair]
            victims = [Victim(getattr(pair, role), partial(is_whole, pair)) for pair in pairs]
        else:
            name = NAMES[role]
            victims = [Victim(pid, partial(is_named, pid, name)) for pid in self._named(name)]
        return [self._chance.choice(victims)] if victims else []

    def _named(self, name: str) -> list[int]:
        """Only of those that carry our mark."""
        return [
            pid
            for pid in every_pid()
            if (now := seen(pid)) and now.name == name and processes._carries(pid, self._mark)
        ]


def be_person(notes: Notes, strikes: int, seed: str) -> None:
    status = 1
    try:
        processes.set_process_name(PERSON)
        jobs = open_jobs(os.environ)
        Person(jobs, notes, random.Random(seed), strikes).live()
        jobs.close()
        status = 0
    finally:
        if status:
            notes.say("error " + traceback.format_exc().replace("\n", " | "))
        os._exit(status)


def main(directory: str, strikes: str, seed: str) -> None:
    """Until enough were struck: a person that was killed is replaced, one that fails is an error."""
    notes = Notes(Path(directory))
    alive = 0
    born = 0
    while alive or len(notes.struck()) < int(strikes):
        while alive < PEOPLE and len(notes.struck()) < int(strikes):
            born += 1
            if os.fork() == 0:
                be_person(notes, int(strikes), f"{seed} {born}")
            alive += 1
        _, status = os.wait()
        alive -= 1
        if status not in (0, int(signal.SIGKILL)):
            notes.say(f"error a person ended with {status}")


if __name__ == "__main__":
    main(*sys.argv[1:])

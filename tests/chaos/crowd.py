"""Many at once, each with one job after the other: started through servers that die, seen to its end by themselves."""

import collections
import os
import random
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bgjob.core.errors import BgjobError
from tests.chaos.plays import (
    Actor,
    Play,
    burst,
    chatter,
    conversation,
    end_of_input,
    killed,
    left_behind,
    resized,
    timed_out,
)
from tests.chaos.stage import Scene, Server, Stage, Violation
from tests.chaos.trial import see_to_its_end, see_what_is_there

SERVERS = 4
PEOPLE = 16
PLAYS = (
    burst,
    chatter,
    chatter,
    chatter,
    chatter,
    conversation,
    end_of_input,
    killed,
    left_behind,
    timed_out,
)


class Servers:
    """A few; one that has died is replaced by the next who needs it."""

    def __init__(self, stage: Stage, environment: Mapping[str, str]) -> None:
        self._stage, self._environment = stage, environment
        self._mutexes = [threading.Lock() for _ in range(SERVERS)]
        self._servers = [self._new() for _ in range(SERVERS)]

    def _new(self) -> Server:
        return Server(self._stage.servers, self._environment, None, many=True)

    def execute(self, number: int, command: str, options: Mapping[str, Any]) -> dict[str, str]:
        """Nothing if the server died over it."""
        with self._mutexes[number]:
            server = self._servers[number]
            server.ask(command, options)
            answer = server.answer()
            if not answer:
                server.close()
                self._servers[number] = self._new()
        return answer

    def close(self) -> None:
        for server in self._servers:
            server.close()


class Crowd:
    def __init__(self, stage: Stage, scene: Scene, seed: int) -> None:
        self._scene, self._seed = scene, seed
        self.servers = Servers(stage, scene.environment)
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.violations: list[str] = []
        self._mutex = threading.Lock()
        self._is_over = threading.Event()
        self._pool = ThreadPoolExecutor(PEOPLE)
        self._people = [self._pool.submit(self._live, number) for number in range(PEOPLE)]

    def go_home(self) -> None:
        """When they are done with what they are at."""
        self._is_over.set()
        for person in self._people:
            person.result()
        self._pool.shutdown()
        self.servers.close()

    def _live(self, person: int) -> None:
        chance = random.Random(f"{self._seed} {person}")
        count = 0
        while not self._is_over.is_set():
            count += 1
            self._one_job(f"{person}-{count}", chance)

    def _one_job(self, name: str, chance: random.Random) -> None:
        terminal = chance.random() < 0.4
        play = chance.choice([*PLAYS, resized] if terminal else PLAYS)(terminal)
        server = chance.randrange(SERVERS)
        try:
            outcome = self._perform(name, play, server)
        except (Violation, AssertionError, BgjobError) as violation:
            outcome = "violation"
            self.violations.append(
                f"{name}, {play.name}, {terminal=}: {type(violation).__name__}: {violation}"
            )
        with self._mutex:
            self.outcomes[outcome] += 1

    def _perform(self, name: str, play: Play, server: int) -> str:
        gate = self._scene.directory / f"gate-{name}"
        os.mkfifo(gate)
        options = {**play.options, "name": name, "env": {"GATE": str(gate)}}
        answer = self.servers.execute(server, play.command, options)
        if "error" in answer:
            return f"refused: {answer['error']}"
        job_id = answer.get("id") or self._id_of(name)
        if job_id is None:
            return "none"
        actor = Actor(self._scene.jobs, job_id, gate)
        return see_to_its_end(actor, play) if "id" in answer else see_what_is_there(actor, play)

    def _id_of(self, name: str) -> str | None:
        for _, job in self._scene.jobs.store.jobs():
            if job.spec.name == name:
                return job.id
        return None

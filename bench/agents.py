"""One MCP client as an agent uses it: calls at a pace, each timed, each answer checked."""

import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.client import BenchError, Json, Server, ToolFailed
from bench.report import Samples

LONGEST_WAIT_S = 30.0

Act = Callable[[], None]


class WrongAnswer(ToolFailed):
    """No error, but not what is true."""


@dataclass
class Tally:
    took_ms: dict[str, Samples] = field(default_factory=lambda: defaultdict(list))
    calls: int = 0
    errors: list[str] = field(default_factory=list)


class Agent:
    def __init__(self, server: Server, seed: int) -> None:
        self.server, self.random, self.tally = server, random.Random(seed), Tally()
        self.calls_per_s: float | None = None
        """None: as fast as it can."""
        self._next_at = 0.0

    def call(self, tool: str, *, timed_as: str | None = None, **arguments: Any) -> Json:
        self._think()
        answer = self.server.call(tool, **arguments)
        self.tally.calls += 1
        self.tally.took_ms[timed_as or tool].append(self.server.last_s * 1000)
        return answer

    def work(self, acts: Mapping[Act, int], until: float) -> None:
        """Acts by chance, as often as their weights say, until this time of the monotonic clock."""
        choices, weights = list(acts), list(acts.values())
        while time.monotonic() < until and self.attempt(self.random.choices(choices, weights)[0]):
            pass

    def attempt(self, act: Act) -> bool:
        """False when there is no use in going on: the server is gone or mute."""
        try:
            act()
        except ToolFailed as error:
            self.tally.errors.append(f"{act.__name__}: {error}")
        except BenchError as error:
            self.tally.errors.append(f"{act.__name__}: {error}")
            return False
        return True

    def say(self, job_id: str, text: str) -> None:
        """Type into a job that echoes, and see the echo: at once, or by waiting for it."""
        said = self.call("interact_with_job", job_id=job_id, input=text)
        expect(said["accepted_bytes"] == len(text) + 1, "it took all that was typed", said)
        if text not in said["stdout"]:
            self.wait(job_id, pattern=text, literal=True, since=said["cursor"])

    def wait(self, job_id: str, **conditions: Any) -> Json:
        """How long that takes is the job's affair."""
        waited = self.call(
            "wait_for_job", timed_as="(wait)", job_ids=[job_id], timeout_s=LONGEST_WAIT_S, **conditions
        )
        expect(waited["met"], f"the wait for {conditions or 'its end'} is met", waited)
        job: Json = waited["jobs"][0]
        return job

    def _think(self) -> None:
        if self.calls_per_s is None:
            return
        now = time.monotonic()
        time.sleep(max(0.0, self._next_at - now))
        # never to make up for a slow answer: an agent does not hurry afterwards
        self._next_at = max(now, self._next_at) + self.random.uniform(0.5, 1.5) / self.calls_per_s


def expect(holds: bool, what: str, answer: Json) -> None:
    if not holds:
        raise WrongAnswer(f"expected that {what}; the answer was {str(answer)[:400]}")

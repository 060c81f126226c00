"""A client as an agent uses it: calls at a pace, each timed, each answer checked. Used by crowd and soak."""

import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any
from uuid import uuid4

from bench.lab import BenchError, Json, Server, ToolFailed, wait_until
from bench.report import Samples

LONGEST_WAIT_S = 30.0
PAGE = 20
LINES = 40_000
"""Of 40 bytes each: more than the soak lets a job keep."""

Act = Callable[[], None]


class Agent:
    def __init__(self, server: Server, seed: int, known: Sequence[str]) -> None:
        """known: jobs of which it asks for status and output, now and then."""
        self.server, self.random, self.known = server, random.Random(seed), known
        self.calls_per_s: float | None = None
        """None: as fast as it can."""
        self.took_ms: dict[str, Samples] = defaultdict(list)
        self.errors: list[str] = []
        self.started_jobs = 0
        self._next_at, self._numbers = 0.0, count()

    @property
    def calls(self) -> int:
        return sum(map(len, self.took_ms.values()))

    def work(self, acts: Mapping[Act, int], until: float) -> None:
        """Acts by chance, as often as their weights say, until this time of the monotonic clock."""
        choices, weights = list(acts), list(acts.values())
        while time.monotonic() < until and self.attempt(self.random.choices(choices, weights)[0]):
            pass

    def attempt(self, act: Act) -> bool:
        """False when there is no use in going on: the server is gone."""
        try:
            act()
        except BenchError as error:
            self.errors.append(f"{act.__name__}: {error}")
            return isinstance(error, ToolFailed)
        return True

    def call(self, tool: str, *, timed_as: str | None = None, **arguments: Any) -> Json:
        self._think()
        answer = self.server.tool(tool, **arguments)
        self.took_ms[timed_as or tool].append(self.server.last_ms)
        return answer

    def _think(self) -> None:
        if self.calls_per_s is None:
            return
        now = time.monotonic()
        time.sleep(max(0.0, self._next_at - now))
        # an agent does not hurry to make up for a slow answer
        self._next_at = max(now, self._next_at) + self.random.uniform(0.5, 1.5) / self.calls_per_s

    # -- looking ------------------------------------------------------------------------------------

    def status(self) -> None:
        status = self.call("get_job_status", job_id=self._some(), detail=self.random.random() < 0.1)
        alive = status["descendants"] > 0 or status["status"] != "running"
        expect(alive, "a running job has processes", status)

    def tail(self) -> None:
        self.call("tail_job_output", job_id=self._some(), lines=20)

    def read(self) -> None:
        self.call("get_job_output", job_id=self._some(), max_tokens=500)

    def list(self) -> None:
        page = self.call("list_jobs")
        expect(len(page["jobs"]) == PAGE or "next_cursor" not in page, "the page is full", page)
        started = [job["started"] for job in page["jobs"]]
        expect(bool(started) and started[0] >= started[-1], "the newest comes first", page)

    def search(self) -> None:
        some = [self._some() for _ in range(3)]
        found = self.call("search_job_output", pattern=r"(line|step) 1\d+ of", job_ids=some)
        expect(found["complete"], "the search was complete", found)

    # -- jobs of its own ----------------------------------------------------------------------------

    def run(self) -> None:
        number = next(self._numbers)
        command = f"echo number {number}; echo twice >&2; exit {number % 3}"
        ran = self.start(command, timed_as="execute_command and its end", wait_s=LONGEST_WAIT_S)
        expect(ran.get("exit_code") == number % 3, f"its exit code is {number % 3}", ran)
        expect((ran["stdout"], ran["stderr"]) == (f"number {number}\n", "twice\n"), "it printed both", ran)

    def type(self) -> None:
        job_id = self.start("exec cat")["job_id"]
        self.say(job_id, "hello")
        self.call("interact_with_job", job_id=job_id, input="", add_newline=False, close_stdin=True)
        self.expect_end(job_id, "completed", "exited")

    def use_a_terminal(self) -> None:
        job_id = self.start("echo welcome; exec cat", pty=True)["job_id"]
        self.say(job_id, "hello")
        self.call("interact_with_job", job_id=job_id, input="", add_newline=False, rows=30, cols=100)
        shown = self.call("tail_job_output", timed_as="(screen)", job_id=job_id, view="screen")
        expect("welcome" in shown["screen"], "the screen shows it", shown)
        self.call("interact_with_job", job_id=job_id, input="", add_newline=False, keys=["ctrl-c"])
        self.expect_end(job_id, "killed", "signaled")

    def kill_a_tree(self) -> None:
        job_id = self.start("setsid sleep 1000 & (sleep 1000 &) & sleep 1000 & echo ready; wait")["job_id"]
        self.wait(job_id, pattern="^ready$")
        self.kill(job_id)
        status = self.call("get_job_status", job_id=job_id)
        expect(status["descendants"] == 0, "none of its processes is alive", status)

    def print_much(self) -> None:
        job_id = self.start(f"seq -f 'line %.0f of a very very very long log' {LINES}")["job_id"]
        self.expect_end(job_id, "completed", "exited")
        found = self.call("search_job_output", pattern=rf"line {LINES} of", job_ids=[job_id])
        expect(found["count"] == 1, "its last line is found once", found)

    def time_out(self) -> None:
        self.expect_end(self.start("exec sleep 1000", timeout_s=0.2)["job_id"], "killed", "timed_out")

    def leave_a_daemon(self) -> None:
        job_id = self.start("setsid sleep 0.5 & echo started")["job_id"]
        self.expect_end(job_id, "completed", "exited")

        def is_gone() -> bool:
            return not self.call("get_job_status", job_id=job_id)["descendants"]

        wait_until(is_gone, "the daemon of the job has ended", within_s=20, every_s=0.02)

    def reuse(self) -> None:
        name = f"server {uuid4()}"
        first, second = (self.start("exec sleep 1000", name=name, if_running="reuse") for _ in range(2))
        expect(first["job_id"] == second["job_id"], "there is one job of a name", second)
        self.kill(first["job_id"])

    def ask_for_the_impossible(self) -> None:
        unknown = str(uuid4())
        killed = self.call("kill_job", job_id=unknown)
        expect(killed["status"] == "not_found", "there is no such job", killed)
        try:
            answer = self.call("get_job_status", job_id=unknown)
        except ToolFailed as error:
            expect(f"Job {unknown} not found" in str(error), "the error says so", {"error": str(error)})
        else:
            expect(False, "the status of an unknown job is an error", answer)

    # -- what acts are made of ----------------------------------------------------------------------

    def start(self, command: str, **options: Any) -> Json:
        self.started_jobs += 1
        return self.call("execute_command", command=command, **options)

    def say(self, job_id: str, text: str) -> None:
        """Type into a job that echoes, and see the echo: at once, or by waiting for it."""
        said = self.call("interact_with_job", job_id=job_id, input=text)
        if text not in said["stdout"]:
            self.wait(job_id, pattern=text, literal=True, since=said["cursor"])

    def wait(self, job_id: str, **conditions: Any) -> Json:
        """How long that takes is up to the job: it is in no table."""
        arguments = {"job_ids": [job_id], "timeout_s": LONGEST_WAIT_S, **conditions}
        waited = self.call("wait_for_job", timed_as="(wait)", **arguments)
        expect(waited["met"], f"the wait for {conditions or 'its end'} is met", waited)
        return dict(waited["jobs"][0])

    def kill(self, job_id: str) -> None:
        killed = self.call("kill_job", job_id=job_id)
        expect(killed["status"] == "killed" and killed["processes"] > 0, "it was killed", killed)

    def expect_end(self, job_id: str, word: str, cause: str) -> Json:
        waited = self.wait(job_id)
        told = (waited["status"], waited.get("cause", "exited"))
        expect(told == (word, cause), f"it ended as {word}, {cause}", waited)
        return waited

    def _some(self) -> str:
        return self.random.choice(self.known)


def expect(holds: bool, what: str, answer: Json) -> None:
    if not holds:
        raise ToolFailed(f"expected that {what}; the answer was {str(answer)[:400]}")

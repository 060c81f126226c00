"""The clients of the load: workers who use every tool, and a watcher who asks for the status of two jobs."""

from collections.abc import Sequence
from itertools import count

from bench.agents import LONGEST_WAIT_S, Act, Agent, expect
from bench.client import Json, Server

STANDING: dict[str, Json] = {
    "sleeps": {"command": "exec sleep 1000"},
    "echoes": {"command": "exec cat"},
    "ticks": {"command": "while sleep 2; do echo tick; done"},
    "tree": {"command": "sleep 1000 & sleep 1000 & sleep 1000 & echo ready; wait"},
    "printed": {"command": "seq -f 'line %.0f of a build' 2000; exec sleep 1000"},
    "terminal": {"command": "echo welcome; exec cat", "pty": True},
}
"""What the running jobs are: all of them end by SIGTERM, at once."""
PAGE = 100
EVERY_NTH_LISTS = 10


class Worker(Agent):
    """Has jobs of its own, and looks at those of others and at ended ones too."""

    def __init__(self, server: Server, seed: int, share: int, ended: Sequence[str]) -> None:
        super().__init__(server, seed)
        self._kinds = [list(STANDING)[index % len(STANDING)] for index in range(share)]
        self._ended, self._colleagues = ended, [self]
        self.jobs: dict[str, str] = {}
        self._numbers = count()

    def meet(self, colleagues: Sequence["Worker"]) -> None:
        self._colleagues = list(colleagues)

    # -- the whole share ----------------------------------------------------------------------------

    def start_all(self) -> None:
        for kind in self._kinds:
            self.attempt(lambda kind=kind: self._start(kind))  # type: ignore[misc]

    def kill_all(self) -> None:
        for job_id in list(self.jobs):
            self.attempt(lambda job_id=job_id: self._kill(job_id))  # type: ignore[misc]

    def _start(self, kind: str) -> None:
        started = self.call("execute_command", **STANDING[kind])
        expect(started["status"] == "running", "it runs", started)
        self.jobs[started["job_id"]] = kind

    def _kill(self, job_id: str) -> None:
        del self.jobs[job_id]
        killed = self.call("kill_job", job_id=job_id)
        expect(killed["status"] == "killed" and killed["processes"] > 0, "it was killed", killed)

    # -- the mix ------------------------------------------------------------------------------------

    def mix(self, calls_per_s: float | None) -> dict[Act, int]:
        """Acts and their weights. At full speed nobody waits for what a job does later."""
        return {
            self.look: 30,
            self.tail: 20,
            self.read: 10,
            self.run: 10,
            self.type: 8,
            self.list: 7,
            self.search: 5,
            self.follow: 5 if calls_per_s else 0,
            self.replace: 5,
            self.see: 3,
        }

    def look(self) -> None:
        status = self.call("get_job_status", job_id=self._some_job(), detail=self.random.random() < 0.1)
        expect(
            status["descendants"] > 0 or status["status"] != "running", "a running job has processes", status
        )

    def tail(self) -> None:
        self.call("tail_job_output", job_id=self._some_job(), lines=20)

    def read(self) -> None:
        self.call("get_job_output", job_id=self._some_job(), max_tokens=500)

    def run(self) -> None:
        number = next(self._numbers)
        ran = self.call(
            "execute_command",
            timed_as="execute_command and its end",
            command=f"echo number {number}; exit {number % 3}",
            wait_s=LONGEST_WAIT_S,
        )
        expect(ran.get("exit_code") == number % 3, f"its exit code is {number % 3}", ran)
        expect(ran["stdout"] == f"number {number}\n", f"it printed number {number}", ran)

    def type(self) -> None:
        if job_id := self._own("echoes"):
            self.say(job_id, f"number {next(self._numbers)}")

    def list(self) -> None:
        page = self.call("list_jobs")
        expect(len(page["jobs"]) == PAGE or "next_cursor" not in page, "the page is full", page)
        places = [job["started"] for job in page["jobs"]]
        expect(bool(places) and places[0] >= places[-1], "the newest comes first", page)

    def search(self) -> None:
        some = [self._some_job() for _ in range(3)]
        found = self.call("search_job_output", pattern=r"(line|step) 1\d+ of", job_ids=some)
        expect(found["complete"], "it was searched whole", found)

    def follow(self) -> None:
        if job_id := self._own("ticks"):
            cursor = self.call("tail_job_output", job_id=job_id, lines=1)["cursor"]
            self.wait(job_id, pattern="tick", since=cursor)

    def replace(self) -> None:
        if self.jobs:
            job_id = self.random.choice(sorted(self.jobs))
            kind = self.jobs[job_id]
            self._kill(job_id)
            self._start(kind)

    def see(self) -> None:
        if job_id := self._own("terminal"):
            shown = self.call("tail_job_output", timed_as="(screen)", job_id=job_id, view="screen")
            expect("screen" in shown, "it has a screen", shown)

    def _own(self, kind: str) -> str | None:
        of_kind = sorted(job_id for job_id, its in self.jobs.items() if its == kind)
        return self.random.choice(of_kind) if of_kind else None

    def _some_job(self) -> str:
        """Of our own, of a colleague, or one that has ended."""
        colleague = self.random.choice(self._colleagues)
        # a colleague may replace one this very moment: a copy of the keys is one step
        whose = self.random.choice([list(self.jobs), list(colleague.jobs), self._ended])
        return self.random.choice(whose or self._ended)


class Watcher(Agent):
    """Asks the same in the same rhythm, whatever the others do: what it measures differs only by them."""

    def __init__(self, server: Server, seed: int, running: str, ended: str) -> None:
        super().__init__(server, seed)
        self._running, self._ended = running, ended
        self._rounds = count(1)

    def ask(self) -> None:
        self._expect_status(self._running, "running")
        self._expect_status(self._ended, "ended")
        if next(self._rounds) % EVERY_NTH_LISTS == 0:
            self.call("list_jobs")

    def _expect_status(self, job_id: str, word: str) -> None:
        status = self.call("get_job_status", timed_as=f"get_job_status, {word}", job_id=job_id)
        expect((status["status"] == "running") == (word == "running"), f"it is {word}", status)

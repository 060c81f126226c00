"""Scenes of a long life with jobs: each starts one, uses it and sees its end. The restless also lose their server."""

import contextlib
import os
import shutil
import signal
import threading
from collections.abc import Callable
from itertools import count
from typing import Any
from uuid import uuid4

from bench import census
from bench.agents import LONGEST_WAIT_S, Act, Agent, expect
from bench.client import BenchError, Json, Server, ToolFailed

LINES = 40_000
"""Of 40 bytes each: more than the soak lets a job keep."""
ENDS_WITHIN_S = 20.0
LATEST_KILL_S = 0.02


class Life(Agent):
    def __init__(self, server: Server, seed: int, resident: str) -> None:
        super().__init__(server, seed)
        self._resident, self._numbers = resident, count()
        self.started_jobs = 0

    @property
    def scenes(self) -> dict[Act, int]:
        """With their weights."""
        return {
            self.run: 10,
            self.type_and_close: 6,
            self.use_a_terminal: 4,
            self.wait_and_kill: 6,
            self.print_much: 3,
            self.time_out: 4,
            self.kill_a_tree: 4,
            self.leave_a_daemon: 3,
            self.reuse: 3,
            self.talk_to_the_resident: 10,
            self.wait_in_vain: 3,
            self.ask_for_the_impossible: 3,
            self.look_around: 6,
        }

    def run(self) -> None:
        number = next(self._numbers)
        ran = self._start(f"echo number {number}; echo twice >&2; exit {number % 3}", wait_s=LONGEST_WAIT_S)
        expect(ran.get("exit_code") == number % 3, f"its exit code is {number % 3}", ran)
        expect(ran["stdout"] == f"number {number}\n" and ran["stderr"] == "twice\n", "it printed both", ran)

    def type_and_close(self) -> None:
        job_id = self._start("exec cat")["job_id"]
        self.say(job_id, "hello")
        self.call("interact_with_job", job_id=job_id, input="", add_newline=False, close_stdin=True)
        self._expect_end(job_id, "completed", "exited")

    def use_a_terminal(self) -> None:
        job_id = self._start("echo welcome; exec cat", pty=True)["job_id"]
        self.say(job_id, "hello")
        self.call("interact_with_job", job_id=job_id, input="", add_newline=False, rows=30, cols=100)
        shown = self.call("tail_job_output", job_id=job_id, view="screen")
        expect("welcome" in shown["screen"], "the screen shows it", shown)
        self.call("interact_with_job", job_id=job_id, input="", add_newline=False, keys=["ctrl-c"])
        self._expect_end(job_id, "killed", "signaled")

    def wait_and_kill(self) -> None:
        job_id = self._start("sleep 0.1; echo ready; exec sleep 1000")["job_id"]
        self.wait(job_id, pattern="^ready$")
        self._kill(job_id)
        self._expect_end(job_id, "killed", "killed")

    def print_much(self) -> None:
        job_id = self._start(f"seq -f 'line %.0f of a very very very long log' {LINES}")["job_id"]
        self._expect_end(job_id, "completed", "exited")
        tail = self.call("tail_job_output", job_id=job_id, lines=1)
        expect(f"line {LINES} of" in tail["stdout"], "the last line is there", tail)
        found = self.call("search_job_output", pattern=rf"line {LINES} of", job_ids=[job_id])
        expect(found["count"] == 1, "it is found once", found)
        self.call("get_job_output", job_id=job_id, max_tokens=500)

    def time_out(self) -> None:
        job_id = self._start("exec sleep 1000", timeout_s=0.2)["job_id"]
        self._expect_end(job_id, "killed", "timed_out")

    def kill_a_tree(self) -> None:
        job_id = self._start("setsid sleep 1000 & (sleep 1000 &) & sleep 1000 & echo ready; wait")["job_id"]
        self.wait(job_id, pattern="^ready$")
        self._kill(job_id)
        status = self.call("get_job_status", job_id=job_id)
        expect(status["descendants"] == 0, "none of its processes is alive", status)

    def leave_a_daemon(self) -> None:
        job_id = self._start("setsid sleep 0.5 & echo started")["job_id"]
        self._expect_end(job_id, "completed", "exited")
        gone = census.wait_until(lambda: not self._descendants(job_id), ENDS_WITHIN_S)
        expect(gone, "its daemon has ended", {"job_id": job_id})

    def reuse(self) -> None:
        name = f"server {uuid4()}"
        first, second = (self._start("exec sleep 1000", name=name, if_running="reuse") for _ in range(2))
        expect(first["job_id"] == second["job_id"], "there is one job of a name", second)
        self._kill(first["job_id"])

    def talk_to_the_resident(self) -> None:
        self.say(self._resident, f"hello {uuid4()}")
        self.call("tail_job_output", job_id=self._resident, lines=5)
        self.call("get_job_status", job_id=self._resident, detail=True)

    def wait_in_vain(self) -> None:
        waited = self.call("wait_for_job", job_ids=[self._resident], pattern="never", timeout_s=0.3)
        expect(not waited["met"], "time was up", waited)

    def ask_for_the_impossible(self) -> None:
        unknown = str(uuid4())
        killed = self.call("kill_job", job_id=unknown)
        expect(killed["status"] == "not_found", "there is no such job", killed)
        for tool in ("get_job_status", "get_job_output", "tail_job_output"):
            self._expect_refusal(tool, unknown)

    def look_around(self) -> None:
        page = self.call("list_jobs")
        expect(self._resident in [job["job_id"] for job in page["jobs"]], "the resident is listed", page)
        self.call("list_jobs", status="running", limit=1000)
        self.call("search_job_output", pattern="line 77 of", limit=5)

    def end_server(self) -> None:
        if complaint := bury(self.server):
            raise ToolFailed(complaint)

    # -- what scenes are made of --------------------------------------------------------------------

    def _start(self, command: str, **options: Any) -> Json:
        self.started_jobs += 1
        return self.call("execute_command", command=command, **options)

    def _kill(self, job_id: str) -> None:
        killed = self.call("kill_job", job_id=job_id)
        expect(killed["status"] == "killed" and killed["processes"] > 0, "it was killed", killed)

    def _expect_end(self, job_id: str, word: str, cause: str) -> Json:
        waited = self.wait(job_id)
        expect((waited["status"], waited["cause"]) == (word, cause), f"it ended as {word}, {cause}", waited)
        return waited

    def _expect_refusal(self, tool: str, job_id: str) -> None:
        try:
            answer = self.call(tool, job_id=job_id)
        except ToolFailed as error:
            expect(
                f"Job {job_id} not found" in str(error), f"{tool} says what is wrong", {"error": str(error)}
            )
        else:
            expect(False, f"{tool} of an unknown job is an error", answer)

    def _descendants(self, job_id: str) -> int:
        return int(self.call("get_job_status", job_id=job_id)["descendants"])


class RestlessLife(Life):
    """Its servers end, or are killed; its jobs do not mind."""

    def __init__(self, start_server: Callable[[], Server], seed: int, resident: str) -> None:
        super().__init__(start_server(), seed, resident)
        self._start_server = start_server
        self.restarts = self.kills = 0

    @property
    def scenes(self) -> dict[Act, int]:
        return {**super().scenes, self.restart: 1, self.lose_the_server: 1, self.lose_the_starter: 1}

    def restart(self) -> None:
        self.restarts += 1
        self._renew_server()

    def lose_the_server(self) -> None:
        """kill -9 while a job runs: not the job, not its output, not its exit code is lost."""
        job_id = self._start("echo before; sleep 1; echo after; exit 7")["job_id"]
        os.kill(self.server.pid, signal.SIGKILL)
        self.kills += 1
        self._renew_server()
        waited = self._expect_end(job_id, "failed", "exited")
        expect(waited["exit_code"] == 7 and waited["stdout"] == "before\nafter\n", "nothing was lost", waited)

    def lose_the_starter(self) -> None:
        """kill -9 while a job is being started: it runs or it does not, and either way nothing stays behind."""
        name = f"mid-start {uuid4()}"
        killer = threading.Timer(
            self.random.uniform(0, LATEST_KILL_S), os.kill, (self.server.pid, signal.SIGKILL)
        )
        killer.start()
        with contextlib.suppress(BenchError):  # that it did not answer is the point
            self._start("sleep 0.5", name=name)
        killer.join()
        self.kills += 1
        self._renew_server()
        for job in self.call("list_jobs", status="running", limit=1000)["jobs"]:
            if job.get("name") == name:
                self.wait(job["job_id"])

    def _renew_server(self) -> None:
        complaint = bury(self.server)
        self.server = self._start_server()
        self.run()  # the first job boots the zygote: a server that has none counts as fewer processes
        if complaint:  # only now: a life without a server could not go on
            raise ToolFailed(complaint)


def bury(server: Server) -> str | None:
    """End it and forget it; what it complained about, if it did."""
    server.end()
    stderr = server.home / "stderr"
    said = stderr.read_text(errors="replace").strip() if stderr.exists() else ""
    shutil.rmtree(server.home, ignore_errors=True)
    return f"a server's stderr ends: {said[-400:]}" if said else None

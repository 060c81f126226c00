"""A model at a server: every call is a turn, every answer costs tokens. The same verbs by each server's tools."""

import json
import re
import shlex
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import processes
from bench.lab import BenchError, Json, Server
from bench.report import Cost

POLL_EVERY_S = 3.0
GIVE_UP_AFTER_S = 180.0
LONGEST_WAIT_S = 45.0
BYTES_PER_TOKEN = 4
STREAMS = ("stdout", "stderr", "screen")


class Session(ABC):
    """One task at one server; `job` is the job that the task is at."""

    def __init__(self, server: Server, work: Path) -> None:
        self.server, self.work = server, work
        self.job = ""
        self.checked: list[str] = []
        self._answers: list[int] = []
        self._began = time.monotonic()

    def call(self, tool: str, **arguments: Any) -> Json:
        try:
            return self.server.tool(tool, **arguments)
        finally:
            self._answers.append(self.server.last_text_bytes // BYTES_PER_TOKEN)

    def expect(self, what: str, holds: bool) -> None:
        """That the task has its result; costs nothing."""
        if not holds:
            raise BenchError(f"{self.server.name}: not so: {what}")
        self.checked.append(what)

    def cost(self) -> Cost:
        seconds = time.monotonic() - self._began
        return Cost(len(self._answers), sum(self._answers), max(self._answers), seconds)

    @abstractmethod
    def run(self, command: str) -> str:
        """What the command printed, or its end, when it has ended."""

    @abstractmethod
    def serve(self, command: str, ready: str) -> None:
        """Start a job, again if it runs, and wait until it has printed `ready`, a regular expression."""

    @abstractmethod
    def await_line(self, pattern: str) -> str: ...

    @abstractmethod
    def find(self, pattern: str) -> str:
        """Lines of the job's log, however far back."""

    @abstractmethod
    def open(self, command: str, without_terminal: str, shows: str = "") -> None:
        """Start what takes input, and wait for what it shows before."""

    @abstractmethod
    def type(self, line: str, reply: str = "") -> str: ...

    @abstractmethod
    def leave(self, line: str) -> None:
        """Type what ends the interpreter, and see that it has ended."""

    @abstractmethod
    def end(self) -> None:
        """End the job and all that it has started in `work`."""


class WithBgjob(Session):
    def start(self, command: str, **options: Any) -> Json:
        answer = self.call("execute_command", command=command, cwd=str(self.work), **options)
        self.job = str(answer["job_id"])
        return answer

    def run(self, command: str) -> str:
        answer = self.start(command, wait_s=LONGEST_WAIT_S)
        text = printed(answer)
        while answer["status"] == "running":
            answer = self._wait(since=answer["cursor"])
            text += printed(answer)
        return text

    def serve(self, command: str, ready: str) -> None:
        until = {"pattern": ready}
        self.start(command, name="server", if_running="restart", wait_s=LONGEST_WAIT_S, until=until)

    def await_line(self, pattern: str) -> str:
        return printed(self._wait(pattern=pattern))

    def find(self, pattern: str) -> str:
        return json.dumps(self.call("search_job_output", pattern=pattern, job_ids=[self.job]))

    def open(self, command: str, without_terminal: str = "", shows: str = "") -> None:
        self.start(command, pty=True, wait_s=LONGEST_WAIT_S)

    def type(self, line: str, reply: str = "") -> str:
        answer = self.interact(input=line)
        if reply in printed(answer):
            return printed(answer)
        return printed(self._wait(pattern=reply, literal=True, since=answer["cursor"]))

    def interact(self, **what: Any) -> Json:
        return self.call("interact_with_job", job_id=self.job, **what)

    def leave(self, line: str) -> None:
        answer = self.interact(input=line)
        if answer.get("status", "running") == "running":
            self._wait()

    def end(self) -> None:
        self.call("kill_job", job_id=self.job)

    def _wait(self, **until: Any) -> Json:
        waited = self.call("wait_for_job", job_ids=[self.job], timeout_s=LONGEST_WAIT_S, **until)
        return dict(waited["jobs"][0])


class WithReference(Session):
    """Its tools only tell how things stand, so the model asks every 3 seconds."""

    def start(self, command: str) -> None:
        """It has neither a shell nor a directory to start in."""
        line = f"cd {self.work} && {command}"
        self.job = str(self.call("execute_command", command=f"sh -c {shlex.quote(line)}")["job_id"])

    def run(self, command: str) -> str:
        self.start(command)
        self._await_end()
        return self._tail(50)

    def serve(self, command: str, ready: str) -> None:
        if self.job:
            self.call("kill_job", job_id=self.job)
        self.start(command)
        self.await_line(ready)

    def await_line(self, pattern: str) -> str:
        for _ in polls():
            if re.search(pattern, text := self._tail(50)):
                return text
        raise BenchError(f"{self.server.name}: {pattern!r} did not come")

    def find(self, pattern: str) -> str:
        """The last lines were seen before: more of them, and then all."""
        if re.search(pattern, text := self._tail(200), re.MULTILINE):
            return text
        return printed(self.call("get_job_output", job_id=self.job))

    def open(self, command: str, without_terminal: str, shows: str = "") -> None:
        self.start(without_terminal)
        if shows:
            self.await_line(shows)

    def type(self, line: str, reply: str = "") -> str:
        text = printed(self.call("interact_with_job", job_id=self.job, input=line))
        return text if reply in text else self.await_line(re.escape(reply))

    def leave(self, line: str) -> None:
        self.call("interact_with_job", job_id=self.job, input=line)
        self._await_end(at_once=True)

    def end(self) -> None:
        """It ends one process; what that has started must be looked for."""
        self.call("kill_job", job_id=self.job)
        if left_in(self.work):
            self.job = str(self.call("execute_command", command=f"pkill -f {self.work}")["job_id"])
            self._await_end(at_once=True)

    def _await_end(self, *, at_once: bool = False) -> None:
        for _ in polls(at_once=at_once):
            if self.call("get_job_status", job_id=self.job)["status"] != "running":
                return
        raise BenchError(f"{self.server.name}: the job did not end")

    def _tail(self, lines: int) -> str:
        return printed(self.call("tail_job_output", job_id=self.job, lines=lines))


def printed(answer: Json) -> str:
    return "\n".join(answer[stream] for stream in STREAMS if answer.get(stream))


def polls(*, at_once: bool = False) -> Iterator[None]:
    until = time.monotonic() + GIVE_UP_AFTER_S
    while time.monotonic() < until:
        if not at_once:
            time.sleep(POLL_EVERY_S)
        at_once = False
        yield


def left_in(work: Path) -> list[int]:
    """Living processes of this run that were started with a path below `work`."""
    return [one.pid for one in processes.descendants() if any(str(work) in word for word in one.argv())]

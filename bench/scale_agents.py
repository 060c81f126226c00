"""Many machines in one process, as a relay sees them: agents that speak the wire and have jobs that are made up.

python -m bench.scale_agents SOCKET     each connection is an agent; orders come by stdin, one JSON list a line

["print", LINES_PER_S]     all jobs that are followed print so many lines together; 0: none
["line", JOB_ID]           this job prints one line, now
["end", COUNT]             so many jobs end; those that are followed longest are the first
["counts"]                 lines of the wire so far, to and from all agents; and lines that jobs printed

Each order is answered with a line.
"""

import asyncio
import contextlib
import itertools
import json
import os
import sys
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from bgjob.home.log_format import HEADER, RUN, RUNS_SUFFIX, STDOUT, segment_name
from bgjob.remote.channel import BEAT_S
from bgjob.remote.codec import BEAT, Message, decode, encode, pack_bytes
from bgjob.remote.loader import MARK
from bgjob.remote.messages import LINE_MAX_BYTES

MOST_BYTES_OF_A_JOB = 1 << 16
# As a real agent has it between two answers.
BREATHER_S = 0.01
TICK_S = 0.01
FIRST = f"log/{segment_name(0)}"
PADDING = "x" * 60
STATUS = {"end": 0, "left_running": 0, "descendants": 0, "waits_for_input": None}


class FarJob:
    """What a job has printed, and what of it was told. Nothing is kept of what was told."""

    def __init__(self, job_id: str) -> None:
        self.id, self.agent = job_id, None
        self._data, self._runs = bytearray(), bytearray()
        self._told = self._told_runs = 0
        self._untold_records: dict[str, Any] = {}
        self.is_over = False

    def begin(self, have: Mapping[str, int]) -> None:
        run = {"pid": os.getpid(), "shim_pid": os.getpid(), "started_at": time.time(), "boot_id": "far"}
        self._untold_records["run.json"] = {"format": 1, **run}
        self._told, self._told_runs = have.get(FIRST, 0), have.get(FIRST + RUNS_SUFFIX, 0)
        if not self._told_runs:
            self._runs += HEADER.pack(0, 0)

    def print(self, line: bytes) -> None:
        at = self._told + len(self._data)
        self._runs += RUN.pack(at, int(time.time() * 1e6) << 8 | STDOUT)
        self._data += line

    def end(self) -> None:
        self.is_over = True
        times = {"ended_at": time.time(), "duration_s": 1.0}
        outcome = {"format": 1, "cause": "exited", "exit_code": 0, "signal": None, **times}
        self._untold_records["outcome.json"] = {**outcome, "output_bytes": self._told + len(self._data)}

    def news(self) -> Message:
        files = [
            {"name": FIRST + RUNS_SUFFIX, "at": self._told_runs, "data": pack_bytes(bytes(self._runs))},
            {"name": FIRST, "at": self._told, "data": pack_bytes(bytes(self._data))},
        ]
        self._told, self._told_runs = self._told + len(self._data), self._told_runs + len(self._runs)
        self._data, self._runs = bytearray(), bytearray()
        records, self._untold_records = self._untold_records, {}
        told: Message = {"files": [file for file in files if file["data"]]}
        return {**told, "records": records, **({"over": True} if self.is_over else {})}


class Agent:
    """One connection."""

    def __init__(
        self, machines: "Machines", reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._machines, self._reader, self._writer = machines, reader, writer
        self._jobs: dict[str, FarJob] = {}
        self._changed: dict[str, FarJob] = {}
        self._events: list[Message] = []
        self._something = asyncio.Event()
        self._told_events = 0
        self._answering: asyncio.Task[None] | None = None

    async def serve(self) -> None:
        name = await self._met()
        hello = {
            "hello": 1,
            "version": "0",
            "host": name,
            "boot_id": "far",
            "python": "3.11",
            "home": "/far",
        }
        self._writer.write(encode({**hello, "pid": os.getpid()}))
        beating = asyncio.create_task(self._beat())
        try:
            while line := await self._reader.readline():
                self._machines.heard += 1
                self._take(decode(line))
        finally:
            beating.cancel()
            if self._answering:
                self._answering.cancel()

    async def _met(self) -> str:
        """The near end sends its program and an order, and is told that its code is there already."""
        await self._reader.readexactly(int(await self._reader.readline()))
        order = json.loads(await self._reader.readline())
        self._writer.write(b"\n" + MARK + json.dumps({"there": True, "python": [3, 11]}).encode() + b"\n")
        return str(order["environ"]["BGJOB_HOME"])

    def _take(self, message: Message) -> None:
        match message.get("verb"):
            case "news":
                self._answering = asyncio.create_task(self._answer_news(message["id"], **message["words"]))
            case "follow":
                self._follow(**message["words"])
                self._say({"id": message["id"], "ok": None})
            case "unfollow":
                self._machines.jobs.pop(message["words"]["job"], None)
                self._jobs.pop(message["words"]["job"], None)
                self._say({"id": message["id"], "ok": None})
            case "status":
                self._say({"id": message["id"], "ok": STATUS})

    def _follow(self, job: str, have: Mapping[str, int]) -> None:
        self._jobs[job] = self._machines.jobs[job] = FarJob(job)
        self._machines.agents[job] = self
        self._jobs[job].begin(have)
        self.note_change(self._jobs[job])

    def note_change(self, job: FarJob) -> None:
        self._changed[job.id] = job
        self._something.set()

    def note_end(self, job: FarJob) -> None:
        self._events.append({"at": time.time(), "kind": "ended", "job_id": job.id, "exit_code": 0})
        self.note_change(job)

    async def _answer_news(self, number: int, since: str, timeout_s: float, most_bytes: int) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._something.wait()
        await asyncio.sleep(BREATHER_S)
        self._something.clear()
        changed, self._changed = self._changed, {}
        events, self._events = self._events, []
        self._told_events += len(events)
        jobs = {job.id: job.news() for job in changed.values()}
        self._say(
            {
                "id": number,
                "ok": {"jobs": jobs, "events": events, "looked": {}, "cursor": f"1.{self._told_events}"},
            }
        )
        await self._writer.drain()

    def _say(self, message: Message) -> None:
        self._machines.said += 1
        self._writer.write(encode(message))

    async def _beat(self) -> None:
        while True:
            self._say(BEAT)
            await asyncio.sleep(BEAT_S)


class Machines:
    def __init__(self) -> None:
        self.jobs: dict[str, FarJob] = {}
        self.agents: dict[str, Agent] = {}
        self.heard = self.said = self.printed = 0
        self._lines_per_s = 0.0
        self._turns: deque[str] = deque()
        self._numbers = itertools.count()

    async def on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, ValueError):
            await Agent(self, reader, writer).serve()
        writer.close()

    async def print_steadily(self) -> None:
        owed, before = 0.0, time.monotonic()
        while True:
            await asyncio.sleep(TICK_S)
            now = time.monotonic()
            owed += self._lines_per_s * (now - before)
            before = now
            for _ in range(int(owed)):
                self._print_next()
            owed -= int(owed)

    def _print_next(self) -> None:
        if not self._turns:
            self._turns.extend(self.jobs)
        if self._turns and (job := self.jobs.get(self._turns.popleft())) and not job.is_over:
            self._print(job)

    def _print(self, job: FarJob) -> None:
        self.printed += 1
        job.print(f"{time.time():.6f} {next(self._numbers)} {PADDING}\n".encode())
        self.agents[job.id].note_change(job)

    # -- orders ---------------------------------------------------------------------------------------

    async def obey(self) -> None:
        orders = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(orders), sys.stdin
        )
        while line := await orders.readline():
            word, *given = json.loads(line)
            print(json.dumps(self._done(word, *given)), flush=True)

    def _done(self, word: str, *given: Any) -> object:
        match word:
            case "print":
                self._lines_per_s = float(given[0])
            case "line":
                self._print(self.jobs[given[0]])
            case "end":
                for job in [job for job in self.jobs.values() if not job.is_over][: given[0]]:
                    job.end()
                    self.agents[job.id].note_end(job)
            case "counts":
                return {"heard": self.heard, "said": self.said, "printed": self.printed}
        return {}


async def main(path: str) -> None:
    machines = Machines()
    server = await asyncio.start_unix_server(machines.on_connection, path, limit=LINE_MAX_BYTES, backlog=1000)
    printing = asyncio.create_task(machines.print_steadily())
    await machines.obey()
    printing.cancel()
    server.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

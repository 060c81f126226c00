"""Thousands of valid, odd and broken calls over all tools: each is answered once, soon and in plain words.

BGJOB_FUZZ_SEED and BGJOB_FUZZ_CALLS take it further than every run of the tests does.
"""

import contextlib
import itertools
import json
import os
import queue
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from tests.faces.fuzzing import Fuzzer, Sent
from tests.support.process_table import cpu_s
from tests.support.raw_client import Message, RawClient

SEED = int(os.environ.get("BGJOB_FUZZ_SEED") or 20260728)
CALLS = int(os.environ.get("BGJOB_FUZZ_CALLS") or 3000)
ROUND, IN_FLIGHT = 30, 6
"""Lines between two looks at the jobs they are about, and lines that are sent before an answer is read."""

COSTLY_S = 1.0
"""CPU seconds of the server for IN_FLIGHT lines: the clock on the wall also counts what others do."""
SHORT_S = 0.05
"""MCP_BG_MAX_WAIT: cuts the waits that calls ask for."""
PATIENCE_S = 30.0
RESPONSE_BYTES = 4096
NOTE_BYTES = 200
SPARE_DESCRIPTORS = 8
ERROR_CHARACTERS = 2100

SETTINGS = {
    "MCP_BG_MAX_WAIT": str(SHORT_S),
    "MCP_BG_MAX_JOBS": "8",
    "MCP_BG_MAX_RESPONSE": str(RESPONSE_BYTES),
    "MCP_BG_MAX_OUTPUT_SIZE": "256KB",
    "MCP_BG_KEEP_JOBS": "60",
    "MCP_BG_CLEANUP_INTERVAL": "1",
}
LIVING: dict[str, Message] = {
    "pipe": {"command": "cat"},
    "terminal": {"command": "cat", "pty": True},
    "victim": {"command": "cat"},
}
ENDED: dict[str, Message] = {
    "quick": {"command": "echo out; echo err >&2; exit 3"},
    "loud": {"command": "seq 1 20000; seq 1 2000 >&2"},
    "odd": {"command": "printf '\\377\\000\\033[2J\\033]0;t\\007\\303'"},
}
INSIDES = re.compile(rb'Traceback|File \\?"|site-packages|pydantic|Internal error|Exception in|object at 0x')


@contextlib.contextmanager
def noted(note: str) -> Iterator[None]:
    """What goes wrong is told with it."""
    try:
        yield
    except Exception as problem:
        problem.add_note(note)
        raise


class Wire(contextlib.AbstractContextManager["Wire"]):
    """Sends ahead, and knows for each answer what was asked."""

    def __init__(self, client: RawClient) -> None:
        self._client = client
        self._arrived: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._waiting: dict[str, list[Sent]] = {}
        self._asked = 0
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._client.hang_up()
        self._reader.join()

    def check_that_nothing_else_came(self) -> None:
        """After the end: whatever is still there must have been asked for, too."""
        while line := self._arrived.get_nowait():
            self._asked_for(line)

    def _read(self) -> None:
        for line in self._client.stdout:
            self._arrived.put(line)
        self._arrived.put(b"")

    def send(self, sent: Sent) -> None:
        if sent.answers:
            self._waiting.setdefault(sent.id, []).extend([sent] * sent.answers)
        if sent.refused:
            self._waiting.setdefault("null", []).extend([sent] * sent.refused)
        half = len(sent.line) // 2
        for piece in (sent.line[:half], sent.line[half:], b"\n"):  # as pipes do when they are full
            self._client.stdin.write(piece)
            self._client.stdin.flush()

    def answers(self) -> Iterator[tuple[Sent, bytes]]:
        """Until everything that was sent has its answer."""
        while overdue := self._overdue():
            with noted(f"{overdue.line[:1000]!r} has no answer"):
                line = self._arrived.get(timeout=PATIENCE_S)
            if not line:
                raise EOFError(self._client.stderr)
            if sent := self._asked_for(line):
                yield sent, line

    def _overdue(self) -> Sent | None:
        asked = itertools.chain.from_iterable(self._waiting.values())
        return next((sent for sent in asked if sent.must_answer), None)

    def _asked_for(self, line: bytes) -> Sent | None:
        message = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        if "method" in message:
            assert message["method"] == "notifications/progress"
            return None
        name = json.dumps(message["id"])
        first, *others = self._waiting.pop(name)  # KeyError: nobody asked
        if others:
            self._waiting[name] = others
        return first

    def call(self, tool: str, **arguments: Any) -> Message:
        """A plain call, while nothing else is on the way."""
        self._asked += 1
        name = f'"plain {self._asked}"'
        params = json.dumps({"name": tool, "arguments": arguments})
        line = f'{{"jsonrpc":"2.0","id":{name},"method":"tools/call","params":{params}}}'
        self.send(Sent(line.encode(), name))
        answer = next(answer for sent, answer in self.answers() if sent.id == name)
        result: Message = json.loads(answer)["result"]
        return result


class Cast:
    """The jobs that calls are about. Some of them end, or are cleaned up, by what is done to them."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self.ids: dict[str, str] = {}

    def renew(self) -> None:
        for word in ("queued", "running"):
            listed = self._wire.call("list_jobs", status=word, limit=1000)["structuredContent"]["jobs"]
            for job in listed:
                if job["job_id"] not in self.ids.values():
                    self._wire.call("kill_job", job_id=job["job_id"], grace_s=0)
        for role, options in (LIVING | ENDED).items():
            if not self._is_well(role):
                self.ids[role] = self._wire.call("execute_command", **options)["structuredContent"]["job_id"]

    def _is_well(self, role: str) -> bool:
        if role not in self.ids:
            return False
        result = self._wire.call("get_job_status", job_id=self.ids[role])
        return not result["isError"] and (role in ENDED or result["structuredContent"]["status"] == "running")


class Judge:
    """Holds every answer against what was asked."""

    def __init__(self, tools: list[Message]) -> None:
        self._inputs = {tool["name"]: tool["inputSchema"]["properties"] for tool in tools}
        self._outputs = {
            tool["name"]: jsonschema.Draft202012Validator(tool["outputSchema"]) for tool in tools
        }
        self.kinds: Counter[tuple[str, str]] = Counter()

    def judge(self, sent: Sent, line: bytes) -> None:
        assert not INSIDES.search(line)
        answer = json.loads(line)
        if sent.tool is None or "error" in answer:
            self._judge_protocol(sent, answer)
        elif answer["result"]["isError"]:
            self._judge_refusal(sent, sent.tool, answer["result"])
        else:
            self._judge_success(sent, sent.tool, answer["result"])

    def summary(self) -> str:
        kinds = ", ".join(f"{tool} {how} {count}" for (tool, how), count in sorted(self.kinds.items()))
        return f"{self.kinds.total()} answers: {kinds}"

    def _judge_protocol(self, sent: Sent, answer: Message) -> None:
        self.kinds["protocol", "error" if "error" in answer else "result"] += 1
        assert not sent.valid
        assert len(answer.keys() & {"result", "error"}) == 1
        if "error" in answer:
            assert answer["error"]["code"] in (-32700, -32600, -32601, -32602, -32002)
            assert 0 < len(answer["error"]["message"]) < ERROR_CHARACTERS

    def _judge_refusal(self, sent: Sent, tool: str, result: Message) -> None:
        self.kinds[tool, "refused"] += 1
        assert "structuredContent" not in result
        (content,) = result["content"]
        text = content["text"]
        assert sent.says in text
        assert 0 < len(text) < ERROR_CHARACTERS
        assert any(word in text for word in (*self._inputs[tool], "Job", "job", "key"))
        if sent.valid:
            assert not re.match("(Invalid|Missing|Unknown) argument", text)

    def _judge_success(self, sent: Sent, tool: str, result: Message) -> None:
        self.kinds[tool, "done"] += 1
        assert not sent.says
        (content,) = result["content"]
        said = result["structuredContent"]
        assert json.loads(content["text"]) == said
        self._outputs[tool].validate(said)
        for part in (said, *said.get("jobs", ())):
            for stream in ("stdout", "stderr", "interleaved"):
                text = part.get(stream, "")
                assert len(text.encode()) <= RESPONSE_BYTES + NOTE_BYTES


@pytest.mark.timeout(600 + CALLS / 30)
def test_whatever_is_called_is_answered_once_and_soon_and_the_server_lives(home: Path) -> None:
    with noted(f"BGJOB_FUZZ_SEED={SEED} BGJOB_FUZZ_CALLS={CALLS}"), RawClient(home, **SETTINGS) as client:
        client.shake_hands()
        tools = client.tools()
        fuzzer, judge = Fuzzer(SEED, tools), Judge(tools)
        with Wire(client) as wire:
            cast = Cast(wire)
            cast.renew()
            idle = open_descriptors(client.process.pid)
            costs_s: list[float] = []
            for start in range(0, CALLS, ROUND):
                cast.renew()
                lines = list(fuzzer.round(min(ROUND, CALLS - start), cast.ids))
                for at in range(0, len(lines), IN_FLIGHT):
                    before_s = cpu_s(client.process.pid)
                    attack(wire, lines[at : at + IN_FLIGHT], judge)
                    costs_s.append(cpu_s(client.process.pid) - before_s)
                    assert costs_s[-1] < COSTLY_S, lines[at : at + IN_FLIGHT]
            check_health(wire)
            assert client.process.poll() is None
            assert open_descriptors(client.process.pid) <= idle + SPARE_DESCRIPTORS
        wire.check_that_nothing_else_came()
    assert {tool for tool, how in judge.kinds if how == "done"} == {tool["name"] for tool in tools}
    assert not INSIDES.search(client.stderr.encode())
    print(judge.summary(), f"\nmost CPU of the server for {IN_FLIGHT} lines: {max(costs_s):.2f} s")


def attack(wire: Wire, lines: list[Sent], judge: Judge) -> None:
    for sent in lines:
        wire.send(sent)
    for sent, answer in wire.answers():
        with noted(f"{sent.line[:1000]!r}\nwas answered with {answer[:1000]!r}"):
            judge.judge(sent, answer)


def open_descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").glob("*")))  # 0 where there is no /proc


def check_health(wire: Wire) -> None:
    """Not merely alive: it still does what it is for."""
    result = wire.call("execute_command", command="echo still here; cat; exit 5")
    job_id = result["structuredContent"]["job_id"]
    deadline = time.monotonic() + PATIENCE_S
    while not wire.call("get_job_output", job_id=job_id)["structuredContent"]["stdout"]:
        assert time.monotonic() < deadline
    said = wire.call("interact_with_job", job_id=job_id, input="and you?", close_stdin=True, wait_s=1)
    assert said["structuredContent"]["stdout"] in ("", "and you?\n")  # "": not within its second
    while wire.call("get_job_status", job_id=job_id)["structuredContent"]["status"] == "running":
        assert time.monotonic() < deadline
    output = wire.call("get_job_output", job_id=job_id)["structuredContent"]
    assert output["stdout"] == "still here\nand you?\n"
    assert wire.call("get_job_status", job_id=job_id)["structuredContent"]["exit_code"] == 5

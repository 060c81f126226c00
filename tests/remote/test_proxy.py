"""The socket of a job of another machine: no answer of its shim is lost."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from bgjob.remote.proxy import ControlProxy

ANSWER = b'{"ok": true, "end": 0}\n'


class Line:
    """In place of a stream: answers when it is told to, then hangs up."""

    def __init__(self) -> None:
        self.parts: asyncio.Queue[bytes] = asyncio.Queue()
        self.asked = asyncio.Event()

    async def write(self, _data: bytes) -> None:
        self.asked.set()

    async def read(self) -> bytes:
        return await self.parts.get()

    def close(self) -> None:
        pass


class Host:
    def __init__(self, line: Line) -> None:
        self._line = line

    async def ready(self) -> "Host":
        return self

    def connect(self, _job_id: str) -> Line:
        return self._line


class Job:
    """In place of a replica: it is over."""

    id, directory, is_over = "an id", ".", True

    async def caught_up(self, _log_end: int, *, outcome: bool) -> None:
        pass

    async def until_over(self, _patience_s: float) -> bool:
        return True


def test_an_answer_that_comes_when_the_job_is_over_is_handed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was typed has ended the job: that it is over and that the input was taken come by two ways."""
    monkeypatch.chdir(tmp_path)

    async def ask() -> bytes:
        line = Line()
        job: Any = Job()
        host: Any = Host(line)
        proxy = ControlProxy(job, lambda _job: host)
        await proxy.listen()
        reader, writer = await asyncio.open_unix_connection("ctl")
        writer.write(b'{"op": "stdin"}\n')
        await line.asked.wait()
        await proxy.close()
        for _ in range(10):  # whoever has been told to end ends
            await asyncio.sleep(0)
        for part in (ANSWER, b""):
            line.parts.put_nowait(part)
        answer = await reader.read()
        writer.close()
        return answer

    assert asyncio.run(ask()) == ANSWER

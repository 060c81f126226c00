"""The socket of a job of another machine: no answer of its shim is lost."""

import asyncio
import contextlib
import gc
import json
import os
import socket
from base64 import b64encode
from pathlib import Path
from typing import Any, cast

import pytest

from bgjob.core.targets import Target, as_record
from bgjob.home import target_dir
from bgjob.remote import host as remote_host
from bgjob.remote import proxy as proxy_module
from bgjob.remote.engine import Engine
from bgjob.remote.proxy import ControlProxy
from bgjob.remote.relay import Relay
from bgjob.remote.replica import Replica
from bgjob.store.store import Store
from tests.remote.conftest import submitted

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

    async def copied(self, _replica: object, _log_end: int, *, outcome: bool = False) -> None:
        pass

    def connect(self, _job_id: str) -> Line:
        return self._line


class Steering:
    """In place of an engine: all jobs are on one host."""

    def __init__(self, host: Any) -> None:
        self._host = host

    def steered_through(self, _replica: object) -> Any:
        return self._host

    host_of = steered_through


class Job:
    """In place of a replica: it is over."""

    id, directory = "an id", "."

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
        engine: Any = Steering(Host(line))
        proxy = ControlProxy(job, engine)
        await proxy.listen()
        reader, writer = await asyncio.open_unix_connection("ctl")
        writer.write(b'{"op": "stdin"}\n')
        await line.asked.wait()
        proxy.close()
        for _ in range(10):  # whoever has been told to end ends
            await asyncio.sleep(0)
        for part in (ANSWER, b""):
            line.parts.put_nowait(part)
        answer = await reader.read()
        writer.close()
        return answer

    assert asyncio.run(ask()) == ANSWER


def test_a_connection_that_was_accepted_as_the_job_was_forgotten_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would end it: whoever follows the job would wait for ever."""
    monkeypatch.chdir(tmp_path)

    async def ask() -> bool:
        job, engine = cast("Replica", Job()), cast("Engine", Steering(Host(Line())))
        proxy = ControlProxy(job, engine)
        await proxy.listen()
        theirs, ours = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=theirs)
        proxy.close()
        accepted = asyncio.create_task(proxy._on_connection(*await asyncio.open_connection(sock=ours)))
        done, _ = await asyncio.wait([accepted], timeout=120)
        writer.close()
        accepted.cancel()
        return bool(done) and await reader.read() == b""

    assert asyncio.run(ask())


@pytest.mark.parametrize("turns", range(6))
def test_a_connection_that_is_being_accepted_as_the_job_is_forgotten_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    """`turns`: of the event loop, which accepts a connection in several."""
    monkeypatch.chdir(tmp_path)

    async def ask() -> bytes:
        proxy = ControlProxy(cast("Replica", Job()), cast("Engine", Steering(Host(Line()))))
        await proxy.listen()
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect("ctl")
            connection.setblocking(False)
            for _ in range(turns):
                await asyncio.sleep(0)
            proxy.close()
            async with asyncio.timeout(20):
                with contextlib.suppress(ConnectionResetError):  # it was not accepted any more
                    return await asyncio.get_running_loop().sock_recv(connection, 1)
        return b""

    gc.disable()  # it would close what is left open, some time
    try:
        assert asyncio.run(ask()) == b""
    finally:
        gc.enable()


@pytest.mark.parametrize("turns", range(1, 8))
def test_a_connection_that_is_being_accepted_as_the_relay_ends_is_closed(store: Store, turns: int) -> None:
    """`turns`: of the event loop, which accepts a connection in several."""
    target_dir.make(store.home, "far", as_record(Target(name="far", kind="ssh", host="far")))
    lock = target_dir.take_lock(store.home, "far")
    assert lock is not None

    async def play(connection: socket.socket) -> None:
        running = asyncio.create_task(Relay(store, "far", lock).run())
        await connected(connection, f"{target_dir.directory('.', 'far')}/{target_dir.CONTROL}")
        for _ in range(turns):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running])

    gc.disable()  # it would close what is left open, some time
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            asyncio.run(play(connection))
            with contextlib.suppress(ConnectionResetError):  # it was not accepted any more
                assert connection.recv(1) == b"", "it is open"
    finally:
        gc.enable()
        os.close(lock)


async def connected(connection: socket.socket, place: str) -> None:
    """Connect as soon as somebody listens there."""
    connection.setblocking(False)
    while True:
        with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
            return connection.connect(place)
        await asyncio.sleep(0)


def test_a_job_that_is_forgotten_while_its_socket_is_made_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def play() -> None:
        proxy = ControlProxy(cast("Replica", Job()), cast("Engine", Steering(Host(Line()))))
        listening = asyncio.create_task(proxy.listen())
        await asyncio.sleep(0)
        assert place.exists(), "it was bound in the first step"
        proxy.close()
        await listening

    place = tmp_path / "ctl"
    asyncio.run(play())
    assert not place.exists()


def test_a_connection_by_which_nothing_was_asked_is_closed_as_soon_as_the_job_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for a way to the job's machine, and no answer is on its way."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(proxy_module, "LAST_ANSWERS_S", 1e6)

    class Unreachable(Host):
        async def ready(self) -> Host:
            is_waited_for.set()
            return await asyncio.Future[Host]()

    async def ask() -> bytes:
        proxy = ControlProxy(cast("Replica", Job()), cast("Engine", Steering(Unreachable(Line()))))
        await proxy.listen()
        reader, writer = await asyncio.open_unix_connection("ctl")
        writer.write(b'{"op": "wait"}\n')
        await is_waited_for.wait()
        proxy.close()
        async with asyncio.timeout(20):
            answer = await reader.read()
        writer.close()
        return answer

    is_waited_for = asyncio.Event()
    assert asyncio.run(ask()) == b""


class Machine:
    """Stands in for a channel: the test decides what its host sends, and when."""

    def __init__(self) -> None:
        self.hello: dict[str, Any] = {}
        self.answered_nonsense = False
        self.line, self.looks = Line(), asyncio.Queue[int]()
        self._news: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def call(self, verb: str, **words: Any) -> Any:
        if verb == "look":
            self.looks.put_nowait(words["number"])
        return await self._news.get() if verb == "news" else None

    def connect(self, _job_id: str) -> Line:
        return self.line

    def tell(self, job_id: str, number: int, printed: bytes) -> None:
        """The answer to this look."""
        piece = {"name": f"log/{0:020}", "at": 0, "data": b64encode(printed).decode()}
        jobs = {job_id: {"files": [piece]}} if printed else {}
        self._news.put_nowait({"jobs": jobs, "events": [], "looked": {job_id: number}, "cursor": "1.0"})

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("printed", [b"name?", b""], ids=["in time", "a gap in the log"])
def test_an_answer_waits_for_the_output_it_speaks_of_and_for_nothing_else(
    store: Store, printed: bytes
) -> None:
    """However late that comes: models read the prompt, and not that there is one."""
    job_id = submitted(store)

    async def ask() -> bytes:
        machine, replica = Machine(), Replica(store, job_id)
        replica.accepted(phase="running")

        async def connect() -> Any:
            return machine

        async def nothing(*_: object) -> None:
            pass

        host = remote_host.Host("far", "", connect, lambda *_: None, nothing, nothing)
        await host.follow(replica)
        engine: Any = Steering(host)
        proxy = ControlProxy(replica, engine)
        await proxy.listen()
        reader, writer = await asyncio.open_unix_connection(f"{replica.directory}/ctl")
        writer.write(b'{"op": "waits"}\n')
        machine.line.parts.put_nowait(b'{"ok": true, "waits": "yes", "end": 5}\n')
        look = await machine.looks.get()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.readline(), 1.5)
        machine.tell(job_id, look, printed)
        answer = await reader.readline()
        assert replica.log_end == len(printed)
        writer.close()
        proxy.close()
        await host.close()
        return answer

    assert json.loads(asyncio.run(ask()))["waits"] == "yes"

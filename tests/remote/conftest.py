"""Agents of this machine at the end of a shell's pipe, and jobs on another machine that is this one."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bgjob.home import jobdir
from bgjob.remote.channel import Channel, Order
from bgjob.remote.transport import local_shell
from bgjob.store.store import Store
from bgjob.system import processes
from tests.support.far_machine import FarMachine, far_machine
from tests.support.stores import new_spec
from tests.support.waiting import wait_until

Open = Callable[..., Awaitable[Channel]]
Body = Callable[[Open], Awaitable[None]]
Play = Callable[[Body], None]


@pytest.fixture(scope="session")
def code_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all tests that do it no harm: it is unpacked once."""
    return tmp_path_factory.mktemp("code")


@pytest.fixture
def play(home: Path, code_root: Path) -> Play:
    """Run a coroutine that may open channels to agents of the test's home. All of them end with it."""
    pids: list[int] = []

    @contextlib.asynccontextmanager
    async def opening() -> AsyncIterator[Open]:
        async with contextlib.AsyncExitStack() as opened:

            async def open_channel(
                argv: list[str] | None = None, *, settings: dict[str, str] | None = None, **order: object
            ) -> Channel:
                environ = {"BGJOB_HOME": str(home), "XDG_CONFIG_HOME": os.devnull, **(settings or {})}
                given: dict[str, Any] = {"environ": environ, "code_root": str(code_root), **order}
                channel = await Channel.open(argv or local_shell(), Order(**given))
                pids.append(channel.hello["pid"])
                opened.push_async_callback(channel.close)
                return channel

            yield open_channel

    def run(body: Body) -> None:
        async def all_of_it() -> None:
            async with opening() as open_channel:
                await body(open_channel)

        asyncio.run(all_of_it())
        wait_until(lambda: not any(map(is_agent, pids)), "an agent ends with its channel")

    return run


def is_agent(pid: int) -> bool:
    """And not another process of the same number."""
    argv = processes.read_if_there(f"/proc/{pid}/cmdline") or b""
    return b"sys.stdin.buffer" in argv


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    store = Store(str(tmp_path / "home"))
    monkeypatch.chdir(store.home)  # as a relay
    return store


@pytest.fixture
def far(tmp_path: Path) -> Iterator[FarMachine]:
    with far_machine(tmp_path) as far:
        yield far


def submitted(store: Store, **more: Any) -> str:
    """A job that its target was asked for."""
    spec = new_spec(target="gpu-box", **more)
    records: dict[str, dict[str, Any]] = {
        jobdir.REMOTE: {"phase": "submitting"},
        jobdir.REQUEST: {"start": {"command": "true"}},
    }
    os.close(store.create(spec, records=records).lock)
    return spec.id

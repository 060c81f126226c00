"""The near end of the gateway to a Ray cluster: its process, and the pipes that go through it."""

import asyncio
import base64
import collections
import contextlib
import itertools
import json
import math
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from bgjob.core.errors import ImpossibleRequest, TargetUnreachable
from bgjob.remote.messages import (
    ERROR,
    NONSENSE,
    RAY_ANSWER,
    RAY_ANSWERS,
    RAY_DATA,
    RAY_HELLO,
    checked,
    received,
    said,
)
from bgjob.store.record_schema import Malformed

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Imports bgjob from its directory, whatever else is beside it: another interpreter must not see our packages.
STUB = """
import runpy, sys
from importlib.util import module_from_spec, spec_from_file_location
package = sys.argv.pop(1)
spec = spec_from_file_location("bgjob", package + "/__init__.py", submodule_search_locations=[package])
sys.modules["bgjob"] = module_from_spec(spec)
spec.loader.exec_module(sys.modules["bgjob"])
runpy.run_module("bgjob.remote.ray_gateway", run_name="__main__", alter_sys=True)
"""
HELLO_PATIENCE_S = 60.0
OPEN_PATIENCE_S = 100.0
"""A worker of Ray is started first, if need be."""
END_PATIENCE_S = 2.0
LINE_BYTES, PIECE_BYTES, UNREAD_MAX_BYTES = 8 << 20, 1 << 18, 32 << 20
LAST_WORDS = 20
INSTALL = "pip install 'bgjob[ray]'"


class Process:
    """The gateway, while it runs."""

    def __init__(self, target: str, process: asyncio.subprocess.Process) -> None:
        self._target, self._process = target, process
        self._numbers = itertools.count(1)
        self._calls: dict[int, tuple[str, asyncio.Future[Any]]] = {}
        self._pipes: dict[int, Pipe] = {}
        self._last_words: collections.deque[str] = collections.deque(maxlen=LAST_WORDS)
        self.hello: Mapping[str, Any] = {}
        self.why_ended: str | None = None
        self.answered_at = -math.inf
        self._listening = [asyncio.create_task(self._keep_last_words())]

    @classmethod
    async def start(cls, target: str, python: str, *arguments: str) -> "Process":
        """`arguments`: of the gateway."""
        try:
            process = await asyncio.create_subprocess_exec(
                *(python, "-c", STUB, PACKAGE, *arguments),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd="/",
                limit=LINE_BYTES,
                start_new_session=True,
            )
        except OSError as error:
            raise TargetUnreachable(target, f"{python} cannot be started: {error}") from None
        gateway = cls(target, process)
        try:
            async with asyncio.timeout(HELLO_PATIENCE_S):
                await gateway._meet(python)
        except BaseException as error:
            await gateway.close()
            if isinstance(error, TimeoutError):
                raise TargetUnreachable(
                    target, f"Ray does not answer within {HELLO_PATIENCE_S:.0f} s"
                ) from None
            raise
        gateway._listening.append(asyncio.create_task(gateway._listen()))
        return gateway

    async def _meet(self, python: str) -> None:
        assert self._process.stdout
        line = await self._process.stdout.readline()
        if not line:
            await self._process.wait()
            await asyncio.gather(*self._listening)
            raise TargetUnreachable(
                self._target, f"the gateway to Ray has ended: {said(self._target, self._said)}"
            )
        try:
            hello = received(line)
            if "error" in hello:
                error = checked(ERROR, hello["error"], "error")
                raise TargetUnreachable(self._target, _why(self._target, error, python))
            self.hello = checked(RAY_HELLO, hello, "its hello")
        except Malformed as problem:
            raise TargetUnreachable(self._target, NONSENSE.format(why=problem)) from None

    # -- what is asked ------------------------------------------------------------------------------

    async def ask(self, verb: str, patience_s: float, **words: Any) -> Any:
        number = next(self._numbers)
        answer = asyncio.get_running_loop().create_future()
        self._calls[number] = verb, answer
        self._say({"id": number, "verb": verb, "words": words})
        try:
            async with asyncio.timeout(patience_s):
                return await answer
        except TimeoutError:
            raise TargetUnreachable(self._target, f"Ray has not answered within {patience_s:g} s") from None
        finally:
            self._calls.pop(number, None)

    async def open_pipe(self, node: str, argv: list[str]) -> "Pipe":
        number = next(self._numbers)
        pipe = self._pipes[number] = Pipe(number, self._say)
        try:
            await self.ask("open", OPEN_PATIENCE_S, channel=number, node=node, argv=argv)
        except BaseException:
            pipe.close()
            del self._pipes[number]
            raise
        return pipe

    def _say(self, message: Mapping[str, Any]) -> None:
        """Its reader drains the pipe at all times: what we send is small, or waits for answers."""
        assert self._process.stdin
        if self.why_ended:
            raise TargetUnreachable(self._target, self.why_ended)
        self._process.stdin.write(json.dumps(message).encode() + b"\n")

    # -- what it says -------------------------------------------------------------------------------

    async def _listen(self) -> None:
        assert self._process.stdout
        why = "the gateway to Ray has ended"
        try:
            while (line := await self._process.stdout.readline()).endswith(b"\n"):
                self._take(received(line))
                await asyncio.sleep(0)
        except (OSError, ValueError, Malformed) as problem:
            why = NONSENSE.format(why=problem)
        self._end(why)

    def _take(self, message: Mapping[str, Any]) -> None:
        if "channel" in message:
            told = checked(RAY_DATA, message, "output")
            return self._take_from_pipe(told["channel"], told.get("data"))
        number = checked(RAY_ANSWER, message, "an answer")["id"]
        verb, call = self._calls.get(number, ("", None))
        if call is None or call.done():
            return
        if "error" in message:
            call.set_exception(self._error(checked(ERROR, message["error"], "error")))
        else:
            self.answered_at = time.monotonic()
            call.set_result(checked(RAY_ANSWERS[verb], message.get("ok"), verb))

    def _take_from_pipe(self, number: int, data: str | None) -> None:
        pipe = self._pipes.pop(number, None) if data is None else self._pipes.get(number)
        if pipe:
            pipe.take(None if data is None else base64.b64decode(data))

    def _error(self, error: Mapping[str, str]) -> Exception:
        kind = ImpossibleRequest if error["kind"] == "Refused" else TargetUnreachable
        return kind(self._target, said(self._target, error["text"]))

    def _end(self, why: str) -> None:
        self.why_ended = f"{why}: {said(self._target, self._said)}" if self._said else why
        for _, call in self._calls.values():
            if not call.done():
                call.set_exception(TargetUnreachable(self._target, self.why_ended))
        for pipe in self._pipes.values():
            pipe.take(None)

    async def _keep_last_words(self) -> None:
        assert self._process.stderr
        async for line in self._process.stderr:
            self._last_words.append(line.decode(errors="replace").strip())

    @property
    def _said(self) -> str:
        return next((line for line in reversed(self._last_words) if line), "")

    async def close(self) -> None:
        """It ends with its stdin."""
        assert self._process.stdin
        self._process.stdin.close()
        try:
            async with asyncio.timeout(END_PATIENCE_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        await asyncio.gather(*self._listening, return_exceptions=True)
        self._end("it was closed")


class Pipe:
    """To a program on a node. A channel goes over it in the place of a process."""

    def __init__(self, number: int, say: Callable[[Mapping[str, Any]], None]) -> None:
        self._number, self._say = number, say
        self.stdin = self
        self.stdout = asyncio.StreamReader(limit=LINE_BYTES)
        self._ended = asyncio.Event()

    def write(self, data: bytes) -> None:
        for start in range(0, len(data), PIECE_BYTES):
            self._tell(data=base64.b64encode(data[start : start + PIECE_BYTES]).decode())

    async def drain(self) -> None:
        """There is nothing to wait for: the gateway takes all at once."""

    def close(self) -> None:
        self._tell(end=True)

    def kill(self) -> None:
        self.close()
        self.take(None)

    async def wait(self) -> None:
        await self._ended.wait()

    def take(self, data: bytes | None) -> None:
        """What the program says; None: its end."""
        if data is None:
            self.stdout.feed_eof()
            self._ended.set()
        elif len(getattr(self.stdout, "_buffer", b"")) > UNREAD_MAX_BYTES:
            self.kill()  # it prints faster than its output is read
        elif not self._ended.is_set():
            self.stdout.feed_data(data)

    def _tell(self, **words: Any) -> None:
        with contextlib.suppress(TargetUnreachable):  # then the reader is told of the end
            self._say({"channel": self._number, **words})


def _why(target: str, error: Mapping[str, str], python: str) -> str:
    if error["kind"] == "ModuleNotFoundError" and "'ray'" in error["text"]:
        return f"{python} has no package ray: {INSTALL}"
    return said(target, error["text"])

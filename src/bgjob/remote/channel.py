"""The near end of a pipe to an agent: any number of calls and streams at once.

A channel breaks once, for good: then every call in flight is told that the target cannot be reached, which says
nothing about jobs. Who wants to go on closes it and opens another one.
"""

import asyncio
import contextlib
import itertools
import json
import os
import tempfile
from asyncio.subprocess import PIPE
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, Protocol, Self

from bgjob.core.errors import BgjobError, TargetUnreachable
from bgjob.link.control import NoShim
from bgjob.remote.archive import archive
from bgjob.remote.codec import BEAT, Message, decode, encode, pack_bytes, unpack_bytes, unpack_error
from bgjob.remote.loader import MARK, Order, command, first_words, sent_code

__all__ = ["Channel", "Order", "Stream"]

Way = Callable[[Sequence[str]], Sequence[str]]
BEAT_S, SILENCE_S = 5.0, 20.0
OPEN_S, CLOSE_S = 60.0, 2.0
LINE_MAX_BYTES = 128 << 20
MOST_NOISE_LINES = 10_000
# Of what the way there says on stderr.
LAST_WORDS_BYTES, LAST_WORDS_LINES, LAST_WORDS_S = 4000, 3, 0.2
STDERR_MAX_BYTES = 1 << 20
LOWERED_BELOW = [3, 11]


class Stream:
    """The bytes of one connection to a job's socket. NoShim: it cannot be connected, or is no more."""

    def __init__(self, number: int, say: Callable[[Message], None], drain: Callable[[], Any]) -> None:
        self._number, self._say, self._drain = number, say, drain
        self._received: asyncio.Queue[bytes | BgjobError | NoShim] = asyncio.Queue()
        self._end: bytes | BgjobError | NoShim | None = None

    async def read(self) -> bytes:
        """Empty at its end."""
        part = await self._received.get() if self._end is None else self._end
        if not isinstance(part, bytes):
            self._end = part
            raise part
        if not part:
            self._end = part
        return part

    async def write(self, data: bytes) -> None:
        self._say({"to": self._number, "data": pack_bytes(data)})
        await self._drain()

    def close(self) -> None:
        with contextlib.suppress(TargetUnreachable):
            self._say({"to": self._number, "end": True})

    def put(self, part: bytes | BgjobError) -> None:
        """By the channel. A BgjobError is what it ends with, and nothing its end."""
        is_unconnected = isinstance(part, BgjobError) and getattr(part, "kind", None) == NoShim.__name__
        self._received.put_nowait(NoShim(str(part)) if is_unconnected else part)


class Writer(Protocol):
    def write(self, data: bytes, /) -> None: ...
    async def drain(self) -> None: ...
    def close(self) -> None: ...


class Pipe(Protocol):
    """To a Python over there: a process of asyncio, or what has the same words."""

    @property
    def stdin(self) -> Writer | None: ...
    @property
    def stdout(self) -> asyncio.StreamReader | None: ...
    async def wait(self) -> object: ...
    def kill(self) -> None: ...


class Channel:
    def __init__(self, target: str, process: Pipe, stderr: IO[bytes] | None) -> None:
        """By `open` or `over`."""
        assert process.stdin
        assert process.stdout
        self._target, self._process, self._stderr = target, process, stderr
        self._stdin, self._stdout = process.stdin, process.stdout
        self._numbers = itertools.count(1)
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._streams: dict[int, Stream] = {}
        self._broken = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._heard_at = 0.0
        self.hello: Mapping[str, Any] = {}

    @classmethod
    async def open(cls, argv: Sequence[str] | Way, order: Order) -> Self:
        """`argv`: what the command over there is appended to, or a function that puts it in its place.

        TargetUnreachable, or the error for which the agent cannot serve.
        """
        # A ControlMaster keeps it open: so it is no pipe. Appended to: so it can be emptied.
        stderr = tempfile.TemporaryFile("a+b", buffering=0)  # noqa: SIM115
        try:
            process = await asyncio.create_subprocess_exec(
                *(argv(command(order)) if callable(argv) else (*argv, *command(order))),
                stdin=PIPE,
                stdout=PIPE,
                stderr=stderr,
                limit=LINE_MAX_BYTES,
                start_new_session=True,
            )
        except OSError as error:
            stderr.close()
            raise TargetUnreachable(order.target, str(error)) from None
        return await cls(order.target, process, stderr)._opened(order)

    @classmethod
    async def over(cls, pipe: Pipe, order: Order) -> Self:
        """The same, where a Python runs `loader.RUN` already, at the end of this pipe."""
        return await cls(order.target, pipe, None)._opened(order)

    async def _opened(self, order: Order) -> Self:
        try:
            async with asyncio.timeout(OPEN_S):
                await self._open(order)
        except TimeoutError:
            raise await self._given_up(f"no answer in {OPEN_S:.0f} s") from None
        except (OSError, ValueError) as error:
            raise await self._given_up(str(error)) from None
        except BaseException:
            await self.close()
            raise
        return self

    async def _open(self, order: Order) -> None:
        self._stdin.write(first_words(order))
        met = await self._marked()
        if not met["there"]:
            is_old = met["python"] < LOWERED_BELOW
            code = await asyncio.to_thread(archive, lowered=is_old)  # it is made once, and takes a while
            self._stdin.write(sent_code(code))
            await self._stdin.drain()
        self.hello = await self._hello()
        self._heard_at = asyncio.get_running_loop().time()
        self._tasks = [asyncio.create_task(each) for each in (self._hear(), self._beat())]

    async def _marked(self) -> Message:
        """The first line of ours: login shells print, too."""
        for _ in range(MOST_NOISE_LINES):
            line = await self._line()
            if line.startswith(MARK):
                return _checked(json.loads(line[len(MARK) :]))
        raise ValueError("its login shell prints without an end")

    async def _hello(self) -> Message:
        line = await self._line()
        while not line.strip():
            line = await self._line()
        message = json.loads(line[len(MARK) :]) if line.startswith(MARK) else decode(line)
        return _checked(message)

    async def _line(self) -> bytes:
        line = await self._stdout.readline()
        if not line.endswith(b"\n"):
            raise OSError("the connection was closed before the agent answered")
        return line

    # -- calls --------------------------------------------------------------------------------------

    async def call(self, verb: str, **words: object) -> Any:
        """Its answer; its error as itself. A call that is cancelled is cancelled over there, too."""
        number = next(self._numbers)
        self._calls[number] = asyncio.get_running_loop().create_future()
        try:
            self._say({"id": number, "verb": verb, "words": words})
            await self._drain()
            return await self._calls[number]
        except asyncio.CancelledError:
            with contextlib.suppress(TargetUnreachable):
                self._say({"cancel": number})
            raise
        finally:
            del self._calls[number]

    def connect(self, job_id: str) -> Stream:
        """A connection to the job's socket."""
        number = next(self._numbers)
        stream = self._streams[number] = Stream(number, self._say, self._drain)
        try:
            self._say({"id": number, "verb": "connect", "words": {"job": job_id}})
        except TargetUnreachable as error:
            stream.put(error)
        return stream

    def _say(self, message: Message) -> None:
        if self.is_broken:
            raise self._unreachable("the connection was cut")
        self._stdin.write(encode(message))

    async def _drain(self) -> None:
        try:
            await self._stdin.drain()
        except OSError:
            self._break("the connection was cut")

    # -- answers ------------------------------------------------------------------------------------

    async def _hear(self) -> None:
        why = "the connection was cut"
        try:
            while line := await self._stdout.readline():
                self._heard_at = asyncio.get_running_loop().time()
                self._take(decode(line))
        except (OSError, ValueError) as error:
            why = str(error)
        with contextlib.suppress(TimeoutError):  # for its last words, which say more
            async with asyncio.timeout(LAST_WORDS_S):
                await self._process.wait()
        self._break(why)

    def _take(self, message: Message) -> None:
        number = message.get("id")
        if number in self._streams:
            self._take_part(number, message)
        elif number in self._calls and not self._calls[number].done():
            answer = self._calls[number]
            if "error" in message:
                answer.set_exception(unpack_error(message["error"]))
            else:
                answer.set_result(message.get("ok"))

    def _take_part(self, number: int, message: Message) -> None:
        stream = self._streams[number]
        if "more" in message:
            return stream.put(unpack_bytes(message["more"]["data"]))
        del self._streams[number]
        stream.put(unpack_error(message["error"]) if "error" in message else b"")

    async def _beat(self) -> None:
        loop = asyncio.get_running_loop()
        while not self.is_broken:
            if loop.time() > self._heard_at + SILENCE_S:
                self._break(f"nothing was heard of it for {SILENCE_S:.0f} s")
                return self._kill()
            self._say(BEAT)
            self._keep_last_words_few()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._broken.wait(), BEAT_S)

    # -- the end ------------------------------------------------------------------------------------

    @property
    def is_broken(self) -> bool:
        return self._broken.is_set()

    async def wait_broken(self) -> None:
        await self._broken.wait()

    async def close(self) -> None:
        """The agent ends when it has finished what it has begun."""
        self._break("the connection was closed")
        self._stdin.close()
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._process.wait()
        except TimeoutError:
            self._kill()
            await self._process.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._stderr:
            self._stderr.close()

    async def _given_up(self, why: str) -> TargetUnreachable:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):  # for its last words, which say more
                self._stdin.close()
                await self._process.wait()
        error = self._unreachable(why)
        self._kill()
        await self.close()
        return error

    def _break(self, why: str) -> None:
        if self.is_broken:
            return
        error = self._unreachable(why)
        self._broken.set()
        for answer in self._calls.values():
            if not answer.done():
                answer.set_exception(error)
        for stream in self._streams.values():
            stream.put(error)
        self._streams.clear()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    def _unreachable(self, why: str) -> TargetUnreachable:
        said = self._last_words()
        return TargetUnreachable(self._target, f"{why} ({said})" if said else why)

    def _keep_last_words_few(self) -> None:
        """Whatever is printed there, for as long as the channel lives."""
        if self._stderr and os.fstat(self._stderr.fileno()).st_size > STDERR_MAX_BYTES:
            os.ftruncate(self._stderr.fileno(), 0)

    def _last_words(self) -> str:
        """What the way there has said, e.g. ssh: Permission denied (publickey)."""
        if self._stderr is None or self._stderr.closed:
            return ""
        size = os.fstat(self._stderr.fileno()).st_size
        text = os.pread(self._stderr.fileno(), LAST_WORDS_BYTES, max(0, size - LAST_WORDS_BYTES))
        lines = [line.strip() for line in text.decode(errors="replace").splitlines() if line.strip()]
        return "; ".join(lines[-LAST_WORDS_LINES:])


def _checked(message: Message) -> Message:
    """The error for which the agent cannot serve; OSError: something else is in its way over there."""
    if "error" in message:
        error = unpack_error(message["error"])
        raise OSError(str(error)) if type(error) is BgjobError else error
    return message

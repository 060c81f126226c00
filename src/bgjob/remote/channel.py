"""The near end of a pipe to an agent: any number of calls and streams at once.

A channel breaks once, for good: then every call in flight is told that the target cannot be reached, which says
nothing about jobs. Who wants to go on closes it and opens another one.
"""

import asyncio
import contextlib
import itertools
import os
from asyncio.subprocess import PIPE
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, Self

from bgjob.core.errors import BgjobError, TargetUnreachable
from bgjob.core.target_trouble import SAID_BY_HOST, TROUBLES_OF_HOSTS, said_by_ssh
from bgjob.core.target_trouble import said as said_by_program
from bgjob.link.control import NoShim
from bgjob.remote.archive import archive
from bgjob.remote.codec import BEAT, Message, encode, pack_bytes, unpack_bytes
from bgjob.remote.loader import MARK, NO_PYTHON, Order, command, first_words, lacks_python, sent_code
from bgjob.remote.messages import (
    ANSWERS,
    ERROR,
    HELLO,
    LINE_MAX_BYTES,
    MET,
    MORE,
    NONSENSE,
    Shape,
    checked,
    is_small,
    received,
    refusal,
    said,
)
from bgjob.store.record_schema import Malformed

__all__ = ["Channel", "Order", "Stream"]

Way = Callable[[Sequence[str]], Sequence[str]]
BEAT_S, SILENCE_S = 5.0, 20.0
OPEN_S, CLOSE_S = 60.0, 2.0
READ_BYTES = 1 << 16
MOST_NOISE_LINES, MOST_NOISE_BYTES = 10_000, 4 << 20
# Of what the transport prints on stderr.
LAST_WORDS_BYTES, LAST_WORDS_LINES, LAST_WORDS_S = 4000, 3, 0.2
# Maximum that a slow reader of a stream may leave unread.
UNREAD_MAX_BYTES = 16 << 20
LOWERED_BELOW = [3, 11]
CUT, CLOSED = "the connection was cut", "the connection was closed before the agent answered"
MOST_NOISE_SHOWN, SSH_FAILED = 120, 255


class NotStarted(Exception):
    """The host cannot run our agent. `trouble`: a word of core.target_trouble."""

    def __init__(self, why: str, trouble: str) -> None:
        super().__init__(why)
        self.trouble = trouble


class LoginEnded(Exception):
    """The login shell, or what it ran, ended before our agent ran."""


class Stream:
    """The bytes of one connection to a job's socket. NoShim: it cannot be connected, or is no more."""

    def __init__(self, number: int, say: Callable[[Message], None], drain: Callable[[], Any]) -> None:
        self._number, self._say, self._drain = number, say, drain
        self._received: asyncio.Queue[bytes | BgjobError | NoShim] = asyncio.Queue()
        self._end: bytes | BgjobError | NoShim | None = None
        self._unread_bytes = 0
        self._is_closed = False

    async def read(self) -> bytes:
        """Empty at its end."""
        part = await self._received.get() if self._end is None else self._end
        if isinstance(part, bytes):
            self._unread_bytes -= len(part)
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
        self._is_closed = True
        with contextlib.suppress(TargetUnreachable):
            self._say({"to": self._number, "end": True})

    def put(self, part: bytes | BgjobError) -> None:
        """By the channel. A BgjobError is what it ends with, and nothing its end."""
        if isinstance(part, bytes):
            self._unread_bytes += len(part)
            if self._is_closed and part:
                return  # it will not be read
        if self._unread_bytes > UNREAD_MAX_BYTES:
            self.close()
            part = BgjobError("It sends faster than it is read.")
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


class LastWords:
    """The end of what the transport prints on stderr, e.g. ssh: Permission denied (publickey).

    A pipe of our own: a ControlMaster may keep it open, so its end is not waited for.
    """

    def __init__(self) -> None:
        self._fd, self.write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(self.write_end, True)
        self._text = b""
        asyncio.get_running_loop().add_reader(self._fd, self._take)

    def _take(self) -> None:
        with contextlib.suppress(BlockingIOError):
            part = os.read(self._fd, 1 << 16)
            self._text = (self._text + part)[-LAST_WORDS_BYTES:]
            if not part:
                asyncio.get_running_loop().remove_reader(self._fd)

    def __str__(self) -> str:
        if self._fd >= 0:
            self._take()  # what was printed just now
        lines = [line.strip() for line in self._text.decode(errors="replace").splitlines() if line.strip()]
        return "; ".join(lines[-LAST_WORDS_LINES:])

    def close(self) -> None:
        if self._fd >= 0:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1


class Call(NamedTuple):
    verb: str
    answer: asyncio.Future[Any]


class Channel:
    def __init__(self, target: str, process: Pipe, stderr: LastWords | None) -> None:
        """By `open` or `over`."""
        assert process.stdin
        assert process.stdout
        self._target, self._process, self._stderr = target, process, stderr
        self._stdin, self._stdout = process.stdin, process.stdout
        self._numbers = itertools.count(1)
        self._calls: dict[int, Call] = {}
        # Calls that were cancelled: each may still get its one answer.
        self._given_up: set[int] = set()
        self._streams: dict[int, Stream] = {}
        self._broken = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._closing: asyncio.Task[None] | None = None
        self._heard_at = 0.0
        self.hello: Mapping[str, Any] = {}
        self.answered_nonsense = False
        self._noise: deque[bytes] = deque(maxlen=LAST_WORDS_LINES)

    @classmethod
    async def open(cls, argv: Sequence[str] | Way, order: Order) -> Self:
        """`argv`: what the command over there is appended to, or a function that puts it in its place.

        TargetUnreachable, or the error for which the agent cannot serve.
        """
        stderr = LastWords()
        try:
            process = await asyncio.create_subprocess_exec(
                *(argv(command(order)) if callable(argv) else (*argv, *command(order))),
                stdin=PIPE,
                stdout=PIPE,
                stderr=stderr.write_end,
                limit=LINE_MAX_BYTES,
                start_new_session=True,
            )
        except OSError as error:
            stderr.close()
            raise TargetUnreachable(order.target, str(error)) from None
        finally:
            os.close(stderr.write_end)
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
            why = f"no answer in {OPEN_S:.0f} s{self._printed()}"
            raise await self._failed_to_open(why, "no_answer") from None
        except NotStarted as error:
            raise await self._failed_to_open(str(error), error.trouble) from None
        except LoginEnded:
            raise await self._login_ended(order) from None
        except OSError as error:
            raise await self._failed_to_open(str(error)) from None
        except (Malformed, ValueError) as error:
            raise await self._failed_to_open(NONSENSE.format(why=error)) from None
        except BaseException:
            await self.close()
            raise
        return self

    async def _open(self, order: Order) -> None:
        self._stdin.write(first_words(order))
        met = await self._marked(order)
        if not met["there"]:
            is_old = met["python"] < LOWERED_BELOW
            code = await asyncio.to_thread(archive, lowered=is_old)  # it is made once, and takes a while
            self._stdin.write(sent_code(code))
            await self._stdin.drain()
        self.hello = await self._hello()
        self._heard_at = asyncio.get_running_loop().time()
        self._tasks = [asyncio.create_task(each) for each in (self._hear(), self._beat())]

    async def _marked(self, order: Order) -> Message:
        """The first line of ours: login shells print, too."""
        left = MOST_NOISE_BYTES
        for _ in range(MOST_NOISE_LINES):
            line = await self._stdout.readline()
            if line.startswith(MARK):
                return self._met(MET, line, order)
            self._note_noise(line)
            left -= len(line)
            if left < 0:
                break
        raise NotStarted(f"its login shell prints without an end{self._printed()}", "login_prints")

    def _note_noise(self, line: bytes) -> None:
        if line.strip():
            self._noise.append(line.strip()[:MOST_NOISE_SHOWN])
        if not line.endswith(b"\n"):
            raise LoginEnded

    def _printed(self) -> str:
        """Return the last lines of the login shell or a forced command before our agent ran."""
        text = "; ".join(line.decode(errors="replace") for line in self._noise)
        return f" ({said(self._target, text)})" if text else ""

    async def _login_ended(self, order: Order) -> TargetUnreachable:
        """Return the error. ssh exits with 255 if it has failed itself, else with the code of what ran on the host."""
        await self._has_ended()
        code = getattr(self._process, "returncode", None)
        if code == SSH_FAILED or not order.is_quoted:
            sort = said_by_ssh if order.is_quoted else said_by_program
            return await self._failed_to_open(CLOSED, sort(str(self._stderr or "")))
        how = "" if code is None else f" with exit code {code}"
        why = f"its login shell or a forced command ended{how} instead of running bgjob's agent"
        return await self._failed_to_open(f"{why}{self._printed()}", "login_ended")

    async def _hello(self) -> Message:
        line = await self._line()
        while not line.strip():
            line = await self._line()
        return self._met(HELLO, line, Order())

    def _met(self, shape: Shape, line: bytes, order: Order) -> Message:
        """Return the message. Raise the error for which the agent cannot serve; NotStarted: it cannot even run."""
        message = received(line.removeprefix(MARK))
        if "error" in message:
            failure = checked(ERROR, message["error"], "error")
            if failure["kind"] == NO_PYTHON:
                raise NotStarted(*lacks_python(order, failure["text"]))
            error, trouble = refusal(self._target, failure), _trouble_of_host(failure)
            if type(error) is BgjobError:
                raise NotStarted(str(error), trouble)
            error.trouble = trouble
            raise error
        met: Message = checked(shape, message, "its hello")
        return met

    async def _line(self) -> bytes:
        line = await self._stdout.readline()
        if not line.endswith(b"\n"):
            raise OSError(CLOSED)
        return line

    # -- calls --------------------------------------------------------------------------------------

    async def call(self, verb: str, **words: object) -> Any:
        """Its answer; its error as itself. A call that is cancelled is cancelled over there, too."""
        number = next(self._numbers)
        call = self._calls[number] = Call(verb, asyncio.get_running_loop().create_future())
        try:
            self._say({"id": number, "verb": verb, "words": words})
            await self._drain()
            return await call.answer
        except asyncio.CancelledError:
            with contextlib.suppress(TargetUnreachable):
                self._say({"cancel": number})
            raise
        finally:
            if self._calls.pop(number, None):
                self._given_up.add(number)

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
            raise self._unreachable(CUT)
        self._stdin.write(encode(message))

    async def _drain(self) -> None:
        try:
            await self._stdin.drain()
        except OSError:
            self._break(CUT)

    # -- answers ------------------------------------------------------------------------------------

    async def _hear(self) -> None:
        why = CUT
        try:
            while (line := await self._stdout.readline()).endswith(b"\n"):
                self._heard_at = asyncio.get_running_loop().time()
                self._take(received(line))
                await asyncio.sleep(0)  # other tasks get their turn, whatever a host sends
        except OSError as error:
            why = str(error)
        except (Malformed, ValueError) as error:
            self.answered_nonsense = True
            why = str(error) if isinstance(error, Malformed) else "a line without an end"
            return self._break(NONSENSE.format(why=why))
        with contextlib.suppress(TimeoutError):  # for its last words, which say more
            async with asyncio.timeout(LAST_WORDS_S):
                await self._process.wait()
        self._break(why)

    def _take(self, message: Message) -> None:
        """Pass on an answer or part of one. Malformed: it was not requested."""
        number = message.get("id")
        if not self._is_call(number) and not is_small(message):
            raise Malformed("a large message answers no call")
        if "id" not in message:
            return  # a beat, or a kind of message that a newer agent has
        if not isinstance(number, int):
            raise Malformed("a message answers no call")
        if number in self._streams:
            self._take_part(number, message)
        elif call := self._calls.get(number):
            self._take_answer(call, message)
            del self._calls[number]
        elif number in self._given_up:
            self._given_up.discard(number)
        else:
            raise Malformed("a message answers no call")

    def _is_call(self, number: object) -> bool:
        return isinstance(number, int) and (number in self._calls or number in self._given_up)

    def _take_answer(self, call: Call, message: Message) -> None:
        if call.answer.done():
            return
        if "error" in message:
            call.answer.set_exception(refusal(self._target, message["error"]))
        else:
            call.answer.set_result(checked(ANSWERS[call.verb], message.get("ok"), call.verb))

    def _take_part(self, number: int, message: Message) -> None:
        stream = self._streams[number]
        if "more" in message:
            return stream.put(unpack_bytes(checked(MORE, message["more"], "output")["data"]))
        end = refusal(self._target, message["error"]) if "error" in message else b""
        del self._streams[number]
        stream.put(end)

    async def _beat(self) -> None:
        loop = asyncio.get_running_loop()
        while not self.is_broken:
            if loop.time() > self._heard_at + SILENCE_S:
                self._break(f"nothing was heard of it for {SILENCE_S:.0f} s")
                return self._kill()
            self._say(BEAT)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(BEAT_S):
                    await self._broken.wait()

    # -- the end ------------------------------------------------------------------------------------

    @property
    def is_broken(self) -> bool:
        return self._broken.is_set()

    async def wait_broken(self) -> None:
        await self._broken.wait()

    async def close(self) -> None:
        """The agent ends when it has finished what it has begun. Several may close it at once."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self._break("the connection was closed")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            if not await self._has_ended():
                self._kill()
                if not await self._has_ended():
                    await self._abandon()
        finally:
            if self._stderr:
                self._stderr.close()

    async def _has_ended(self) -> bool:
        """Return whether it ends once its stdin is closed. Its output is read, or its end would not be seen."""
        self._stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                while await self._stdout.read(READ_BYTES):
                    pass
                await self._process.wait()
            return True
        return False

    async def _abandon(self) -> None:
        """Close our ends of its pipes: a child of the transport keeps the others open."""
        transport = getattr(self._process, "_transport", None)  # asyncio has no public way to close them
        if transport is not None:
            transport.close()
            await asyncio.sleep(0)  # the pipes are closed in the next turn of the loop

    async def _failed_to_open(self, why: str, trouble: str = "") -> TargetUnreachable:
        await self._has_ended()  # for its last words, which say more
        error = self._unreachable(why)
        error.trouble = trouble
        await self.close()
        return error

    def _break(self, why: str) -> None:
        if self.is_broken:
            return
        error = self._unreachable(why)
        self._broken.set()
        for call in self._calls.values():
            if not call.answer.done():
                call.answer.set_exception(error)
        for stream in self._streams.values():
            stream.put(error)
        self._streams.clear()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    def _unreachable(self, why: str) -> TargetUnreachable:
        words = str(self._stderr or "")
        return TargetUnreachable(self._target, f"{why} ({said(self._target, words)})" if words else why)


def _trouble_of_host(failure: Mapping[str, Any]) -> str:
    """Return the word of core.target_trouble by which the host names its trouble. Other words are not for it to say,
    and its text chooses no advice."""
    trouble = str(failure.get("trouble", ""))
    return trouble if trouble in TROUBLES_OF_HOSTS else SAID_BY_HOST

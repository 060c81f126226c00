"""A host that answers as it likes: a pipe to it, for a channel; and what it may answer, by the declared shapes."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from bgjob.remote.channel import Channel, Order
from bgjob.remote.codec import BEAT, Message, decode
from bgjob.remote.loader import MARK
from bgjob.remote.messages import Each, Fields, Maybe, Named, Shape

Answer = Callable[[str, Mapping[str, Any]], Any]
HELLO = {"hello": 1, "host": "far", "home": "/far", "pid": 7}
MET = {"there": True, "python": [3, 11, 7]}
NOTHING_NEW: Message = {"jobs": {}, "events": [], "looked": {}, "cursor": "1.0"}
RUN = {"format": 1, "pid": 7, "shim_pid": 6, "started_at": 1e9, "boot_id": "far"}
EXITED: Mapping[str, Any] = {
    "format": 1,
    "cause": "exited",
    "exit_code": 0,
    "signal": None,
    "ended_at": 1e9,
    "duration_s": 1.0,
    "output_bytes": 0,
}
HOSTILE: tuple[Any, ...] = (
    *(
        None,
        True,
        -1,
        1.5,
        float("nan"),
        float("inf"),
        10**30,
        "",
        "\ud800",
        "x" * 9000,
        "../../x",
        "\x1b[2J\u202e",
    ),
    *([], {}, [[]], {"a": 1}, {"\ud800": {}}, [None], "[" * 9 + "]" * 9),
)


class Refused(NamedTuple):
    """In place of an answer: the error of a host."""

    error: Any


class Silent(NamedTuple):
    """In place of an answer: none, ever."""


class Raw(NamedTuple):
    """In place of an answer: bytes."""

    data: bytes


class Host:
    """One connection. What is written into it are calls; `answer` decides what comes back."""

    def __init__(self, answer: Answer, hello: Any = HELLO, met: Any = MET) -> None:
        self.stdin, self.stdout = self, asyncio.StreamReader(limit=8 << 20)
        self._answer, self._hello = answer, hello
        self._is_met, self._unread = False, b""
        self._ended = asyncio.Event()
        self.stdout.feed_data(b"Welcome!\n" + MARK + json.dumps(met).encode() + b"\n")

    def write(self, data: bytes) -> None:
        self._unread += data
        if not self._is_met and self._has_order():
            self._is_met = True
            self.stdout.feed_data(json.dumps(self._hello).encode() + b"\n")
        while self._is_met and b"\n" in self._unread:
            line, _, self._unread = self._unread.partition(b"\n")
            self._take(decode(line + b"\n"))

    def _has_order(self) -> bool:
        """The program, counted, and a line with the order."""
        count, _, rest = self._unread.partition(b"\n")
        _, found, self._unread = rest[int(count) :].partition(b"\n")
        return bool(found)

    def _take(self, message: Message) -> None:
        if "verb" not in message:
            return
        match self._answer(message["verb"], message["words"]):
            case Silent():
                pass
            case Refused(error):
                self._say({"id": message["id"], "error": error})
            case Raw(data):
                self.stdout.feed_data(data)
            case answer:
                self._say({"id": message["id"], "ok": answer})

    def _say(self, message: Message) -> None:
        self.stdout.feed_data(json.dumps(message).encode() + b"\n")

    def beat(self) -> None:
        self._say(BEAT)

    async def drain(self) -> None:
        pass

    def close(self) -> None:
        if not self._ended.is_set():
            self._ended.set()
            self.stdout.feed_eof()

    kill = close

    async def wait(self) -> None:
        await self._ended.wait()

    async def channel(self) -> Channel:
        return await Channel.over(self, Order(target="far"))


def mutations(shape: Shape, value: Any) -> Iterator[Any]:
    """This value with one part of it replaced or left out, at every place that the shape declares.

    Some of them still have the shape: a text may be any text.
    """
    yield from HOSTILE
    match shape:
        case Fields():
            for name, inner in shape.rules.items():
                yield {key: each for key, each in value.items() if key != name}
                yield from (
                    {**value, name: each} for each in mutations(inner, value.get(name, example(inner)))
                )
        case Named():
            known = value or {"name": example(shape.shape)}
            for name, each in known.items():
                yield from ({name: other} for other in mutations(shape.shape, each))
        case Each():
            first = value[0] if value else example(shape.shape)
            yield from ([other] for other in mutations(shape.shape, first))
            if shape.most is not None:
                yield [first] * (shape.most + 1)
        case Maybe():
            yield from mutations(shape.shape, example(shape.shape) if value is None else value)


def example(shape: Shape) -> Any:
    """A value to begin with; of a rule, nobody knows one."""
    match shape:
        case Fields():
            return {name: example(inner) for name, inner in shape.rules.items()}
        case Named():
            return {}
        case Each():
            return []
        case _:
            return None

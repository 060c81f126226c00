"""What a client is sent that does not read."""

import asyncio
import threading
from typing import Any

from starlette.types import Message

from bgjob.web.metrics import Meters
from bgjob.web.replies import MOST_UNSENT, Replies


async def unread(messages: int) -> list[dict[str, Any]]:
    """What is sent once the client reads, if so many messages have come before."""
    sent: list[dict[str, Any]] = []
    gone = asyncio.Event()

    async def send(message: Message) -> None:
        sent.append(dict(message))

    async def receive() -> Message:
        await gone.wait()
        return {"type": "http.disconnect"}

    replies = Replies(send, Meters())
    for number in range(messages):
        replies.put({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": number}})
    replies.put_last({"jsonrpc": "2.0", "id": 1, "result": {}}, 200)
    await replies.deliver(receive, lambda: True)
    return sent


def test_a_bounded_number_of_messages_waits_for_a_client() -> None:
    sent = asyncio.run(unread(MOST_UNSENT))
    assert len(sent) == 1 + MOST_UNSENT + 1
    assert b'"result"' in sent[-1]["body"]


def test_one_that_leaves_more_unread_gets_no_answer() -> None:
    sent = asyncio.run(unread(MOST_UNSENT + 100))
    assert len(sent) == 1 + MOST_UNSENT + 1
    assert sent[-1] == {"type": "http.response.body", "body": b":\n\n", "more_body": False}


async def drained(*, leaves: bool) -> list[str]:
    """What happens, in its order, when a thread puts two messages and drains."""
    happened: list[str] = []
    may_send, gone = asyncio.Event(), asyncio.Event()

    async def send(message: Message) -> None:
        await may_send.wait()
        happened.append(message["type"])

    async def receive() -> Message:
        await gone.wait()
        return {"type": "http.disconnect"}

    def put_and_drain() -> None:
        for _ in range(2):
            replies.put({"jsonrpc": "2.0", "method": "notifications/progress"})
        loop.call_soon_threadsafe((gone if leaves else may_send).set)
        replies.drain()
        happened.append("drained")
        replies.put_last({"jsonrpc": "2.0", "id": 1, "result": {}}, 200)

    loop = asyncio.get_running_loop()
    replies = Replies(send, Meters())
    thread = threading.Thread(target=put_and_drain)
    delivering = asyncio.create_task(replies.deliver(receive, lambda: True))
    thread.start()
    if leaves:
        await gone.wait()
        delivering.cancel()
    else:
        await delivering
    await asyncio.to_thread(thread.join)
    return happened


def test_who_drains_waits_until_all_is_sent() -> None:
    happened = asyncio.run(drained(leaves=False))
    assert happened[:4] == ["http.response.start", "http.response.body", "http.response.body", "drained"]


def test_or_until_the_client_is_gone() -> None:
    assert asyncio.run(drained(leaves=True)) == ["drained"]

"""The body of a request, bounded in size and time."""

import asyncio

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from bgjob.web.access import Refused, values

MOST_BYTES = 8 << 20
PATIENCE_S = 30.0
TOO_LARGE = "The body may have {} at most. Send a file's path instead of its content."
TOO_SLOW = f"The body was not complete within {PATIENCE_S:.0f} seconds."


async def read_body(scope: Scope, receive: Receive, most_bytes: int = MOST_BYTES) -> bytes:
    """ClientDisconnect: the client is gone."""
    announced = values(scope, b"content-length")
    if announced and int(announced[0]) > most_bytes:
        raise _too_large(most_bytes)
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await _read(receive, most_bytes)
    except TimeoutError:
        raise Refused(408, TOO_SLOW) from None


async def _read(receive: Receive, most_bytes: int) -> bytes:
    body, has_more = bytearray(), True
    while has_more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        if len(body) > most_bytes:  # in pieces, of which no header tells the sum
            raise _too_large(most_bytes)
        has_more = message.get("more_body", False)
    return bytes(body)


def _too_large(most_bytes: int) -> Refused:
    shown = f"{most_bytes >> 20} MB" if most_bytes >= 1 << 20 else f"{most_bytes} bytes"
    return Refused(413, TOO_LARGE.format(shown))

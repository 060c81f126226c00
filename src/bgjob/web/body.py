"""The body of a request, bounded in size and time."""

import asyncio

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from bgjob.web.access import Refused, values

MOST_BYTES = 8 << 20
PATIENCE_S = 30.0
TOO_LARGE = f"The body may have {MOST_BYTES >> 20} MB at most. Send a file's path instead of its content."
TOO_SLOW = f"The body was not complete within {PATIENCE_S:.0f} seconds."


async def read_body(scope: Scope, receive: Receive) -> bytes:
    """ClientDisconnect: the client is gone."""
    announced = values(scope, b"content-length")
    if announced and int(announced[0]) > MOST_BYTES:
        raise Refused(413, TOO_LARGE)
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await _read(receive)
    except TimeoutError:
        raise Refused(408, TOO_SLOW) from None


async def _read(receive: Receive) -> bytes:
    body, has_more = bytearray(), True
    while has_more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        if len(body) > MOST_BYTES:  # in pieces, of which no header tells the sum
            raise Refused(413, TOO_LARGE)
        has_more = message.get("more_body", False)
    return bytes(body)

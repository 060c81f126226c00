"""A client of the years before 2026: PyPI `mcp` 1.26, run by its own Python (it has no bgjob and no pytest).

`old_client.py COMMAND ...` is a bridge to the server that COMMAND starts. Its first line is what the handshake and
tools/list gave; then each line of stdin is a call, {"tool", "arguments"}, and each line of stdout its result.
"""

import json
import os
import sys

import anyio
import anyio.to_thread
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from pydantic import BaseModel


async def main(*command: str) -> None:
    server = StdioServerParameters(command=command[0], args=list(command[1:]), env=dict(os.environ))
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        hello = as_json(await session.initialize())
        say({**hello, **as_json(await session.list_tools())})
        while line := await anyio.to_thread.run_sync(sys.stdin.readline):
            call = json.loads(line)
            say(as_json(await session.call_tool(call["tool"], call["arguments"])))


def as_json(result: BaseModel) -> dict[str, object]:
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


def say(message: dict[str, object]) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])

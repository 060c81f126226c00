"""What clients say to a server, in each revision: openings, and messages that each have at most one answer."""

import json
from typing import Any

from bgjob.protocol.revisions import CAPABILITIES_KEY, CLIENT_KEY, HANDSHAKE, REVISION_KEY

Params = dict[str, Any]

INFO = {"name": "raw", "version": "1"}
META = {REVISION_KEY: "2026-07-28", CAPABILITIES_KEY: {}, CLIENT_KEY: INFO}
STATELESS, WITHOUT = "stateless", "without a handshake"
OPENINGS = (*HANDSHAKE, STATELESS, WITHOUT)
NOBODY = "00000000-0000-4000-8000-000000000000"


def hello(revision: object) -> Params:
    return {"protocolVersion": revision, "capabilities": {}, "clientInfo": INFO}


def call(tool: object, arguments: object = None) -> tuple[str, Params]:
    return "tools/call", {"name": tool} if arguments is None else {"name": tool, "arguments": arguments}


def completion(template: str, name: str, value: str) -> Params:
    return {"ref": {"type": "ref/resource", "uri": template}, "argument": {"name": name, "value": value}}


REQUESTS: dict[str, tuple[str, Any]] = {
    "ping": ("ping", {}),
    "the list of tools": ("tools/list", {}),
    "the list of tools from a cursor": ("tools/list", {"cursor": "x"}),
    "a cursor that is a number": ("tools/list", {"cursor": 5}),
    "discovery": ("server/discover", {}),
    "a tool without arguments": call("list_jobs"),
    "arguments that are null": ("tools/call", {"name": "list_jobs", "arguments": None}),
    "empty arguments": call("list_jobs", {}),
    "a tool that refuses": call("get_job_status", {"job_id": NOBODY}),
    "a missing argument": call("get_job_status", {}),
    "an unknown argument": call("list_jobs", {"colour": "red"}),
    "a bad argument": call("tail_job_output", {"job_id": NOBODY, "lines": "many"}),
    "a forgiven argument": call("kill_job", {"job_id": NOBODY, "grace_s": "0"}),
    "an unknown tool": call("sell_bike", {}),
    "no tool": ("tools/call", {}),
    "a tool that is a number": call(5, {}),
    "arguments that are a list": call("list_jobs", [1]),
    "the list of resources": ("resources/list", {}),
    "a page of resources that is not there": ("resources/list", {"cursor": "x"}),
    "the templates of resources": ("resources/templates/list", {}),
    "the list of jobs as a resource": ("resources/read", {"uri": "bgjob://jobs"}),
    "a resource that is not there": ("resources/read", {"uri": f"bgjob://jobs/{NOBODY}/stdout"}),
    "a resource of nobody": ("resources/read", {"uri": "file:///etc/passwd"}),
    "no resource": ("resources/read", {}),
    "a completion": ("completion/complete", completion("bgjob://jobs/{id}/{view}", "view", "st")),
    "a completion of nothing": ("completion/complete", completion("file:///{path}", "path", "x")),
    "half a completion": ("completion/complete", {"ref": {"type": "ref/resource"}}),
    "an unknown method": ("tools/nonsense", {}),
    "a method of a feature that is not there": ("prompts/list", {}),
    "a level for a log that is not there": ("logging/setLevel", {"level": "info"}),
    "a notification as a request": ("notifications/initialized", {}),
    "another handshake": ("initialize", hello("2025-11-25")),
    "a handshake of the future": ("initialize", hello("2099-01-01")),
    "a handshake without a revision": ("initialize", {"capabilities": {}, "clientInfo": INFO}),
    "a handshake without a client": ("initialize", {"protocolVersion": "2025-11-25"}),
    "an unknown revision": ("tools/list", {"_meta": META | {REVISION_KEY: "2099-01-01"}}),
    "half an envelope": ("tools/list", {"_meta": {REVISION_KEY: "2026-07-28"}}),
    "meta that is a list": ("tools/list", {"_meta": []}),
    "no params": ("tools/list", None),
    "progress that is not asked for": call("list_jobs", {"limit": 1}),
}
LINES: dict[str, bytes] = {
    "an id that is text": b'{"jsonrpc":"2.0","id":"text","method":"nothing"}',
    "an id that is null": b'{"jsonrpc":"2.0","id":null,"method":"nothing"}',
    "an id that is true": b'{"jsonrpc":"2.0","id":true,"method":"nothing"}',
    "an id that is a fraction": b'{"jsonrpc":"2.0","id":1.5,"method":"nothing"}',
    "params that are a list": b'{"jsonrpc":"2.0","id":1,"method":"nothing","params":[1]}',
    "another JSON-RPC": b'{"jsonrpc":"1.0","id":1,"method":"nothing"}',
    "no method": b'{"jsonrpc":"2.0","id":1}',
    "no JSON": b"hello?",
    "a number": b"17",
    "an empty batch": b"[]",
    "a batch": b'[{"jsonrpc":"2.0","id":"batch","method":"nothing"}]',
}
UNANSWERED: dict[str, bytes] = {
    "an unknown notification": b'{"jsonrpc":"2.0","method":"notifications/nonsense"}',
    "a cancellation of nothing": b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}',
    "an answer to nothing": b'{"jsonrpc":"2.0","id":77,"result":{}}',
    "an empty line": b"",
}


def request(opening: str, number: int, method: str, params: Any) -> bytes:
    """As a client of that revision sends it."""
    message: Params = {"jsonrpc": "2.0", "id": number, "method": method}
    if opening == STATELESS:
        message["params"] = {"_meta": META, **(params or {})}
    elif params is not None:
        message["params"] = params
    return json.dumps(message).encode()

"""Whatever bytes a client sends, each line gets the answer it deserves, and the next line works; over any wire."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bgjob.protocol.revisions import CAPABILITIES_KEY, HANDSHAKE, REVISION_KEY
from tests.support.raw_client import HANDSHAKE as HELLO
from tests.support.raw_client import SERVE, Message, RawClient
from tests.support.waiting import PATIENCE_S
from tests.support.wires import WIRES

UNREADABLE, REFUSED = -32700, -32600
STATELESS = {REVISION_KEY: "2026-07-28", CAPABILITIES_KEY: {}}
PING = b'{"jsonrpc":"2.0","id":"p","method":"ping"}'
DONE: Message = {"jsonrpc": "2.0", "id": "p", "result": {}}
DEEP = 200_000
DIGITS = b"9" * 10_000


def ping(request_id: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"method":"ping"}' % request_id


def call(arguments: bytes) -> bytes:
    params = b'{"name":"tail_job_output","arguments":%b}' % arguments
    return b'{"jsonrpc":"2.0","id":"p","method":"tools/call","params":%b}' % params


# what is sent, and the id and the code of the answer to it; None: it is answered as a call that worked
LINES: dict[str, tuple[bytes, object, int | None]] = {
    "no JSON": (b"hello?", None, UNREADABLE),
    "half a message": (PING[:-5], None, UNREADABLE),
    "two messages": (PING + PING, None, UNREADABLE),
    "200,000 lists deep": (b"[" * DEEP, None, UNREADABLE),
    "200,000 objects deep": (b'{"a":' * DEEP + b"1" + b"}" * DEEP, None, UNREADABLE),
    "200,000 deep in params": (call(b'{"lines":' + b"[" * DEEP + b"]" * DEEP + b"}"), None, UNREADABLE),
    "UTF-16": ('{"jsonrpc":"2.0","id":1,"method":"ping"}'.encode("utf-16-le"), None, UNREADABLE),
    "NUL": (b"\x00", None, UNREADABLE),
    "only a BOM": (b"\xef\xbb\xbf", None, UNREADABLE),
    "a BOM": (b"\xef\xbb\xbf" + PING, "p", None),
    "CRLF": (PING + b"\r", "p", None),
    "spaces around": (b" \t" + PING + b"  \r", "p", None),
    "duplicate keys": (b'{"jsonrpc":"2.0","id":1,"id":"p","method":"x","method":"ping"}', "p", None),
    "bad UTF-8 in a text": (
        b'{"jsonrpc":"2.0","id":"p","method":"ping","params":{"x":"\xff\xc0"}}',
        "p",
        None,
    ),
    "bad UTF-8 in an id": (ping(b'"\xff"'), "\ufffd", None),
    "a lone surrogate in a text": (
        b'{"jsonrpc":"2.0","id":"p","method":"ping","params":{"x":"\\ud83d"}}',
        "p",
        None,
    ),
    "a lone surrogate in an id": (ping(b'"\\udc00"'), "?", None),
    "an empty batch": (b"[]", None, REFUSED),
    "a batch of numbers": (b"[1]", None, REFUSED),
    "a number": (b"17", None, REFUSED),
    "null": (b"null", None, REFUSED),
    "a text": (b'"ping"', None, REFUSED),
    "an empty object": (b"{}", None, REFUSED),
    "another JSON-RPC": (b'{"jsonrpc":"1.0","id":"p","method":"ping"}', "p", REFUSED),
    "params that are a list": (b'{"jsonrpc":"2.0","id":"p","method":"ping","params":[1]}', "p", REFUSED),
    "id: null": (ping(b"null"), None, REFUSED),
    "id: true": (ping(b"true"), None, REFUSED),
    "id: a fraction": (ping(b"1.5"), None, REFUSED),
    "id: a list": (ping(b"[1]"), None, REFUSED),
    "id: an object": (ping(b"{}"), None, REFUSED),
    "id: NaN": (ping(b"NaN"), None, REFUSED),
    "id: 10,000 digits": (ping(DIGITS), None, REFUSED),
    "id: 0": (ping(b"0"), 0, None),
    "id: below 0": (ping(b"-7"), -7, None),
    "id: 30 digits": (ping(b"1" * 30), int("1" * 30), None),
    "id: an empty text": (ping(b'""'), "", None),
    "id: a long text": (ping(b'"' + b"x" * 100_000 + b'"'), "x" * 100_000, None),
    "a method of 1 MB": (b'{"jsonrpc":"2.0","id":"p","method":"%b"}' % (b"m" * (1 << 20)), "p", -32601),
}
# arguments that are told by the tool
ARGUMENTS = {
    "10,000 digits": b'{"job_id":"x","lines":' + DIGITS + b"}",
    "NaN": b'{"job_id":"x","lines":NaN}',
    "900 lists deep": b'{"job_id":"x","lines":' + b"[" * 900 + b"]" * 900 + b"}",
    "a key twice": b'{"job_id":"x","lines":5,"lines":"many"}',
}


@pytest.fixture(scope="module", params=WIRES)
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawClient]:
    home = tmp_path_factory.mktemp("wire") / "home"
    with RawClient(home, SERVE, WIRES[request.param]()) as client:
        client.shake_hands()
        yield client


@pytest.mark.parametrize("what", LINES)
def test_a_line_has_its_answer_and_the_next_one_works(client: RawClient, what: str) -> None:
    line, request_id, code = LINES[what]
    client.write(line)
    answer = client.next_message()
    assert (answer["id"], answer.get("error", {}).get("code")) == (request_id, code)
    assert len(json.dumps(answer)) < 1000 + len(str(request_id))
    assert_alive(client)


@pytest.mark.parametrize("what", ARGUMENTS)
def test_odd_arguments_are_told_by_the_tool(client: RawClient, what: str) -> None:
    client.write(call(ARGUMENTS[what]))
    result = client.next_message()["result"]
    assert result["isError"]
    assert "Invalid argument lines=" in result["content"][0]["text"]


@pytest.mark.parametrize("depth", [*range(880, 1000, 8), 2000])
def test_at_every_depth_there_is_an_answer_in_words(client: RawClient, depth: int) -> None:
    """Where Python gives up to read it depends on its version: what it reads, it can also tell."""
    deep = b"[" * depth + b"]" * depth
    for arguments in (b'{"job_id":"x","lines":%b}', b'{"job_id":"x","%b":1}', b'{"%b":%b}'):
        client.write(call(arguments.replace(b"%b", deep)))
        answer = client.next_message()
        assert " argument " in json.dumps(answer) or answer["error"]["code"] == UNREADABLE
    assert_alive(client)


@pytest.mark.parametrize(
    "line", [b"", b"\r", b"   ", b'{"jsonrpc":"2.0","method":"x"}', b'{"jsonrpc":"2.0","id":1,"result":{}}']
)
def test_some_lines_have_no_answer(client: RawClient, line: bytes) -> None:
    client.write(line)
    assert_alive(client)


def test_a_message_may_come_in_two_pieces_split_anywhere(client: RawClient) -> None:
    message = '{"jsonrpc":"2.0","id":"é☃🚲","method":"ping"}\n'.encode()
    for split in range(1, len(message)):
        client.write_bytes(message[:split])
        client.write_bytes(message[split:] + message[:split])
        client.write_bytes(message[split:])
        assert [client.next_message()["id"] for _ in range(2)] == ["é☃🚲"] * 2


def test_a_message_may_come_byte_by_byte(client: RawClient) -> None:
    for byte in PING + b"\r\n":
        client.write_bytes(bytes([byte]))
    assert client.next_message() == DONE


def test_many_messages_may_come_in_one_piece(client: RawClient) -> None:
    client.write_bytes(b"".join(ping(b"%d" % number) + b"\n\n" for number in range(500)))
    assert [client.next_message()["id"] for _ in range(500)] == list(range(500))


@pytest.mark.parametrize("client", ["pipes", "one socket"], indirect=True)
def test_a_message_of_20_mb_is_read(client: RawClient) -> None:
    client.write(b'{"jsonrpc":"2.0","id":"p","method":"ping","params":{"x":"%b"}}' % (b"x" * (20 << 20)))
    assert client.next_message() == DONE


@pytest.mark.parametrize("client", ["pipes"], indirect=True)
def test_a_line_of_more_than_64_mb_is_refused(client: RawClient) -> None:
    piece = b"x" * (1 << 20)
    for _ in range(65):
        client.write_bytes(piece)
    client.write_bytes(b"\n" + PING + b"\n")
    refused = client.next_message()
    assert (refused["id"], refused["error"]["code"]) == (None, UNREADABLE)
    assert "64 MB" in refused["error"]["message"]
    assert client.next_message() == DONE


def test_both_eras_share_the_connection(client: RawClient) -> None:
    """Each request says which one it is of, in any order."""
    for _ in range(2):
        old, new = (
            client.ask("tools/list")["result"],
            client.ask("tools/list", {"_meta": STATELESS})["result"],
        )
        assert "resultType" not in old
        assert (new["resultType"], new["tools"]) == ("complete", old["tools"])
    assert client.ask("ping")["result"] == {}
    assert client.ask("ping", {"_meta": STATELESS})["error"]["code"] == -32601
    assert client.ask("server/discover", {"_meta": STATELESS})["result"]["supportedVersions"] == [
        "2026-07-28"
    ]
    assert client.ask("server/discover")["error"]["code"] == -32601


def test_a_line_in_the_other_era_has_the_same_answer(client: RawClient) -> None:
    for arguments in ARGUMENTS.values():
        meta = json.dumps(STATELESS).encode()
        old = call(arguments)
        new = old.replace(b'"params":{', b'"params":{"_meta":%b,' % meta)
        results = [told(client, line) for line in (old, new)]
        assert results[0] == results[1]


def told(client: RawClient, line: bytes) -> Any:
    client.write(line)
    result = client.next_message()["result"]
    return {key: result[key] for key in ("content", "isError")}


@pytest.mark.parametrize("revision", HANDSHAKE)
def test_batches_are_taken_in_the_one_revision_that_has_them(tmp_path: Path, revision: str) -> None:
    with RawClient(tmp_path / "home") as client:
        client.ask("initialize", {**HELLO, "protocolVersion": revision})
        client.write(b"[" + ping(b'"a"') + b"," + ping(b'"b"') + b"]")
        answers = [client.next_message() for _ in range(2)]
        assert [answer["id"] for answer in answers] == ["a", "b"]
        codes = {answer.get("error", {}).get("code") for answer in answers}
        assert codes == ({None} if revision == "2025-03-26" else {REFUSED})
        client.write_bytes(PING)  # the last line has no end
        client.hang_up()
        assert client.rest() == [DONE]
        assert client.process.wait(PATIENCE_S) == 0


def assert_alive(client: RawClient) -> None:
    client.write(PING)
    assert client.next_message() == DONE

"""Headers that repeat the body, and the status of an answer."""

from typing import Any

import pytest

from bgjob.protocol.connection import Connection, Response
from bgjob.protocol.http import Headers, decoded_value, status_of
from bgjob.protocol.jsonrpc import HEADER_MISMATCH, RpcError, error, response
from bgjob.protocol.methods import RESOURCES, TOOLS
from bgjob.protocol.request import Request
from bgjob.protocol.revisions import CAPABILITIES_KEY, HANDSHAKE, REVISION_KEY, WITHOUT_HEADER
from bgjob.protocol.server import Server

SERVER = Server("s", "S", "1", "", {**TOOLS, **RESOURCES}, {})
META = {REVISION_KEY: "2026-07-28", CAPABILITIES_KEY: {}}
NOTE = "=?base64?bm90ZQ==?="


def sent(headers: Headers, method: str = "tools/list", **params: Any) -> Response | Request:
    told = {"_meta": META, **params}
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": told}
    (received,) = Connection(SERVER, can_notify=False).receive(message, headers)
    assert isinstance(received, Response | Request)
    return received


def headers(method: str = "tools/list", **others: str) -> dict[str, list[str]]:
    named = {"mcp-protocol-version": "2026-07-28", "mcp-method": method}
    return {key.replace("_", "-"): [value] for key, value in {**named, **others}.items()}


def is_mismatch(received: Response | Request) -> bool:
    return isinstance(received, Response) and received.message["error"]["code"] == HEADER_MISMATCH


class TestHeaders:
    def test_what_agrees_is_taken(self) -> None:
        assert isinstance(sent(headers()), Request)
        assert isinstance(sent(headers(mcp_method=" tools/list ")), Request)

    @pytest.mark.parametrize("name", ["mcp-protocol-version", "mcp-method"])
    def test_missing_repeated_or_different_is_a_mismatch(self, name: str) -> None:
        good = headers()
        for values in ([], good[name] * 2, ["other"], [""], [good[name][0].upper() + "x"]):
            assert is_mismatch(sent({**good, name: values})), values

    @pytest.mark.parametrize(("method", "member"), [("tools/call", "name"), ("resources/read", "uri")])
    def test_a_name_is_repeated_too(self, method: str, member: str) -> None:
        good = headers(method, mcp_name="note")
        assert isinstance(sent(good, method, **{member: "note"}), Request)
        assert isinstance(sent({**good, "mcp-name": [NOTE]}, method, **{member: "note"}), Request)
        for values in ([], ["note", "note"], ["Note"], [NOTE, NOTE], ["=?base64?!?="]):
            assert is_mismatch(sent({**good, "mcp-name": values}, method, **{member: "note"})), values

    def test_a_name_that_looks_encoded_is_encoded(self) -> None:
        assert is_mismatch(sent(headers("tools/call", mcp_name=NOTE), "tools/call", name=NOTE))

    @pytest.mark.parametrize("revision", HANDSHAKE)
    def test_requests_of_before_need_only_their_revision(self, revision: str) -> None:
        received = sent({"mcp-protocol-version": [revision]}, _meta={})
        assert isinstance(received, Request)
        assert received.revision == revision

    def test_a_request_that_names_no_revision_is_of_an_old_one(self) -> None:
        received = sent({}, _meta={})
        assert isinstance(received, Request)
        assert received.revision == WITHOUT_HEADER

    def test_a_new_header_over_an_old_body_is_refused(self) -> None:
        received = sent(headers(), _meta={})
        assert isinstance(received, Response)
        assert status_of(received.message, is_stateless=True) == 400


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ("plain", "plain"),
        ("", ""),
        (NOTE, "note"),
        ("=?base64?4piD?=", "☃"),
        ("=?base64??=", ""),
        ("=?base64?bm90ZQ?=", None),
        ("=?base64?bm90ZR==?=", None),
        ("=?base64?bm90 ZQ==?=", None),
        ("=?base64?/w==?=", None),
        ("=?BASE64?bm90ZQ==?=", "=?BASE64?bm90ZQ==?="),
        ("=?base64?bm90ZQ==", "=?base64?bm90ZQ=="),
        ("=?base64?=", "=?base64?="),
    ],
)
def test_a_value_is_plain_or_base64(value: str, meant: str | None) -> None:
    assert decoded_value(value) == meant


@pytest.mark.parametrize(
    ("code", "status"),
    [(-32700, 400), (-32600, 400), (-32601, 404), (-32602, 400), (-32603, 200), (-32020, 400), (-32022, 400)],
)
def test_an_error_has_its_status_since_2026(code: int, status: int) -> None:
    problem = RpcError(code, "x")
    assert status_of(error(1, problem), is_stateless=True) == status
    assert status_of(error(None, problem), is_stateless=False) == status
    assert status_of(error(1, problem), is_stateless=False) == 200
    assert status_of(response(1, {}), is_stateless=True) == 200

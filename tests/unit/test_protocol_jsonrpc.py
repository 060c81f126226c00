"""Messages from bytes, and back."""

import json
import math
from typing import Any

import pytest

from bgjob.protocol.jsonrpc import PARSE_ERROR, RpcError, decoded, encoded, usable_id

DIGITS = b"9" * 10_000


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"a":1}', {"a": 1}),
        (b'\xef\xbb\xbf{"a":1}', {"a": 1}),
        (b'  {"a":1}\r', {"a": 1}),
        (b'{"a":1,"a":2}', {"a": 2}),
        (b'{"a":"caf\xe9"}', {"a": "caf\ufffd"}),
        (b'{"a":"\\ud83d b"}', {"a": "? b"}),
        (b'{"\\uD83D":["\\udeb2"]}', {"?": ["?"]}),
        (b'"\\ud83d"', "?"),
        (b'["\\ud83d"]', ["?"]),
        (b'{"a":"\\ud83d\\udeb2"}', {"a": "🚲"}),
        (b'{"a":"\\\\ud83d"}', {"a": "\\ud83d"}),
        (b"17", 17),
        (b"null", None),
        (b"[]", []),
        (b'{"a":Infinity}', {"a": math.inf}),
        (b'{"a":' + DIGITS + b"}", {"a": math.inf}),
        (b'{"a":-' + DIGITS + b"}", {"a": -math.inf}),
        (b'{"a":[1,' + DIGITS + b"]}", {"a": [1, math.inf]}),
        (b'{"a":1e999}', {"a": math.inf}),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_what_can_be_read_is_read(line: bytes, message: Any) -> None:
    assert decoded(line) == message


@pytest.mark.parametrize(
    "line",
    [b"", b"{", b"hello", b"{'a':1}", b'{"a":1}{"b":2}', b"\xff\xfe{\x00", b"[" * 200_000, b'{"a":' * 200_000,
     b'{"a":' + DIGITS, b'"' + b"x" * 100, b"[" + DIGITS + b"," + b"[" * 200_000],
    ids=lambda line: repr(line[:20]),
)  # fmt: skip
def test_what_is_no_json_is_an_error_of_the_client(line: bytes) -> None:
    with pytest.raises(RpcError) as problem:
        decoded(line)
    assert problem.value.code == PARSE_ERROR


@pytest.mark.parametrize("text", ["☃", "\u2028", "a\nb", "\x00", "🚲", '"\\'])
def test_a_message_is_one_line_of_utf8(text: str) -> None:
    line = encoded({"text": text})
    assert b"\n" not in line
    assert json.loads(line.decode()) == {"text": text}


def test_what_is_no_unicode_is_sent_all_the_same() -> None:
    assert json.loads(encoded({"text": "caf\udcff"})) == {"text": "caf?"}


@pytest.mark.parametrize(
    ("given", "used"),
    [
        (1, 1),
        (0, 0),
        (-5, -5),
        ("", ""),
        ("a", "a"),
        (2**80, 2**80),
        (True, None),
        (1.0, None),
        (None, None),
        ([], None),
    ],
)
def test_an_id_is_text_or_a_whole_number(given: object, used: object) -> None:
    assert usable_id({"id": given}) == used

"""Messages and errors as lines: what comes out is what went in, or an error."""

import base64
import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bgjob.core import errors
from bgjob.core.errors import BgjobError, CannotStart, InvalidArgument, JobNotFound, TargetUnreachable
from bgjob.remote.codec import (
    ONE_PIECE_BYTES,
    decode,
    encode,
    pack_bytes,
    pack_error,
    unpack_bytes,
    unpack_error,
)

WORDS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=2000),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
)


@given(words=WORDS)
def test_a_message_is_one_line_and_comes_back(words: object) -> None:
    line = encode({"id": 1, "ok": words})
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert decode(line) == {"id": 1, "ok": words}


def test_a_long_line_is_compressed_and_a_short_one_plain() -> None:
    """srun sends 1024 bytes and more in pieces, 44 ms apart."""
    assert encode({"ok": "x"}) == b'{"ok":"x"}\n'
    assert len(encode({"ok": "x" * 10_000})) < ONE_PIECE_BYTES


@given(data=st.binary(max_size=3000))
def test_bytes_are_text_in_a_message(data: bytes) -> None:
    assert unpack_bytes(decode(encode({"data": pack_bytes(data)}))["data"]) == data


LONG = encode({"ok": [*range(5000)]})


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b'{"id": 1}',  # without its newline: cut
        b'{"id": 1\n',
        b"[1]\n",
        b"7\n",
        b"Welcome to this host!\n",
        LONG[:-1],
        LONG[:500] + b"\n",
        base64.b64encode(zlib.compress(b"[]")) + b"\n",
        base64.b64encode(zlib.compress(json.dumps({"x": "y"}).encode())[:-3]) + b"\n",
        b"[" * 100_000 + b"\n",
    ],
    ids=lambda line: repr(line[:20]),
)
def test_what_is_no_message_is_a_value_error(line: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        decode(line)


SOME_ERRORS = [
    JobNotFound("x", meant="y"),
    InvalidArgument("=3 is odd", "Take 4.", argument="rows"),
    CannotStart(OSError(28, "No space left on device"), "/home"),
    TargetUnreachable("gpu-box", "Permission denied"),
    BgjobError("It is so.", "Do that."),
]


@pytest.mark.parametrize("error", SOME_ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_is_the_same_error_on_the_other_side(error: BgjobError) -> None:
    same = unpack_error(decode(encode({"error": pack_error(error)}))["error"])
    assert type(same) is type(error)
    assert str(same) == str(error)
    assert vars(same) == vars(error)


def test_every_error_of_ours_can_be_rebuilt() -> None:
    kinds = [
        each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, BgjobError)
    ]
    assert len(kinds) > 20
    for kind in kinds:
        rebuilt = unpack_error({"kind": kind.__name__, "text": "so"})
        assert type(rebuilt) is kind
        assert (str(rebuilt), rebuilt.what, rebuilt.advice) == ("so", "so", "")


@pytest.mark.parametrize("kind", ["NoShim", "ZeroDivisionError", "_short", "errno", "__doc__"])
def test_an_error_that_is_none_of_ours_is_a_plain_one_that_says_the_same(kind: str) -> None:
    error = unpack_error({"kind": kind, "text": "division by zero", "state": {"x": 1}})
    assert type(error) is BgjobError
    assert str(error) == "division by zero"
    assert vars(error)["kind"] == kind
    assert unpack_error(pack_error(ZeroDivisionError())).args == ("ZeroDivisionError",)

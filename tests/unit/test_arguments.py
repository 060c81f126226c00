"""Arguments as clients and models send them."""

from typing import Any

import pytest

from bgjob.mcp.arguments import renamed, unpacked

LIST = {"type": "array", "items": {"type": "string"}}
OBJECT = {"type": "object"}
TEXT_OR_OBJECT = {"anyOf": [{"type": "string"}, {"type": "object"}]}
TEXT = {"type": "string"}


@pytest.mark.parametrize(
    ("value", "schema", "expected"),
    [
        (["a"], LIST, ["a"]),
        ("a", LIST, ["a"]),
        ('["a", "b"]', LIST, ["a", "b"]),
        (' ["a"]', LIST, ["a"]),
        ("[unclosed", LIST, ["[unclosed"]),
        ('{"a": 1}', LIST, ['{"a": 1}']),
        (7, LIST, [7]),
        (True, LIST, True),
        ('{"a": 1}', OBJECT, {"a": 1}),
        ("{not json", OBJECT, "{not json"),
        ("[1]", OBJECT, "[1]"),
        ("[" * 100_000, LIST, ["[" * 100_000]),
        ('{"id": "7"}', TEXT_OR_OBJECT, {"id": "7"}),
        ("7", TEXT_OR_OBJECT, "7"),
        ('["a"]', TEXT, '["a"]'),
        ('{"a": 1}', TEXT, '{"a": 1}'),
        (None, LIST, None),
        ("x", {}, "x"),
    ],
)
def test_json_text_is_what_it_says_where_that_is_accepted(value: Any, schema: Any, expected: Any) -> None:
    assert unpacked(value, schema) == expected


@pytest.mark.parametrize(
    ("given", "properties", "expected"),
    [
        ({"job_id": "a"}, {"job_ids"}, {"job_ids": "a"}),
        ({"job_id": ["a"]}, {"job_id"}, {"job_id": "a"}),
        ({"job_id": ["a", "b"]}, {"job_id"}, {"job_id": ["a", "b"]}),
        ({"job_ids": ["a"]}, {"job_id"}, {"job_id": "a"}),
        ({"job_ids": "a"}, {"job_id"}, {"job_id": "a"}),
        ({"job_ids": ["a", "b"]}, {"job_id"}, {"job_ids": ["a", "b"]}),
        ({"job_id": "a", "job_ids": ["b"]}, {"job_ids"}, {"job_id": "a", "job_ids": ["b"]}),
        ({"job_id": "a"}, {"job_id"}, {"job_id": "a"}),
        ({"job_id": "a"}, {"command"}, {"job_id": "a"}),
        ({"job_id": "a", "lines": 3}, {"job_ids", "lines"}, {"job_ids": "a", "lines": 3}),
    ],
)
def test_one_job_and_several_are_the_same_argument(given: Any, properties: set[str], expected: Any) -> None:
    assert renamed(given, {name: {} for name in properties}) == expected

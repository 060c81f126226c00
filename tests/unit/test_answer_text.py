"""Answers as text: the same JSON, in lines."""

import json
from typing import Any

import pytest

from bgjob.mcp.answer_text import LINE_CHARACTERS, as_text

LONG = "x" * 10_000
ROW = {"job_id": "a", "status": "running"}
LONG_ROW = {**ROW, "stdout": LONG}


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"status": "running"},
        {"jobs": []},
        {"jobs": [ROW, LONG_ROW], "met": True},
        {"lines": ["a", "b"], "limits": {"memory": 7}, "text": 'é "quoted"\n'},
    ],
)
def test_the_text_is_the_same_json(answer: dict[str, Any]) -> None:
    assert json.loads(as_text(answer)) == answer


def test_a_long_output_takes_no_other_member_with_it() -> None:
    lines = as_text({"met": True, "jobs": [ROW, LONG_ROW]}).splitlines()
    short = [line for line in lines if len(line) <= LINE_CHARACTERS]
    assert short == [
        '{"met":true,',
        '"jobs":[',
        '{"job_id":"a","status":"running"},',
        '{"job_id":"a",',
        '"status":"running",',
    ]

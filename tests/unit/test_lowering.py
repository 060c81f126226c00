"""Lowered source does what the source does. Here it is run by this interpreter; tests/remote has older ones."""

import ast
from typing import Any

import pytest

from bgjob.remote.archive import sources
from bgjob.remote.lowering import lowered, lowered_package

SNIPPETS = {
    "values": """
def f(x):
    match x:
        case "a" | "b":
            return 1
        case None:
            return 2
        case int() | float() as number if number > 3:
            return number
        case _:
            return 0
answers = [f(x) for x in ("a", "b", "c", None, 2, 4, 4.5)]
""",
    "sequences": """
def f(x):
    match x:
        case []:
            return "empty"
        case "one", word:
            return word
        case [first, (second, _)]:
            return first, second
        case _, _, last:
            return last
        case other:
            return other
answers = [f(x) for x in ([], ("one", 2), [1, (2, 3)], (1, 2, 3), "one", [4], ("one", None))]
""",
    "classes": """
from bgjob.core.job import Exited, Lost
def f(x):
    match x:
        case Exited(code=0):
            return "fine"
        case Exited(code=code):
            return code
        case Lost(reason=str() as why):
            return why
answers = [f(Exited(1.0, 1.0, 0, 0, code=0)), f(Exited(1.0, 1.0, 0, 0, code=3)), f(Lost("x")), f(None)]
""",
    "nested": """
def f(x, y):
    match x:
        case 1:
            match y:
                case 1:
                    return "both"
            return "x"
    return "none"
answers = [f(1, 1), f(1, 2), f(2, 1)]
""",
    "f-strings": r"""
a, w, d = 3.14159, 10, {"k": "v"}
answers = [f"{a}", f"{a!r:>{w}}|{a:.2f}", f"{{{d['k']}}}" f"{'nested'}\n", f"{a:,.0f}{{}}", f"{d=}", f""]
""",
    "unions": """
Number = int | float | None
Pairs = dict[str, int | None]
FLAGS = 1 | 2
answers = [isinstance(x, int | str) for x in (1, "x", 2.0)] + [FLAGS, issubclass(bool, int | str)]
""",
    "library": """
from itertools import chain, pairwise
from datetime import UTC, datetime
import re, itertools
found = re.search("(a*+)b", "aab")
answers = [list(pairwise("abc")), list(chain("a", "b")), datetime.fromtimestamp(0, UTC).year, found[1],
           list(zip("ab", "cd", strict=True)), list(itertools.pairwise([1, 2]))]
""",
    "docstring": '''
"""Its docstring."""
from __future__ import annotations
def f(x: Unknown | Type) -> None: ...
answers = [__doc__]
''',
}


@pytest.mark.parametrize("name", SNIPPETS)
def test_it_answers_the_same(name: str) -> None:
    text = SNIPPETS[name].strip() + "\n"
    assert run(lowered(text).replace("bgjob.stand_ins", "bgjob.remote.stand_ins")) == run(text)


def run(text: str) -> Any:
    names: dict[str, Any] = {"__name__": "lowered"}
    exec(compile(text, "lowered", "exec"), names)
    return names["answers"]


def test_nothing_is_left_that_an_older_interpreter_cannot_read() -> None:
    package = lowered_package(dict(sources()))
    for name, data in package.items():
        tree = ast.parse(data, name, feature_version=(3, 9))
        left = [each for each in ast.walk(tree) if isinstance(each, ast.Match | ast.TryStar)]
        assert left == []
    assert {name for name in package if name.startswith("bgjob/stand_ins/")}


@pytest.mark.parametrize(
    "text", ["match x:\n    case {}:\n        pass", "match x:\n    case [*_]:\n        pass"]
)
def test_what_it_has_no_rule_for_is_refused_when_it_is_built(text: str) -> None:
    with pytest.raises(ValueError, match="Match"):
        lowered(text)

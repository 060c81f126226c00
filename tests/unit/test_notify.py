from typing import Any

import pytest

from bgjob.core.errors import InvalidArgument
from bgjob.core.notify import NotifyRule, kinds_of
from bgjob.core.options import checked

GOOD: list[tuple[object, dict[str, list[str]]]] = [
    ("off", {}),
    ("desktop", {"desktop": []}),
    (" desktop , bell ", {"desktop": [], "bell": []}),
    ("webhook:end", {"webhook": ["end"]}),
    ("webhook:question+failure,bell", {"webhook": ["failure", "question"], "bell": []}),
    (["desktop", "webhook:end"], {"desktop": [], "webhook": ["end"]}),
]
BAD = [
    "",
    "on",
    "email",
    "desktop,",
    "off,desktop",
    "webhook:",
    "webhook:start",
    "webhook:https://x.org/",
    7,
    [],
    {},
]


@pytest.mark.parametrize(("value", "kept"), GOOD)
def test_what_a_job_chooses(value: object, kept: dict[str, list[str]]) -> None:
    assert checked({"notify": value}) == {"notify": kept}


@pytest.mark.parametrize("value", BAD, ids=repr)
def test_a_bad_choice_is_refused_with_what_is_accepted(value: object) -> None:
    with pytest.raises(InvalidArgument, match=r"notify=.* is not valid\. Accepted: off, or some of desktop"):
        checked({"notify": value})


EVENTS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"kind": "input"}, ("question",)),
    ({"kind": "ended", "cause": "exited", "exit_code": 0}, ("end",)),
    ({"kind": "ended", "cause": "exited", "exit_code": 2}, ("failure", "end")),
    ({"kind": "ended", "cause": "killed", "exit_code": 0}, ("failure", "end")),
    ({"kind": "ended", "cause": "lost"}, ("failure", "end")),
    ({"kind": "started"}, ()),
    ({"kind": "restarting", "exit_code": 1}, ()),
]


@pytest.mark.parametrize(("event", "kinds"), EVENTS)
def test_the_kinds_of_an_event(event: dict[str, Any], kinds: tuple[str, ...]) -> None:
    assert kinds_of(event) == kinds


FAILED = {"kind": "ended", "cause": "exited", "exit_code": 1}
COMPLETED = {"kind": "ended", "cause": "exited", "exit_code": 0}


@pytest.mark.parametrize(
    ("rule", "notify", "told"),
    [
        (NotifyRule("bell"), None, ("failure", None)),
        (NotifyRule("bell", kinds=["end"]), None, ("failure", "end")),
        (NotifyRule("bell", kinds=["question"]), None, (None, None)),
        (NotifyRule("bell", named=True), None, (None, None)),
        (NotifyRule("bell", named=True), {"bell": []}, ("failure", None)),
        (NotifyRule("bell"), {"bell": ["end"]}, ("failure", "end")),
        (NotifyRule("bell"), {"desktop": ["end"]}, (None, None)),
        (NotifyRule("bell"), {}, (None, None)),
    ],
)
def test_whether_a_rule_tells_of_a_failed_and_of_a_completed_job(
    rule: NotifyRule, notify: dict[str, list[str]] | None, told: tuple[str | None, str | None]
) -> None:
    assert (rule.kind_told(FAILED, notify), rule.kind_told(COMPLETED, notify)) == told

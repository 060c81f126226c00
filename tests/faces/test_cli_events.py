"""bgjob events: what happened to jobs, in words."""

import json
import re
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bgjob.api import JobEvent, Jobs
from bgjob.api.event_words import what_happened
from bgjob.home import event_log
from tests.faces.command_line import Cli, Ended

A_JOB = "00000000-0000-4000-8000-000000000000"
WHEN = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"


@pytest.fixture
def cli(home: Path) -> Cli:
    return Cli(home)


@pytest.mark.parametrize(
    ("kind", "details", "words"),
    [
        ("started", {"pid": 12}, "started (pid 12)"),
        ("ended", {"cause": "exited", "exit_code": 0, "duration_s": 1.25}, "completed after 1.2 s"),
        ("ended", {"cause": "exited", "exit_code": 3}, "failed with exit code 3"),
        ("ended", {"cause": "signaled", "signal": "SIGKILL"}, "was killed by SIGKILL"),
        ("ended", {"cause": "timed_out", "duration_s": 61.0}, "timed out after 1 min 1 s"),
        ("ended", {"cause": "over_limit", "limit": "cpu"}, "went over its cpu limit"),
        ("ended", {"cause": "never_started", "reason": "no", "duration_s": 0.0}, "did not start: no"),
        ("ended", {"cause": "lost", "reason": "gone"}, "was lost: gone"),
        ("input", {"prompt": "Name:"}, "waits for input: Name:"),
        ("input", {}, "waits for input"),
        ("matched", {"pattern": "a.c", "line": "abc"}, "matched a.c: abc"),
        ("matched", {"pattern": "x", "line": "x", "suppressed": 4}, "matched x: x (and 4 more lines)"),
        ("matched", {"pattern": "x", "suppressed": 4}, "matched x (and 4 more lines)"),
        ("unwatched", {"bytes": 7}, "printed 7 bytes that were not watched"),
        ("queued", {"priority": 0}, "queued"),
        ("queued", {"priority": 3}, "queued with priority 3"),
        ("moved", {"priority": 3}, "has priority 3 now"),
        (
            "restarting",
            {"restart": 2, "exit_code": 1, "in_s": 4.0},
            "restarts (2) after exit code 1 in 4.0 s",
        ),
        (
            "restarting",
            {"restart": 1, "signal": "SIGSEGV", "in_s": 1.0},
            "restarts (1) after SIGSEGV in 1.0 s",
        ),
        ("limit_near", {"limit": "cpu", "used": 9, "of": 10}, "is near its cpu limit: 9 of 10"),
        ("limit_hit", {"limit": "cpu", "used": 11, "of": 10}, "is over its cpu limit: 11 of 10"),
        ("of_tomorrow", {"x": 1, "y": "z"}, "of_tomorrow x=1 y=z"),
    ],
)
def test_each_kind_has_its_words(kind: str, details: dict[str, object], words: str) -> None:
    assert what_happened(JobEvent(0.0, kind, A_JOB, "name", None, details)) == words


def test_a_moment_chooses_what_came_since(cli: Cli, jobs: Jobs, ended: Ended) -> None:
    ended(jobs.execute("true", name="older").id)
    moment = time.time()
    while time.time() < moment + 0.002:  # events have their time in milliseconds
        pass
    ended(jobs.execute("true", name="newer").id)
    since = datetime.fromtimestamp(moment + 0.001, UTC).isoformat()
    assert _names(cli, "--since", since) == ["newer", "newer"]
    assert _names(cli, "--since", "8h") == ["older", "older", "newer", "newer"]
    assert _names(cli, "--since", "2999-01-01") == []


def test_kinds_jobs_and_the_newest_can_be_chosen(cli: Cli, jobs: Jobs, ended: Ended) -> None:
    for name in ("one", "two"):
        ended(jobs.execute("exit 3", name=name).id)
    rows = cli("events", "--kind", "ended").stdout.splitlines()
    for row, name in zip(rows, ("one", "two"), strict=True):
        assert re.fullmatch(rf"{WHEN}  [0-9a-f]{{8}}  {name} +failed with exit code 3 after \d+\.\d s", row)
    assert _names(cli, "--kind", "ended", "--kind", "started", "one") == ["one", "one"]
    newest = cli("events", "-n", "1")
    assert len(newest.stdout.splitlines()) == 1
    assert newest.stderr.startswith("(3 older ones not shown; bgjob events --since ")


def test_a_kind_that_is_none_is_wrong_usage_with_those_that_are(cli: Cli) -> None:
    refused = cli("events", "--kind", "odd")
    assert refused.returncode == 2
    assert "started" in refused.stderr


def test_as_json_each_event_is_an_object(cli: Cli, jobs: Jobs, ended: Ended) -> None:
    job_id = jobs.execute("exit 3", name="it").id
    ended(job_id)
    started, over = map(json.loads, cli("events", "--json").stdout.splitlines())
    assert (started["kind"], started["job_id"], started["name"]) == ("started", job_id, "it")
    assert (over["kind"], over["cause"], over["exit_code"]) == ("ended", "exited", 3)
    assert re.fullmatch(r"[\d-]{10}T[\d:]{8}Z", over["at"])


def test_followed_since_a_moment_it_begins_with_what_there_is(cli: Cli, jobs: Jobs, ended: Ended) -> None:
    ended(jobs.execute("true", name="before").id)
    with cli.begin("events", "-f", "--json", "--since", "1h") as follower:
        assert follower.stdout is not None
        assert [json.loads(follower.stdout.readline())["name"] for _ in "12"] == ["before", "before"]
        jobs.execute("true", name="meanwhile")
        assert [json.loads(follower.stdout.readline())["name"] for _ in "12"] == ["meanwhile", "meanwhile"]
        follower.terminate()


def test_a_line_that_is_no_event_of_ours_hides_none(cli: Cli, home: Path, jobs: Jobs, ended: Ended) -> None:
    ended(jobs.execute("true", name="it").id)
    with (home / "events" / "1").open("a") as log:
        log.write(f'\n{{"at": 1.2.3, "kind": "odd", "job_id": "{A_JOB}"}}\n')
    event_log.append(str(home / "events"), "moved", A_JOB, name="late", priority=1)
    assert _names(cli, "--since", "8h") == ["it", "it", "late"]


def _names(cli: Cli, *options: str) -> list[str]:
    return [json.loads(line)["name"] for line in cli("events", "--json", *options).stdout.splitlines()]

"""A job of a target in every face: where it is, why it waits, and since when it cannot be reached."""

import pytest

from bgjob.api.job_json import job_as_json
from bgjob.api.live import Row
from bgjob.api.results import Executed, JobStatus, Kill, Output, Page, Place, Reading, Waited
from bgjob.api.status_json import status_as_json
from bgjob.cli import columns
from bgjob.cli.status_lines import status_lines
from bgjob.cli.top import rows
from bgjob.core.frozen import replace
from bgjob.core.job import Job, Killed, Queued, Remote, Running
from bgjob.mcp.answers import plain
from bgjob.mcp.listings import Listing
from bgjob.mcp.results import Killing, Read, Started, Status, Waits
from bgjob.web.page.rows import row_fields
from tests.support.stores import new_spec

SINCE = 1_790_000_000.0
WHERE = {"target": "hpc", "node": "n03", "engine_id": "4711"}
SPEC = new_spec(
    1_780_000_000.0,
    "train.sh",
    target="hpc",
    resources={"cpus": 4.0, "memory_bytes": 16 << 30, "time_limit_s": 7200.0, "labels": {"gpu": "a100"}},
)
RUNNING = Job(SPEC, Running(None), None, Remote("hpc", "4711", "n03"))
GONE = replace(RUNNING, remote=Remote("hpc", "4711", "n03", None, SINCE, "ssh: connect: timed out"))
QUEUED = Job(SPEC, Queued(None), None, Remote("hpc", "4711", None, "Resources"))
OUTPUT = Output("", "", "0")
IN_QUEUE = Place(0, "Resources", 0)


def status(job: Job) -> JobStatus:
    return JobStatus(job, 0, 1, place=IN_QUEUE if isinstance(job.state, Queued) else None)


class TestTheAnswersOfTheTools:
    def test_say_where_it_is(self) -> None:
        for answer in (
            plain(Started.of(Executed(RUNNING, False, None))),
            plain(Status.of(status(RUNNING), SPEC.id)),
            plain(Listing.of(Page([RUNNING], None)))["jobs"][0],
            plain(Waits.of([Waited(status(RUNNING), None, OUTPUT)], "any"))["jobs"][0],
        ):
            assert {name: answer[name] for name in WHERE} == WHERE
            assert "unreachable" not in answer

    def test_say_since_when_it_cannot_be_reached(self) -> None:
        told = "since 2026-09-21T14:13:20.000Z: ssh: connect: timed out"
        for answer in (
            plain(Started.of(Executed(GONE, False, None))),
            plain(Status.of(status(GONE), SPEC.id)),
            plain(Listing.of(Page([GONE], None)))["jobs"][0],
            plain(Waits.of([Waited(status(GONE), None, OUTPUT)], "any"))["jobs"][0],
            plain(Read.of(Reading(GONE, OUTPUT, None, None, 0), SPEC.id)),
        ):
            assert (answer["status"], answer["unreachable"]) == ("running", told)

    @pytest.mark.parametrize("place", [IN_QUEUE, None])
    def test_say_why_it_waits_and_no_position_that_is_not_known(self, place: Place | None) -> None:
        places = {SPEC.id: place} if place else {}
        for answer in (
            plain(Started.of(Executed(QUEUED, False, None, place=place))),
            plain(Status.of(JobStatus(QUEUED, 0, 0, place=place), SPEC.id)),
            plain(Listing.of(Page([QUEUED], None, places=places)))["jobs"][0],
        ):
            assert (answer["status"], answer["reason"]) == ("queued", "Resources")
            assert not {"position", "priority", "node"} & answer.keys()

    def test_say_why_its_engine_ended_it(self) -> None:
        why = "Slurm: preempted"
        ended = Job(SPEC, Killed(SINCE, 9.0, 0, 0, None, 15, why), None, RUNNING.remote)
        for answer in (
            plain(Started.of(Executed(ended, False, None))),
            plain(Status.of(status(ended), SPEC.id)),
            plain(Listing.of(Page([ended], None)))["jobs"][0],
            plain(Waits.of([Waited(status(ended), None, OUTPUT)], "any"))["jobs"][0],
            plain(Read.of(Reading(ended, OUTPUT, None, None, 0), SPEC.id)),
            plain(Killing.of(Kill("already_terminated", 0, ended), SPEC.id)),
        ):
            assert (answer["status"], answer["reason"]) in {("killed", why), ("already_terminated", why)}

    def test_of_one_job_have_what_was_asked_for(self) -> None:
        assert plain(Status.of(status(RUNNING), SPEC.id))["resources"] == dict(SPEC.resources)

    def test_about_a_job_of_this_machine_have_none_of_it(self) -> None:
        near = Job(replace(SPEC, target=None, resources={}), Running(None), None)
        answer = plain(Status.of(status(near), SPEC.id))
        assert not {*WHERE, "unreachable", "resources"} & answer.keys()


class TestJson:
    def test_says_where_it_is_and_since_when_it_cannot_be_reached(self) -> None:
        told = job_as_json(GONE)
        assert {name: told[name] for name in WHERE} == WHERE
        assert told["unreachable_since"] == "2026-09-21T14:13:20Z"
        assert told["unreachable"] == "ssh: connect: timed out"
        assert job_as_json(GONE, moment=float)["unreachable_since"] == SINCE

    def test_says_what_was_asked_for_and_why_it_waits(self) -> None:
        told = status_as_json(status(QUEUED))
        assert told["resources"]["cpus"] == 4.0
        assert told["reason"] == "Resources"
        assert not {"position", "priority"} & told.keys()


class TestLinesForAPerson:
    def test_say_where_it_is_and_what_was_asked_for(self) -> None:
        lines = list(status_lines(status(RUNNING), SINCE))
        assert "  target    hpc, on n03, as job 4711 of its engine" in lines
        assert "  asked for cpus=4, memory=16G, time_limit=2h00m, labels=gpu=a100" in lines

    def test_say_why_it_waits(self) -> None:
        assert "  queue     Resources" in list(status_lines(status(QUEUED), SINCE))

    def test_say_that_it_cannot_be_reached(self) -> None:
        text = "\n".join(status_lines(status(GONE), SINCE))
        assert "hpc is unreachable since 2026-" in text
        assert "ssh: connect: timed out. What is told here was so by then" in text

    def test_of_a_list_have_its_target_only_if_one_has_one(self) -> None:
        near = Job(replace(SPEC, target=None), Running(None), None)
        for room in (None, 200):
            head, *_ = columns.lines([status(RUNNING), status(near)], SINCE, room)
            assert "TARGET" in head
            head, *_ = columns.lines([status(near)], SINCE, room)
            assert "TARGET" not in head

    def test_of_the_live_view_begin_with_it(self) -> None:
        assert rows._what(Row(RUNNING, "running"), 40) == "@hpc train.sh"
        assert rows._what(Row(GONE, "running"), 40).startswith("hpc is unreachable since ")


class TestTheRowOfThePage:
    def test_says_where_it_is_and_since_when_it_cannot_be_reached(self) -> None:
        row = row_fields(Row(GONE, "running"))
        assert {name: row[name] for name in WHERE} == WHERE
        assert row["unreachable"] == {"since": SINCE, "why": "ssh: connect: timed out"}

    def test_of_a_job_of_this_machine_has_none_of_it(self) -> None:
        near = Job(replace(SPEC, target=None), Running(None), None)
        assert not {*WHERE, "unreachable"} & row_fields(Row(near, "running")).keys()

"""The list of a page: each version is told what has changed since, and no more."""

import json
from typing import Any

import pytest

from bgjob.api.live import Live, Row
from bgjob.web.page import row_list
from bgjob.web.page.row_list import Changes, RowList, encoded_changes
from bgjob.web.page.samples import MOST_SAMPLES, PART, Sample, Samples
from tests.support.rows import a_row, live


def names(changes: Changes) -> list[str]:
    return [json.loads(row)["name"] for row in changes.rows]


def changed(row: Row, **more: Any) -> Row:
    return Row(**{**vars(row), **more})


class TestTheList:
    def test_before_anything_is_read_it_has_not_begun(self) -> None:
        rows = RowList()
        begun = [rows.is_begun]
        rows.update(Live())
        assert [*begun, rows.is_begun] == [False, True]
        assert not rows.since(None).complete

    def test_only_what_changed_is_told_and_the_last_change_last(self) -> None:
        rows, one, two, three = RowList(), a_row("one"), a_row("two"), a_row("three", "ended")
        rows.update(live(one, two, three))
        first = rows.since(None)
        assert (names(first), first.whole, first.complete) == (["one", "two", "three"], True, True)
        assert names(rows.since(first.version)) == []
        rows.update(live(changed(one, prompt="Go?"), changed(two), three))
        second = rows.since(first.version)
        assert (names(second), second.whole) == (["one"], False)
        assert names(rows.since(None)) == ["two", "three", "one"]

    def test_what_the_page_does_not_show_is_no_change(self) -> None:
        rows, one = RowList(), a_row("one")
        rows.update(live(one))
        version = rows.since(None).version
        rows.update(live(changed(one, cpu_percent=50.0, memory_bytes=5, cpu_history=(50.0,))))
        assert rows.since(version).version == version

    def test_a_removed_job_is_told_to_who_may_have_known_it(self) -> None:
        rows, one, two = RowList(), a_row("one"), a_row("two", "ended")
        rows.update(live(one, two))
        version = rows.since(None).version
        rows.update(live(one))
        assert rows.since(version).removed == [two.job.id]
        assert rows.since(None).removed == []
        rows.update(live(one, two))
        again = rows.since(version)
        assert (names(again), again.removed) == (["two"], [])

    def test_a_job_that_ends_stays_one_row(self) -> None:
        rows, one = RowList(), a_row("one")
        rows.update(live(one))
        version = rows.since(None).version
        ended = changed(a_row("one", "ended"), job=one.job)
        rows.update(live(ended))
        told = rows.since(version)
        assert (len(told.rows), told.removed) == (1, [])
        assert json.loads(told.rows[0])["group"] == "ended"

    def test_many_are_told_in_parts(self) -> None:
        rows = RowList()
        rows.update(live(*(a_row(str(number)) for number in range(10))))
        seen, version, parts = list[str](), None, list[bool]()
        while not parts or not parts[-1]:
            part = rows.since(version, most=4)
            seen, version = [*seen, *names(part)], part.version
            parts.append(part.complete)
        assert (seen, parts) == ([str(number) for number in range(10)], [False, False, True])

    def test_who_knew_too_many_that_are_gone_is_told_all(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(row_list, "MOST_REMOVED", 2)
        rows, jobs = RowList(), [a_row(str(number), "ended") for number in range(5)]
        rows.update(live(*jobs))
        before = rows.since(None)
        rows.update(live(*jobs[:3]))
        two_gone = rows.since(before.version)
        assert (len(two_gone.removed), two_gone.whole) == (2, False)
        rows.update(live(*jobs[:1]))
        assert rows.since(before.version).whole
        assert rows.version_at(rows.position(before.version)) is None
        assert not rows.since(two_gone.version).whole
        assert len(rows.since(two_gone.version).removed) == 2

    @pytest.mark.parametrize(
        "position", ["", ".", "x.1", "1", "{}.x", "{}.-1", "{}.99", "{}.1.1", "{}.\u00b2"]
    )
    def test_a_position_that_is_none_is_not_known(self, position: str) -> None:
        rows = RowList()
        rows.update(live(a_row("one")))
        name = rows.position(0).partition(".")[0]
        assert rows.version_at(position.format(name)) is None
        assert rows.version_at(f"{name}.1") == 1
        assert rows.version_at(RowList().position(1)) is None

    def test_its_message_is_json_on_one_line(self) -> None:
        rows = RowList()
        rows.update(Live((a_row("one"),), problem="no\nroom\x1b[2J"))
        encoded = encoded_changes(rows.since(None), "x.1")
        told = json.loads(encoded)
        assert b"\n" not in encoded
        assert (told["position"], told["whole"], told["complete"], len(told["rows"])) == (
            "x.1",
            True,
            False,
            1,
        )
        assert "\x1b" not in told["problem"]


def all_of(samples: Samples, after: float = 0.0) -> dict[str, list[Sample]]:
    parts = samples.history(after)
    joined = {job_id: own for part in parts for job_id, own in part.items()}
    assert len(joined) == sum(map(len, parts))
    return joined


class TestSamples:
    def test_the_last_ten_minutes_of_those_that_run_are_kept(self) -> None:
        samples, one = Samples(), a_row("one", cpu_percent=12.34, memory_bytes=5)
        queued, unknown = a_row("queued", "queued"), a_row("new")
        for second in range(1, MOST_SAMPLES + 10):
            samples.update(Live((one, queued, unknown), looked_at=float(second)))
        assert samples.latest()["jobs"] == {one.job.id: (12.3, 5), unknown.job.id: (None, None)}
        history = all_of(samples)[one.job.id]
        assert (len(history), history[0][0], history[-1]) == (MOST_SAMPLES, 10.0, (609.0, 12.3, 5))
        assert all_of(samples, after=607.0)[one.job.id] == [(608.0, 12.3, 5), (609.0, 12.3, 5)]
        samples.update(Live((unknown,), looked_at=1000.0))
        assert all_of(samples).keys() == {unknown.job.id}

    def test_without_a_new_look_there_is_no_new_sample(self) -> None:
        samples, one = Samples(), a_row("one", memory_bytes=5)
        for memory_bytes in (5, 6):
            samples.update(Live((changed(one, memory_bytes=memory_bytes),), looked_at=7.0))
        assert all_of(samples) == {one.job.id: [(7.0, None, 5)]}

    def test_of_very_many_jobs_fewer_are_sent(self) -> None:
        samples, rows = Samples(), tuple(a_row(str(number)) for number in range(300))
        for second in range(1, 301):
            samples.update(Live(rows, looked_at=float(second)))
        assert max(sum(map(len, part.values())) for part in samples.history()) < PART + MOST_SAMPLES
        sent = all_of(samples)
        assert {len(own) for own in sent.values()} == {200}
        assert next(iter(sent.values()))[-1][0] == 300.0

"""The model of a live view on a real store: what runs is looked at again, what has ended is read once."""

import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

from bgjob.api import Jobs, JobStatus
from bgjob.api.attach import Attachment
from bgjob.api.live import Live, LiveJobs, Row
from bgjob.api.live_reader import LiveReader
from bgjob.api.preview import Preview, preview
from bgjob.api.preview_reader import PreviewReader, Wish
from bgjob.api.snapshot import Snapshot
from bgjob.core.errors import StoreUnusable
from bgjob.store.store import Store
from tests.support.gate import Gate
from tests.support.stores import ended_job, jobs_on, running_job
from tests.support.waiting import wait_until

Ended = Callable[[str], JobStatus]
NEVER = float("inf")
ENTER = r"\033[?1049h\033[H\033[2J"


def all_read(live: LiveJobs) -> Live:
    assert not live.read_more(NEVER)
    return live.snapshot()


def looked(live: LiveJobs) -> Live:
    live.look()
    return all_read(live)


def row_of(live: Live, job_id: str) -> Row:
    (row,) = [row for row in (*live.current, *live.ended) if row.job.id == job_id]
    return row


class TestEndedJobs:
    def test_they_are_read_newest_first_a_part_at_a_time(self, tmp_path: Path) -> None:
        store = Store(str(tmp_path / "home"))
        ids = [ended_job(store, created_at=1000.0 + number) for number in range(10)]
        live = LiveJobs(jobs_on(store).context)
        for count in range(1, 10):
            assert live.read_more(until=0.0)
            assert [row.job.id for row in live.snapshot().ended] == ids[::-1][:count]
            assert not live.snapshot().is_complete
        found = all_read(live)
        assert [row.job.id for row in found.ended] == ids[::-1]
        assert found.is_complete

    def test_they_are_the_same_object_until_there_are_others(self, tmp_path: Path) -> None:
        store = Store(str(tmp_path / "home"))
        ended_job(store)
        live = LiveJobs(jobs_on(store).context)
        before = all_read(live).ended
        assert looked(live).ended is before
        ended_job(store)
        assert len(looked(live).ended) == 2

    def test_none_is_opened_twice(self, tmp_path: Path) -> None:
        store = Store(str(tmp_path / "home"))
        job_id = ended_job(store)
        live = LiveJobs(jobs_on(Store(store.home)).context)
        assert len(all_read(live).ended) == 1
        Path(store.directory(job_id), "outcome.json").unlink()
        ended_job(store)
        assert row_of(looked(live), job_id).job.state == row_of(live.snapshot(), job_id).job.state
        assert {row.group for row in live.snapshot().ended} == {"ended"}
        assert len(live.snapshot().ended) == 2

    def test_one_that_is_removed_is_gone_at_the_next_look(self, tmp_path: Path) -> None:
        store = Store(str(tmp_path / "home"))
        job_id, other = ended_job(store), ended_job(store)
        live = LiveJobs(jobs_on(store).context)
        all_read(live)
        shutil.rmtree(store.directory(job_id))
        assert [row.job.id for row in looked(live).ended] == [other]

    def test_one_that_came_and_went_between_two_looks_is_gone(self, tmp_path: Path) -> None:
        store = Store(str(tmp_path / "home"))
        other = ended_job(store)
        live = LiveJobs(jobs_on(store).context)
        all_read(live)
        job_id = ended_job(store)
        live.look_at([job_id])
        assert {row.job.id for row in live.snapshot().ended} == {job_id, other}
        shutil.rmtree(store.directory(job_id))
        assert [row.job.id for row in looked(live).ended] == [other]


class TestJobsThatAreNotOver:
    def test_a_new_one_is_found_and_its_end_too(self, jobs: Jobs, gate: Gate) -> None:
        live = LiveJobs(jobs.context)
        assert all_read(live) == Live(is_complete=True)
        job_id = jobs.execute(gate.pause).id
        gate.wait_until_reached()
        assert row_of(looked(live), job_id).group == "running"
        gate.open()
        wait_until(lambda: row_of(looked(live), job_id).group == "ended")
        assert looked(live).current == ()

    def test_one_to_which_something_happened_is_looked_at_alone(self, jobs: Jobs, gate: Gate) -> None:
        live = LiveJobs(jobs.context)
        all_read(live)
        job_id, other = jobs.execute(gate.pause).id, jobs.execute("sleep 1000").id
        gate.wait_until_reached()
        live.look_at([job_id, job_id, "00000000-0000-4000-8000-000000000000"])
        assert [row.job.id for row in live.snapshot().current] == [job_id]
        assert live.snapshot().looked_at == 0.0
        gate.open()

        def is_over() -> bool:
            live.look_at([job_id])
            return live.snapshot().current == ()

        wait_until(is_over)
        assert row_of(live.snapshot(), job_id).phase == "ended"
        assert row_of(looked(live), other).phase == "running"
        assert live.snapshot().looked_at > 0

    def test_it_tells_what_it_has_printed_and_who_holds_it(self, jobs: Jobs) -> None:
        job = jobs.execute("printf 12345; exec cat", pty=True)
        jobs.wait_for([job.id], for_input=True)
        live = LiveJobs(jobs.context)
        row = row_of(all_read(live), job.id)
        assert (row.output_bytes, row.held) == (5, None)
        with closing(Attachment(jobs.context, job, "ann")) as attachment:
            attachment.take_over()
            wait_until(lambda: row_of(looked(live), job.id).held is not None)
            held = row_of(live.snapshot(), job.id).held
            assert held is not None
            assert held.by == "ann"
        wait_until(lambda: row_of(looked(live), job.id).held is None)

    def test_one_at_a_prompt_asks(self, jobs: Jobs) -> None:
        job_id = jobs.execute("printf 'Go on? '; read answer").id
        live = LiveJobs(jobs.context)
        all_read(live)
        wait_until(lambda: row_of(looked(live), job_id).group == "asking")
        assert row_of(live.snapshot(), job_id).prompt == "Go on?"

    def test_a_queued_one_says_why(self, jobs: Jobs) -> None:
        job_id = jobs.execute("true", queue=True, options={"delay_s": 1000}).id
        live = LiveJobs(jobs.context)
        all_read(live)
        row = row_of(looked(live), job_id)
        assert row.group == "queued"
        assert row.reason is not None
        assert "it is to start in" in row.reason

    def test_it_is_measured_from_look_to_look(self, jobs: Jobs) -> None:
        job_id = jobs.execute("while :; do :; done").id
        live = LiveJobs(jobs.context)
        all_read(live)
        wait_until(lambda: (row_of(looked(live), job_id).cpu_percent or 0) > 0, every_s=0.05)
        row = row_of(live.snapshot(), job_id)
        assert (row.memory_bytes or 0) > 0
        assert len(row.memory_history) > len(row.cpu_history) > 0
        assert row.cpu_history[-1] == row.cpu_percent

    def test_its_ports_are_told(self, jobs: Jobs) -> None:
        program = (
            "import socket; server = socket.socket(); server.bind(('127.0.0.1', 0)); server.listen(); "
            "print(server.getsockname()[1], flush=True); input()"
        )
        job_id = jobs.execute(f'{sys.executable} -c "{program}"').id
        wait_until(lambda: jobs.tail(job_id).stdout != "")
        live = LiveJobs(jobs.context)
        assert row_of(all_read(live), job_id).ports == (int(jobs.tail(job_id).stdout),)

    def test_what_an_ended_one_left_running_counts(self, jobs: Jobs, ended: Ended) -> None:
        job_id = jobs.execute("sleep 1000 & exit 3").id
        wait_until(lambda: jobs.status(job_id).left_running == 1)
        live = LiveJobs(jobs.context)
        row = row_of(all_read(live), job_id)
        assert (row.group, row.left_running) == ("running", 1)
        jobs.kill(job_id)
        row = row_of(looked(live), job_id)
        assert (row.group, row.left_running) == ("ended", 0)


def test_a_home_that_is_gone_is_an_error_and_what_was_known_stays(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "home"))
    job_id = ended_job(store)
    live = LiveJobs(jobs_on(store).context)
    all_read(live)
    shutil.rmtree(store.home)
    with pytest.raises(StoreUnusable, match="is gone"):
        live.look()
    assert row_of(live.snapshot(), job_id).group == "ended"
    again = ended_job(Store(store.home))
    assert [row.job.id for row in looked(live).ended] == [again]


def tell() -> None:
    """Who would be told looks for itself here."""


@contextmanager
def reading(reader: LiveReader | PreviewReader) -> Iterator[None]:
    reader.start()
    try:
        yield
    finally:
        reader.close()


class TestTheReaderOfJobs:
    def test_it_follows_what_happens_until_it_is_closed(self, jobs: Jobs, gate: Gate) -> None:
        reader = LiveReader(jobs.context, tell)
        with reading(reader):
            job_id = jobs.execute(gate.pause).id
            gate.wait_until_reached()
            wait_until(lambda: [row.job.id for row in reader.latest.current] == [job_id])
            gate.open()
            wait_until(lambda: [row.job.id for row in reader.latest.ended] == [job_id])
        wait_until(lambda: "live jobs" not in {thread.name for thread in threading.enumerate()})

    def test_it_tells_of_a_home_that_is_gone_and_goes_on(self, tmp_path: Path) -> None:
        store = Store(str(tmp_path / "home"))
        ended_job(store)
        reader = LiveReader(jobs_on(store).context, tell)
        with reading(reader):
            wait_until(lambda: len(reader.latest.ended) == 1)
            shutil.rmtree(store.home)
            wait_until(lambda: "is gone" in (reader.latest.problem or ""))
            again = ended_job(Store(store.home))
            wait_until(lambda: reader.latest.problem is None)
            wait_until(lambda: [row.job.id for row in reader.latest.ended] == [again])


class TestAPreview:
    def test_it_is_the_last_lines_of_both_streams_in_order(self, jobs: Jobs, ended: Ended) -> None:
        job_id = jobs.execute("for n in 1 2 3; do echo out$n; echo err$n >&2; sleep 0.05; done").id
        ended(job_id)
        shown = self._of(jobs, job_id, 4)
        assert sorted(shown.lines[:2]) == ["err2", "out2"]
        assert sorted(shown.lines[2:]) == ["err3", "out3"]
        assert shown.has_more
        assert not self._of(jobs, job_id, 100).has_more

    def test_a_line_looks_as_it_does_on_a_terminal_in_the_end(self, jobs: Jobs, ended: Ended) -> None:
        job_id = jobs.execute(r"printf ' 10%%\r 50%%\r100%%\n\033[31mred\033[0m\nno newline'").id
        ended(job_id)
        assert self._of(jobs, job_id, 10).lines == ("100%", "red", "no newline")

    def test_of_a_log_that_is_longer_than_is_read_the_lines_are_whole(self, jobs: Jobs, ended: Ended) -> None:
        job_id = jobs.execute("seq -f 'line %07g' 20000").id
        ended(job_id)
        shown = self._of(jobs, job_id, 100_000)
        assert shown.lines[-1] == "line 0020000"
        lines = self._of(jobs, job_id, 3).lines
        assert lines == ("line 0019998", "line 0019999", "line 0020000")
        assert all(len(line) == 12 for line in shown.lines)

    def test_a_full_screen_job_shows_its_screen(self, jobs: Jobs) -> None:
        job_id = jobs.execute(rf"printf '{ENTER}\033[3;5Hhere'; read x", pty=True).id
        wait_until(lambda: self._of(jobs, job_id, 10).is_screen)
        wait_until(lambda: "    here" in self._of(jobs, job_id, 10).lines[:3])

    @staticmethod
    def _of(jobs: Jobs, job_id: str, lines: int) -> Preview:
        return preview(jobs.context, Snapshot(jobs.context, job_id), lines)


def lines_of(reader: PreviewReader) -> list[str]:
    return list(reader.latest.lines) if reader.latest else []


class TestTheReaderOfAPreview:
    def test_it_follows_what_the_job_prints(self, jobs: Jobs, gate: Gate) -> None:
        job_id = jobs.execute(f"echo first; {gate.pause}; echo second").id
        reader = PreviewReader(jobs.context, tell)
        with reading(reader):
            reader.show(Wish(job_id, 10))
            wait_until(lambda: lines_of(reader) == ["first"])
            gate.wait_until_reached()
            gate.open()
            wait_until(lambda: lines_of(reader) == ["first", "second"])
        wait_until(lambda: "preview" not in {thread.name for thread in threading.enumerate()})

    def test_who_does_not_follow_sees_it_as_it_was(self, jobs: Jobs, gate: Gate, ended: Ended) -> None:
        job_id = jobs.execute(f"echo first; {gate.pause}; echo second").id
        gate.wait_until_reached()
        wait_until(lambda: jobs.tail(job_id).stdout == "first\n")
        reader, wish = PreviewReader(jobs.context, tell), Wish(job_id, 10, follows=False)
        mark = reader._read(wish, None)
        gate.open()
        ended(job_id)
        assert reader._read(wish, mark) == mark
        assert lines_of(reader) == ["first"]
        assert reader._read(Wish(job_id, 10), mark) != mark
        assert lines_of(reader) == ["first", "second"]

    def test_another_wish_is_read_at_once(self, jobs: Jobs, ended: Ended) -> None:
        ids = [jobs.execute(f"echo {number}").id for number in range(5)]
        for job_id in ids:
            ended(job_id)
        reader = PreviewReader(jobs.context, tell)

        def is_shown(job_id: str) -> bool:
            return reader.latest is not None and reader.latest.job_id == job_id

        with reading(reader):
            for number, job_id in enumerate(ids):
                reader.show(Wish(job_id, 10))
                wait_until(partial(is_shown, job_id))
                assert lines_of(reader) == [str(number)]

    def test_a_job_that_is_removed_is_said_to_be(self, tmp_path: Path) -> None:
        store = Store(str(tmp_path / "home"))
        new = running_job(store)
        reader = PreviewReader(jobs_on(store).context, tell)
        with reading(reader):
            reader.show(Wish(Path(new.directory).name, 10))
            wait_until(lambda: reader.latest is not None)
            shutil.rmtree(new.directory)
            wait_until(lambda: reader.latest is not None and "not found" in (reader.latest.problem or ""))
        os.close(new.lock)

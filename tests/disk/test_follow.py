"""Following what jobs print: from any place on, several at once, until they have ended or the caller has enough."""

import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing

import pytest

from bgjob.api import Cancellation, Jobs, JobStatus
from bgjob.api.follow import Begin, follow_jobs, places_of
from bgjob.core.errors import InvalidArgument
from bgjob.home.log_format import STDERR, STDOUT
from tests.support.gate import Gate
from tests.support.waiting import wait_until

Ended = Callable[[str], JobStatus]


def test_it_begins_at_a_cursor(jobs: Jobs, gate: Gate) -> None:
    job = jobs.execute(f"printf before; {gate.pause}; printf ' after'")
    gate.wait_until_reached()
    wait_until(lambda: jobs.log(job.id).end == 6)
    chunks = jobs.follow(job.id, wait=True, since="3")
    assert next(chunks).data == b"ore"
    gate.open()
    assert b"".join(chunk.data for chunk in chunks) == b" after"


def test_what_is_no_cursor_is_an_error(jobs: Jobs) -> None:
    job = jobs.execute("true")
    with pytest.raises(InvalidArgument, match="since='soon' is not a cursor"):
        list(jobs.follow(job.id, wait=False, since="soon"))


def test_it_can_be_cancelled_while_nothing_comes(jobs: Jobs) -> None:
    job = jobs.execute("printf ready; exec cat")
    with closing(Cancellation()) as cancellation:
        seen, is_ready = list[bytes](), threading.Event()

        def follow() -> None:
            for chunk in jobs.follow(job.id, wait=True, cancellation=cancellation):
                seen.append(chunk.data)
                is_ready.set()

        follower = threading.Thread(target=follow)
        follower.start()
        assert is_ready.wait(30)
        cancellation.cancel()
        follower.join(30)
        assert not follower.is_alive()
    assert seen == [b"ready"]
    assert jobs.kill(job.id, grace_s=0).status == "killed"


def test_it_can_be_cancelled_while_much_comes(jobs: Jobs) -> None:
    job = jobs.execute("yes")
    with closing(Cancellation()) as cancellation:
        chunks = jobs.follow(job.id, wait=True, cancellation=cancellation)
        next(chunks)
        cancellation.cancel()
        assert sum(len(chunk.data) for chunk in chunks) < 1 << 26
    assert jobs.kill(job.id, grace_s=0).status == "killed"


def test_several_jobs_are_followed_at_once_and_each_end_is_told(jobs: Jobs, gate: Gate) -> None:
    slow, quick = jobs.execute(f"echo slow; {gate.pause}; echo end"), jobs.execute("echo quick")
    places = {job.id: places_of(jobs.context, job.id, Begin()) for job in (slow, quick)}
    followed, printed, ends = follow_jobs(jobs.context, places, wait=True), defaultdict[str, bytes](bytes), []
    for job_id, chunk in followed:
        if chunk:
            printed[job_id] += chunk.data
            continue
        ends.append(job_id)
        if job_id == quick.id:  # while the other one is still there
            gate.wait_until_reached()
            gate.open()
    assert printed == {slow.id: b"slow\nend\n", quick.id: b"quick\n"}
    assert ends == [quick.id, slow.id]


def test_only_the_streams_that_are_wanted(jobs: Jobs, ended: Ended) -> None:
    job = jobs.execute("echo out; echo err >&2; echo out")
    ended(job.id)
    for stream, printed in ((STDOUT, b"out\nout\n"), (STDERR, b"err\n")):
        places = {job.id: places_of(jobs.context, job.id, Begin(streams=(stream,)))}
        chunks = [chunk for _, chunk in follow_jobs(jobs.context, places, wait=False) if chunk]
        assert b"".join(chunk.data for chunk in chunks) == printed
        assert all(chunk.time_us for chunk in chunks)

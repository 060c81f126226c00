"""Waiting: one call for whatever a caller can name; patterns run here, on RE2."""

import threading
import time

import pytest

from bgjob.api import Cancellation
from bgjob.core.errors import InvalidArgument
from tests.clusters.target import Target
from tests.support.gate import Gate

SERVER_ON_A_PORT = (
    "import http.server\n"
    "server = http.server.HTTPServer(('127.0.0.1', 0), http.server.BaseHTTPRequestHandler)\n"
    "print('serving on', server.server_port, flush=True); server.serve_forever()"
)


def test_the_end_is_waited_for_and_brings_the_output(target: Target, gate: Gate) -> None:
    job_id = target.start(f"echo before; {gate.pause}; echo after; exit 3")
    gate.wait_until_reached()
    target.wait_until_printed(job_id, "before")
    cursor = target.jobs.output(job_id).cursor
    threading.Thread(target=gate.open).start()
    waited = target.wait(job_id, since=cursor)
    assert waited.came
    assert (waited.came.condition, waited.output.stdout) == ("exit", "after\n")
    assert getattr(waited.status.job.state, "code", None) == 3


def test_a_pattern_is_found_in_what_comes_and_in_what_was_there(target: Target, gate: Gate) -> None:
    job_id = target.start(f"echo starting; {gate.pause}; echo 'server ready in 12 ms'; cat")
    gate.wait_until_reached()
    threading.Thread(target=gate.open).start()
    first = target.wait(job_id, pattern=r"ready in \d+ ms")
    assert first.came
    assert (first.came.condition, first.came.detail) == ("pattern", "server ready in 12 ms")
    again = target.wait(job_id, pattern="ready")
    assert again.came
    assert again.came.condition == "pattern"


def test_an_evil_pattern_takes_no_time(target: Target) -> None:
    """Where Python's own expressions would take longer than the universe has."""
    job_id = target.start(f"echo {'a' * 5000}b; exec sleep 1000")
    target.wait_until_printed(job_id, "aab")
    began = time.monotonic()
    assert target.wait(job_id, pattern="(a+)+$", timeout_s=1).came is None
    assert target.jobs.search("(a+)+$", job_ids=[job_id]).count == 0
    assert time.monotonic() - began < 60
    with pytest.raises(InvalidArgument):
        target.wait(job_id, pattern=r"(a)\1")


def test_a_stop_pattern_ends_the_wait(target: Target) -> None:
    job_id = target.start("echo 'error: no such module'; cat")
    waited = target.wait(job_id, pattern="ready", stop_pattern="^error")
    assert waited.came
    assert (waited.came.condition, waited.came.detail) == ("stop_pattern", "error: no such module")


def test_a_port_that_the_job_opens_is_seen(target: Target) -> None:
    done = target.jobs.run(
        f'exec python3 -c "{SERVER_ON_A_PORT}"', until={"port": 0}, wait_s=30, **target.where
    )
    assert done.waited
    assert done.waited.came
    target.wait_until_printed(done.job.id, "serving on")
    port = target.jobs.output(done.job.id).stdout.split()[-1]
    assert (done.waited.came.condition, done.waited.came.detail) == ("port", port)
    assert target.wait(done.job.id, port=int(port)).came


def test_silence_is_waited_for(target: Target) -> None:
    job_id = target.start("echo talking; exec sleep 1000")
    target.wait_until_printed(job_id, "talking")
    waited = target.wait(job_id, silence_s=0.5)
    assert waited.came
    assert (waited.came.condition, waited.output.stdout) == ("silence", "talking\n")


def test_the_first_of_several_ends_the_wait_or_the_last(target: Target, gate: Gate) -> None:
    slow, quick = target.start(f"{gate.pause}; exit 2"), target.start("exit 1")
    gate.wait_until_reached()
    any_of_them = target.jobs.wait_for([slow, quick], mode="any", timeout_s=30)
    assert [each.came is not None for each in any_of_them] == [False, True]
    threading.Thread(target=gate.open).start()
    all_of_them = target.jobs.wait_for([slow, quick], mode="all", timeout_s=30)
    assert [getattr(each.status.job.state, "code", None) for each in all_of_them] == [2, 1]


def test_a_wait_that_is_given_up_leaves_the_job_alone(target: Target) -> None:
    job_id = target.start("cat")
    cancellation = Cancellation()
    threading.Thread(target=cancellation.cancel).start()
    (waited,) = target.jobs.wait_for([job_id], pattern="never", timeout_s=30, cancellation=cancellation)
    cancellation.close()
    assert waited.came is None
    assert target.jobs.status(job_id).descendants == 1

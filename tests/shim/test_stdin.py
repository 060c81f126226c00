"""A job's stdin: any number may feed it, one after the other, and it may close at any time; what was taken is said."""

import contextlib
import hashlib
import json
import os
import signal
import threading
from collections.abc import Callable

import pytest

from bgjob.api import Jobs, JobStatus, Typed
from bgjob.core.errors import InvalidArgument, StdinIsNull
from bgjob.core.job import Exited
from bgjob.link.control import NoShim
from tests.support.gate import Gate
from tests.support.requires import linux_only
from tests.support.shims import Caller, ask, directory, is_alive_and_well, shim_pid
from tests.support.waiting import wait_until

Ended = Callable[[str], JobStatus]
PIPE_BYTES = 65_536


def feed(jobs: Jobs, job_id: str, data: bytes, wait_s: float = 10, close: bool = False) -> int:
    answer = ask(jobs, job_id, data, op="stdin", length=len(data), wait_s=wait_s, close=close)
    assert answer["ok"], answer
    return int(answer["accepted"])


def test_many_feeders_at_once_are_never_mixed_and_never_lost(jobs: Jobs, ended: Ended) -> None:
    job_id = jobs.execute("cat").id
    lines = [bytes([97 + number]) * 999 + b"\n" for number in range(20)]
    threads = [threading.Thread(target=feed, args=(jobs, job_id, line * 100)) for line in lines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    feed(jobs, job_id, b"", close=True)
    ended(job_id)
    printed = b"".join(chunk.data for chunk in jobs.follow(job_id, wait=False))
    blocks = [printed[start : start + 100_000] for start in range(0, len(printed), 100_000)]
    assert sorted(blocks) == [line * 100 for line in lines]


def test_a_feed_larger_than_any_buffer_arrives_whole(jobs: Jobs, ended: Ended) -> None:
    job_id = jobs.execute("md5sum").id
    data = bytes(range(256)) * 40_000
    assert feed(jobs, job_id, data, close=True, wait_s=30) == len(data)
    ended(job_id)
    assert jobs.output(job_id).stdout.split()[0] == hashlib.md5(data).hexdigest()


def test_a_feed_that_is_not_read_is_answered_in_time_with_what_was_taken(jobs: Jobs) -> None:
    job_id = jobs.execute("sleep 1000").id
    answer = ask(jobs, job_id, b"x" * 200_000, op="stdin", length=200_000, wait_s=3)
    taken = answer["accepted"]
    assert (answer["ok"], answer["unread"]) == (True, taken)
    assert 60_000 < taken <= PIPE_BYTES
    answer = ask(jobs, job_id, b"more" * 1000, op="stdin", length=4000, wait_s=0)
    assert (answer["accepted"], answer["unread"]) == (0, taken)


def test_what_was_not_taken_never_comes_later(jobs: Jobs, gate: Gate, ended: Ended) -> None:
    job_id = jobs.execute(f"{gate.pause}; wc -c").id
    gate.wait_until_reached()
    taken = ask(jobs, job_id, b"x" * 200_000, op="stdin", length=200_000, wait_s=0.1)["accepted"]
    gate.open()
    feed(jobs, job_id, b"end", close=True)
    ended(job_id)
    assert int(jobs.output(job_id).stdout) == taken + 3


def test_a_feeder_that_waits_its_turn_is_answered_in_its_own_time(jobs: Jobs) -> None:
    job_id = jobs.execute("sleep 1000").id
    first = Caller(jobs, job_id)
    first.request(op="stdin", length=100_000, wait_s=1000)
    first.say(b"x" * 100_000)
    assert ask(jobs, job_id, b"late", op="stdin", length=4, wait_s=0.1)["accepted"] == 0
    assert not first.has_answer()
    first.close()


def test_a_slow_feeder_does_not_hold_up_the_next_for_longer_than_its_own_time(jobs: Jobs) -> None:
    job_id = jobs.execute("cat").id
    slow = Caller(jobs, job_id)
    slow.request(op="stdin", length=100, wait_s=0.3)  # and says nothing more
    assert ask(jobs, job_id, b"next\n", op="stdin", length=5, wait_s=30)["accepted"] == 5
    assert slow.hear()["accepted"] == 0
    slow.close()
    assert ask(jobs, job_id, op="wait", beyond=4)["end"] == 5


def test_the_offset_of_a_feed_is_behind_all_that_was_printed_before(jobs: Jobs, gate: Gate) -> None:
    job_id = jobs.execute(f"seq 1 1000; {gate.reach}; cat").id
    gate.wait_until_reached()
    answer = ask(jobs, job_id, b"x\n", op="stdin", length=2, wait_s=1)
    assert answer["at"] == 3893


def test_end_of_file_is_for_good(jobs: Jobs, gate: Gate, ended: Ended) -> None:
    job_id = jobs.execute(f"cat; {gate.pause}; exit 3").id
    feed(jobs, job_id, b"all of it\n", close=True)
    gate.wait_until_reached()
    answer = ask(jobs, job_id, b"x", op="stdin", length=1, wait_s=5)
    assert (answer["ok"], answer["error"]) == (False, "stdin is closed")
    assert is_alive_and_well(jobs, job_id)
    gate.open()
    assert getattr(ended(job_id).job.state, "code", None) == 3
    assert jobs.output(job_id).stdout == "all of it\n"


def test_those_behind_an_end_of_file_are_told_that_stdin_is_closed(jobs: Jobs) -> None:
    job_id = jobs.execute("sleep 1000").id
    first, closer, behind = (Caller(jobs, job_id) for _ in range(3))
    first.request(op="stdin", length=5, wait_s=1000)
    is_alive_and_well(jobs, job_id)
    closer.request(op="stdin", length=0, close=True, wait_s=1000)
    is_alive_and_well(jobs, job_id)
    behind.request(op="stdin", length=5, wait_s=1000)
    is_alive_and_well(jobs, job_id)
    first.say(b"first")
    assert first.hear()["accepted"] == 5
    assert closer.hear()["ok"] is True
    assert behind.hear()["error"] == "stdin is closed"
    for caller in (first, closer, behind):
        caller.close()


@pytest.mark.parametrize("read_first", [0, 1, 70_000, 131_072])
def test_a_job_that_closes_its_stdin_under_a_write_harms_no_client(
    jobs: Jobs, gate: Gate, ended: Ended, read_first: int
) -> None:
    """The pipe is full, half full or empty when its last reader goes."""
    job_id = jobs.execute(f"head -c {read_first} > /dev/null; exec <&-; {gate.pause}; exit 7").id
    answer = ask(jobs, job_id, b"x" * 1_000_000, op="stdin", length=1_000_000, wait_s=30)
    assert answer["ok"] is False
    assert answer["accepted"] < 1_000_000
    gate.wait_until_reached()
    answer = ask(jobs, job_id, b"x", op="stdin", length=1, wait_s=30)
    assert answer["error"] == "stdin is closed"
    gate.open()
    state = ended(job_id).job.state
    assert isinstance(state, Exited)
    assert state.code == 7
    assert not (directory(jobs, job_id) / "shim-error.txt").exists()


def test_a_job_that_ends_under_a_feed_answers_it(jobs: Jobs, ended: Ended) -> None:
    for _ in range(10):
        job_id = jobs.execute("head -c 70000 > /dev/null; exit 7").id
        caller = Caller(jobs, job_id)
        caller.request(op="stdin", length=1_000_000, wait_s=30)
        with contextlib.suppress(
            BrokenPipeError, ConnectionResetError
        ):  # it has said no before it had it all
            caller.say(b"x" * 1_000_000)
        state = ended(job_id).job.state
        caller.close()
        assert isinstance(state, Exited)
        assert state.code == 7


class TestNull:
    def test_a_job_with_null_stdin_reads_nothing_and_ends(self, jobs: Jobs, ended: Ended) -> None:
        job_id = jobs.execute("readlink /proc/self/fd/0; cat; echo read", stdin="null").id
        ended(job_id)
        assert jobs.output(job_id).stdout == "/dev/null\nread\n"

    def test_it_cannot_be_typed_into_and_says_how_it_can(self, jobs: Jobs) -> None:
        job_id = jobs.execute("sleep 1000", stdin="null").id
        with pytest.raises(StdinIsNull, match=r"stdin='open'.*pty=true"):
            jobs.interact(job_id, Typed("x"))
        assert ask(jobs, job_id, b"x", op="stdin", length=1, wait_s=5)["error"] == "stdin is closed"
        assert is_alive_and_well(jobs, job_id)

    def test_every_run_of_it_has_null_stdin(self, jobs: Jobs, gate: Gate, ended: Ended) -> None:
        command = f"cat; readlink /proc/self/fd/0; {gate.pause}; exit 3"
        restart = {"restart": "on-failure", "max_restarts": 1, "backoff_s": 0.01}
        job_id = jobs.execute(command, stdin="null", options=restart).id
        for _ in range(2):
            gate.wait_until_reached()
            with pytest.raises(StdinIsNull):
                jobs.interact(job_id, Typed("x"))
            gate.open()
        ended(job_id)
        assert jobs.output(job_id).stdout == "/dev/null\n" * 2

    @linux_only
    @pytest.mark.parametrize("restart", ["no", "on-failure"])
    def test_a_guard_that_takes_over_gives_it_none(
        self, jobs: Jobs, gate: Gate, ended: Ended, restart: str
    ) -> None:
        job_id = jobs.execute(f"{gate.pause}; cat; exit 7", stdin="null", options={"restart": restart}).id
        gate.wait_until_reached()
        os.kill(shim_pid(jobs, job_id), signal.SIGKILL)
        wait_until(lambda: ask_in_vain(jobs, job_id) == "stdin is closed")
        assert not (directory(jobs, job_id) / "shim-error.txt").exists()
        jobs.kill(job_id, grace_s=0)

    def test_a_spec_without_the_word_means_open(self, jobs: Jobs) -> None:
        job_id = jobs.execute("cat").id
        path = directory(jobs, job_id) / "spec.json"
        spec = json.loads(path.read_text())
        assert spec.pop("stdin") == "open"
        path.write_text(json.dumps(spec))
        assert jobs.status(job_id).job.spec.stdin == "open"
        assert jobs.interact(job_id, Typed("hello"), wait_s=20).output.stdout == "hello\n"

    def test_a_terminal_is_no_null_stdin(self, jobs: Jobs) -> None:
        with pytest.raises(InvalidArgument, match="stdin='null' does not go with pty=true"):
            jobs.execute("true", stdin="null", pty=True)

    def test_another_word_is_a_clear_error(self, jobs: Jobs) -> None:
        with pytest.raises(InvalidArgument, match=r"stdin='shut' is not known\. Accepted: open, null"):
            jobs.execute("true", stdin="shut")  # type: ignore[arg-type]


def ask_in_vain(jobs: Jobs, job_id: str) -> str | None:
    """Why nothing can be written to its stdin; None while its guard takes over."""
    with contextlib.suppress(NoShim):
        return str(ask(jobs, job_id, b"x", op="stdin", length=1, wait_s=5)["error"])
    return None

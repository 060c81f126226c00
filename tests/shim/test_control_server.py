"""The shim's socket: whatever comes in, from however many, the shim lives and the others are served."""

import contextlib
import json
import resource
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bgjob.api import Jobs, JobStatus
from bgjob.core.job import Exited
from bgjob.shim.control_server import MOST_IDLE
from tests.support.gate import Gate
from tests.support.process_table import cpu_s
from tests.support.requires import linux_only
from tests.support.shims import Caller, ask, directory, is_alive_and_well, shim_pid, stopped
from tests.support.waiting import wait_until

Ended = Callable[[str], JobStatus]
STATUS = b'{"op": "status"}\n'


@pytest.fixture
def job_id(jobs: Jobs) -> str:
    return jobs.execute("cat; exit 7").id


def end_well(jobs: Jobs, job_id: str, ended: Ended) -> None:
    """The job was not touched by any of it."""
    assert is_alive_and_well(jobs, job_id)
    ask(jobs, job_id, op="stdin", length=0, close=True, wait_s=1)
    state = ended(job_id).job.state
    assert isinstance(state, Exited)
    assert state.code == 7
    assert not (directory(jobs, job_id) / "shim-error.txt").exists()


GARBAGE = {
    "an empty line": b"\n",
    "no JSON": b"GET / HTTP/1.1\r\n",
    "binary": bytes(range(11, 256)) + b"\n",
    "invalid UTF-8": b'{"op": "\xff\xfe"}\n',
    "a list": b"[]\n",
    "a number": b"1\n",
    "a string": b'"status"\n',
    "null": b"null\n",
    "no op": b"{}\n",
    "an unknown op": b'{"op": "format"}\n',
    "an op that cannot be looked up": b'{"op": ["status"]}\n',
    "nested beyond reason": b"[" * 60_000 + b"\n",
    "a wait for text": b'{"op": "wait", "beyond": "x"}\n',
    "a wait for a list": b'{"op": "wait", "quiet_s": []}\n',
    "stdin without a length": b'{"op": "stdin", "wait_s": 1}\n',
    "stdin without a wait": b'{"op": "stdin", "length": 1}\n',
    "stdin of negative length": b'{"op": "stdin", "length": -5, "wait_s": 1}\n',
    "stdin of endless length": b'{"op": "stdin", "length": 1e999, "wait_s": 1}\n',
    "stdin that waits for no number": b'{"op": "stdin", "length": 0, "wait_s": NaN}\n',
    "a signal without a number": b'{"op": "signal"}\n',
    "a signal by name": b'{"op": "signal", "signal": "TERM"}\n',
    "a signal that is none": b'{"op": "signal", "signal": 9999}\n',
    "a signal beyond int": b'{"op": "signal", "signal": 1e30}\n',
    "a negative signal": b'{"op": "signal", "signal": -9}\n',
    "a kill without a grace": b'{"op": "kill", "signal": 0}\n',
    "a kill with a signal that is none": b'{"op": "kill", "signal": 9999, "grace_s": 1000}\n',
    "a kill with a grace that is no number": b'{"op": "kill", "signal": 0, "grace_s": NaN}\n',
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_is_answered_with_an_error(jobs: Jobs, job_id: str, ended: Ended, kind: str) -> None:
    caller = Caller(jobs, job_id)
    caller.say(GARBAGE[kind])
    answer = caller.hear()
    assert answer["ok"] is False
    assert answer["error"]
    caller.say(STATUS)  # and the same caller may do better
    assert caller.hear()["ok"] is True
    caller.close()
    end_well(jobs, job_id, ended)


ENDLESS = [
    {"op": "wait", "beyond": 1e300},
    {"op": "wait", "beyond": 0, "quiet_s": 1e300},
    {"op": "wait", "timeout_s": 1e300},
    {"op": "wait", "timeout_s": 3e6},
    {"op": "stdin", "length": 10, "wait_s": 1e300},
    {"op": "stdin", "length": 10, "wait_s": 3e6},  # 35 days: more milliseconds than poll() takes
]


@pytest.mark.parametrize("request_", ENDLESS, ids=str)
def test_a_wait_beyond_reason_is_only_that(
    jobs: Jobs, job_id: str, ended: Ended, request_: dict[str, object]
) -> None:
    caller = Caller(jobs, job_id)
    caller.request(**request_)
    assert is_alive_and_well(jobs, job_id)
    caller.close()
    end_well(jobs, job_id, ended)


def test_a_number_that_is_none_in_a_wait_harms_no_client(jobs: Jobs, job_id: str, ended: Ended) -> None:
    ask(jobs, job_id, b"x\n", op="stdin", length=2, wait_s=1)
    callers = [Caller(jobs, job_id) for _ in range(3)]
    for caller, name in zip(callers, ("beyond", "quiet_s", "timeout_s"), strict=True):
        caller.say(b'{"beyond": 0, "op": "wait", "%s": NaN}\n' % name.encode())
    assert is_alive_and_well(jobs, job_id)
    for caller in callers:
        caller.close()
    end_well(jobs, job_id, ended)


def test_an_oversized_request_is_hung_up_on(jobs: Jobs, job_id: str, ended: Ended) -> None:
    caller = Caller(jobs, job_id)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        caller.say(b"x" * 1_000_000)
    assert caller.is_hung_up_on()
    caller.close()
    end_well(jobs, job_id, ended)


@pytest.mark.parametrize("cut", [1, 5, 15])
def test_half_a_request_waits_for_its_other_half_and_holds_up_no_other_client(
    jobs: Jobs, job_id: str, ended: Ended, cut: int
) -> None:
    caller = Caller(jobs, job_id)
    caller.say(STATUS[:cut])
    assert is_alive_and_well(jobs, job_id)
    assert not caller.has_answer()
    caller.say(STATUS[cut:])
    assert caller.hear()["ok"] is True
    other = Caller(jobs, job_id)
    other.say(STATUS[:cut])  # one whose other half never comes
    caller.close()
    end_well(jobs, job_id, ended)
    other.close()


def test_many_requests_in_one_breath_are_answered_one_by_one(jobs: Jobs, job_id: str, ended: Ended) -> None:
    caller = Caller(jobs, job_id)
    caller.say(STATUS * 150 + b"garbage\n" + STATUS)
    answers = [caller.hear()["ok"] for _ in range(152)]
    assert answers == [True] * 150 + [False, True]
    caller.close()
    end_well(jobs, job_id, ended)


@pytest.mark.parametrize(
    "flood", [STATUS * 4000, b"\n" * 60_000, b"x\n" * 30_000], ids=["status", "empty", "x"]
)
def test_a_flood_of_requests_from_one_who_never_reads_does_not_drown_the_shim(
    jobs: Jobs, job_id: str, ended: Ended, flood: bytes
) -> None:
    caller = Caller(jobs, job_id)
    caller.socket.settimeout(0.5)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError, TimeoutError):
        caller.say(flood)
    assert is_alive_and_well(jobs, job_id)
    caller.close()
    end_well(jobs, job_id, ended)


def test_two_hundred_clients_at_once_are_all_served(jobs: Jobs, job_id: str, ended: Ended) -> None:
    callers = []
    for number in range(200):
        callers.append(Caller(jobs, job_id))
        callers[-1].say(STATUS if number % 2 else b'{"op": "wait", "beyond": 0}\n')
    assert all(caller.hear()["ok"] for caller in callers[1::2])
    assert not any(caller.has_answer() for caller in callers[::2])
    ask(jobs, job_id, b"now\n", op="stdin", length=4, wait_s=1)
    assert {caller.hear()["end"] for caller in callers[::2]} == {4}
    for caller in callers:
        caller.close()
    end_well(jobs, job_id, ended)


def test_of_those_who_ask_nothing_the_longest_idle_goes(jobs: Jobs, job_id: str, ended: Ended) -> None:
    first, second, waits = (Caller(jobs, job_id) for _ in range(3))
    waits.request(op="wait", beyond=0)
    first.say(STATUS)
    assert first.hear()["ok"]  # so that the second is idle longer
    others = []
    while not second.has_answer():
        others.append(Caller(jobs, job_id))
        assert is_alive_and_well(jobs, job_id)  # one after the other
    assert second.is_hung_up_on()
    assert MOST_IDLE - 4 <= len(others) < MOST_IDLE  # who has just asked may be there yet
    first.say(STATUS)
    assert first.hear()["ok"]
    ask(jobs, job_id, b"now\n", op="stdin", length=4, wait_s=1)
    assert waits.hear()["end"] == 4
    for caller in (first, second, waits, *others):
        caller.close()
    end_well(jobs, job_id, ended)


@linux_only
@pytest.mark.parametrize("request_", [b"", STATUS[:5], b'{"op": "wait"}\n'], ids=["none", "half", "a wait"])
def test_more_clients_than_descriptors_do_not_keep_the_job_from_being_killed(
    jobs: Jobs, job_id: str, request_: bytes
) -> None:
    limit_descriptors(shim_pid(jobs, job_id), 256)
    callers = []
    for _ in range(360):  # the first of which are sent away, whatever they want
        callers.append(Caller(jobs, job_id))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            callers[-1].say(request_)
    assert jobs.kill(job_id, grace_s=0).status == "killed"
    for caller in callers:
        caller.close()


@linux_only
def test_without_any_descriptor_the_shim_does_not_spin_and_answers_when_it_has_some(
    jobs: Jobs, job_id: str, ended: Ended
) -> None:
    """It has no other connection that it could close instead."""
    shim = shim_pid(jobs, job_id)
    assert is_alive_and_well(jobs, job_id)
    wait_until(lambda: len(sockets_of(shim)) == 2, "only its own and the one to its guard are left")
    first_free = next(number for number in range(1000) if not Path(f"/proc/{shim}/fd/{number}").exists())
    before = limit_descriptors(shim, first_free)
    caller = Caller(jobs, job_id)
    caller.say(STATUS)
    used_s, until = cpu_s(shim), time.monotonic() + 1
    while time.monotonic() < until:
        assert not caller.has_answer()
        time.sleep(0.05)
    assert cpu_s(shim) - used_s < 0.2
    limit_descriptors(shim, before)
    assert caller.hear()["ok"]
    caller.close()
    end_well(jobs, job_id, ended)


def limit_descriptors(pid: int, most: int) -> int:
    """How many it might have before."""
    limit, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, hard))
    return limit


def sockets_of(pid: int) -> list[str]:
    held = []
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            held.append(str(descriptor.readlink()))
    return [what for what in held if what.startswith("socket:")]


def test_clients_that_leave_at_once_leave_nothing_behind(jobs: Jobs, job_id: str, ended: Ended) -> None:
    is_alive_and_well(jobs, job_id)
    descriptors = Path(f"/proc/{shim_pid(jobs, job_id)}/fd")
    before = len(list(descriptors.iterdir()))
    for number in range(200):
        caller = Caller(jobs, job_id)
        if number % 2:
            caller.request(op="wait")
        caller.close()
    for _ in range(3):
        is_alive_and_well(jobs, job_id)
    wait_until(lambda: len(list(descriptors.iterdir())) <= before + 1, "what they held is closed")
    end_well(jobs, job_id, ended)


def test_one_who_waits_and_hangs_up_is_not_missed_at_the_end(jobs: Jobs, ended: Ended, gate: Gate) -> None:
    """The shim is stopped while its waiters go: it learns of the end and of their leaving at once."""
    job_id = jobs.execute(f"{gate.pause}; echo done; exit 7").id
    gate.wait_until_reached()
    callers = [Caller(jobs, job_id) for _ in range(20)]
    for caller in callers:
        caller.request(op="wait")
    is_alive_and_well(jobs, job_id)
    with stopped(jobs, job_id):
        for caller in callers:
            caller.close()
        gate.open()
    state = ended(job_id).job.state
    assert isinstance(state, Exited)
    assert jobs.output(job_id).stdout == "done\n"


def test_one_who_asks_and_leaves_before_the_answer_harms_no_other_client(
    jobs: Jobs, job_id: str, ended: Ended
) -> None:
    with stopped(jobs, job_id):
        for request in (STATUS, b"garbage\n", b'{"op": "stdin", "length": 0, "wait_s": 0}\n'):
            caller = Caller(jobs, job_id)
            caller.say(request)
            caller.close()
    end_well(jobs, job_id, ended)


def test_a_disconnect_in_the_middle_of_a_payload_is_taken_as_far_as_it_came(
    jobs: Jobs, job_id: str, ended: Ended
) -> None:
    caller = Caller(jobs, job_id)
    caller.request(op="stdin", length=1_000_000, wait_s=30)
    caller.say(b"half a line")
    next_one = Caller(jobs, job_id)
    next_one.request(op="stdin", length=4, wait_s=30)
    next_one.say(b"yes\n")
    caller.close()
    assert next_one.hear()["accepted"] == 4
    next_one.close()
    end_well(jobs, job_id, ended)
    assert jobs.output(job_id).stdout in ("half a lineyes\n", "yes\n")


def test_only_the_owner_of_the_job_may_open_the_socket(jobs: Jobs, job_id: str, ended: Ended) -> None:
    mode = (directory(jobs, job_id) / "ctl").stat().st_mode & 0o777
    assert mode & 0o077 == 0
    end_well(jobs, job_id, ended)


def test_the_status_is_the_job_as_the_shim_sees_it(jobs: Jobs, job_id: str, ended: Ended) -> None:
    ask(jobs, job_id, b"four\n", op="stdin", length=5, wait_s=1)
    ask(jobs, job_id, op="wait", beyond=4)
    status = ask(jobs, job_id, op="status")
    run = jobs.status(job_id).job.run
    assert run is not None
    assert (status["pid"], status["end"], status["outcome"]) == (run.pid, 5, None)
    end_well(jobs, job_id, ended)
    assert json.loads((directory(jobs, job_id) / "outcome.json").read_text())["output_bytes"] == 5

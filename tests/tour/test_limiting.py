"""Limits: a job that uses more than it may is ended, and its outcome names the limit, whatever sees to it."""

import pytest

from bgjob.api import Jobs
from bgjob.core.errors import InvalidArgument
from bgjob.core.job import Exited, cause_word
from bgjob.system import cgroup
from tests.support.control_groups import mechanisms
from tests.support.limiting import HOG, Ended, events_of, over
from tests.support.server import Server


@mechanisms(cgroup.MEMORY)
def test_a_job_that_takes_too_much_memory_is_out_of_memory(jobs: Jobs, ended: Ended, cgroup_use: str) -> None:
    """The tree's peak is told: about the limit by a group; by watching, what it had when it was seen."""
    job_id = jobs.execute(HOG, options={"memory": "100MB", "cgroup": cgroup_use}).id
    look = ended(job_id)
    state = over(look)
    assert state.limit == "memory"
    assert cause_word(state) == "out_of_memory"
    assert (state.peak_memory_bytes or 0) > 90 << 20
    assert look.limited_by == {"memory": "cgroup" if cgroup_use == "on" else "watched"}
    assert [event["limit"] for event in events_of(jobs, job_id, "limit_hit")] == ["memory"]


def test_a_silent_job_is_ended_and_a_talkative_one_is_not(jobs: Jobs, ended: Ended) -> None:
    silent = jobs.execute("echo once; sleep 50", options={"silence_s": 0.3}).id
    talks = jobs.execute("for i in $(seq 25); do echo $i; sleep 0.1; done", options={"silence_s": 2}).id
    assert over(ended(silent)).limit == "silence"
    assert isinstance(ended(talks).job.state, Exited)


@pytest.mark.parametrize("pty", [False, True], ids=["pipes", "terminal"])
def test_output_beyond_the_limit_stops_the_job_and_its_first_bytes_are_kept(
    jobs: Jobs, ended: Ended, pty: bool
) -> None:
    job_id = jobs.execute("seq 1 100000000", pty=pty, options={"output": "64KB", "on_output": "stop"}).id
    look = ended(job_id)
    assert over(look).limit == "output"
    assert look.output_bytes > 64 << 10
    kept = b"".join(chunk.data for chunk in jobs.follow(job_id, wait=False))
    ending = b"\r\n" if pty else b"\n"
    whole = b"".join(b"%d%b" % (number, ending) for number in range(1, 20000))
    assert kept == whole[: 64 << 10]


def test_status_tells_the_limits_what_keeps_them_and_which_one_ended_it(server: Server) -> None:
    limits = {"memory": "60MB", "open_files": 50}
    job_id = server.execute(HOG, options=limits)
    server.call("wait_for_job", job_ids=[job_id], timeout_s=30)
    status = server.status(job_id)
    assert status["limits"] == {"memory": 60 << 20, "open_files": 50}
    assert status["limited_by"]["open_files"] == "rlimit"
    assert status["limited_by"]["memory"] in ("cgroup", "watched")
    assert (status["status"], status["cause"], status["limit"]) == ("killed", "out_of_memory", "memory")
    assert status["peak_memory_bytes"] > 50 << 20


def test_a_bad_limit_is_refused_and_the_error_says_what_is_accepted(jobs: Jobs) -> None:
    with pytest.raises(InvalidArgument, match=r"memory='lots' is not valid\. Accepted: a size such as"):
        jobs.execute("true", options={"memory": "lots"})
    with pytest.raises(InvalidArgument, match=r"cgroup='perhaps' is not valid\. Accepted: on or off"):
        jobs.execute("true", options={"cgroup": "perhaps"})
    with pytest.raises(InvalidArgument, match="Unknown option 'memroy'"):
        jobs.execute("true", options={"memroy": "1GB"})

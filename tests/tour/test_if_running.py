"""One job of a name: a call that would start a second one uses it, is refused, or restarts it."""

from typing import Any

import pytest

from bgjob.api import Jobs
from bgjob.core.job import Lost
from bgjob.link import sweep
from tests.support.gate import Gate
from tests.support.server import Server, StartServer, ToolError
from tests.support.shims import kill_both


@pytest.fixture
def server(start_server: StartServer) -> Server:
    """With a home of its own: the names of other tests are not ours."""
    return start_server(MCP_BG_MAX_JOBS="20", MCP_BG_NEWS="off")


def running(server: Server) -> list[str]:
    return [job["job_id"] for job in server.call("list_jobs", status="running")["jobs"]]


def restart(server: Server, command: str = "sleep 1001", **options: Any) -> dict[str, Any]:
    return server.call("execute_command", command=command, name="dev", if_running="restart", **options)


@pytest.mark.parametrize(
    "wrong",
    [
        {"cwd": "/no/such/directory"},
        {"options": {"memory": "much"}},
        {"options": {"group": "none"}},
        {"after": ["nobody"]},
        {"after": ["dev"]},
        {"watch": ["("]},
        {"env": {"A=B": "x"}},
        {"shell": "fish"},
        {"stdin": "null", "pty": True},
        {"rows": 100_000},
        {"until": {"pattern": "("}},
        {"command": " "},
    ],
    ids=lambda wrong: str(wrong)[:40],
)
def test_a_restart_that_cannot_be_leaves_the_job_alone(server: Server, wrong: dict[str, Any]) -> None:
    job_id = server.execute("sleep 1000", name="dev")
    with pytest.raises(ToolError):
        restart(server, **wrong)
    assert running(server) == [job_id]


def test_a_restart_ends_all_that_run_under_the_name(server: Server) -> None:
    before = [server.execute("sleep 1000", name="dev") for _ in range(2)]
    after = restart(server)["job_id"]
    assert running(server) == [after]
    assert [server.status(job_id)["status"] for job_id in before] == ["killed", "killed"]


def test_a_job_in_the_queue_is_restarted_into_the_queue(start_server: StartServer, gate: Gate) -> None:
    server = start_server(MCP_BG_MAX_JOBS="1")
    server.execute(gate.pause)
    gate.wait_until_reached()
    before = server.execute("true", name="dev", queue=True)
    after = restart(server, "exit 3")
    assert (after["status"], server.status(before)["status"]) == ("queued", "killed")
    gate.open()
    (waited,) = server.call("wait_for_job", job_ids=[after["job_id"]], timeout_s=45)["jobs"]
    assert waited["exit_code"] == 3


def test_a_name_means_the_newest_and_not_an_ended_one_that_left_a_process(server: Server) -> None:
    left = server.execute("sleep 1000 & echo first", name="build", wait_s=30)
    newest = server.execute("echo second; exit 1", name="build", wait_s=30)
    told = server.call("tail_job_output", job_id="build")
    assert (told["stdout"], told["exit_code"], told["job_id"]) == ("second\n", 1, newest)
    last = server.execute("sleep 1000", name="build")
    assert server.call("get_job_status", job_id="build")["job_id"] == last
    assert server.call("kill_job", job_id="build")["job_id"] == last
    killed = server.call("kill_job", job_id="build")  # who ends a job by its name means what still runs
    assert (killed["status"], killed["job_id"]) == ("killed", left)
    assert running(server) == []


def test_an_answer_has_the_id_where_the_caller_gave_another_word(server: Server) -> None:
    job_id = server.execute("cat", name="dev")
    for tool, more in (
        ("get_job_status", {}),
        ("get_job_output", {}),
        ("tail_job_output", {}),
        ("interact_with_job", {"input": "x"}),
    ):
        assert server.call(tool, job_id="dev", **more)["job_id"] == job_id
        assert "job_id" not in server.call(tool, job_id=job_id, **more)
    assert server.call("kill_job", job_id=job_id[:8])["job_id"] == job_id


def test_a_cursor_of_the_job_before_loses_nothing_of_its_successor(server: Server) -> None:
    first = restart(server, "seq 1000; cat", until={"pattern": "1000"})
    restart(server, "echo broken; sleep 1000", until={"pattern": "broken"})
    (waited,) = server.call(
        "wait_for_job", job_ids=["dev"], since=first["cursor"], pattern="bro", timeout_s=30
    )["jobs"]
    assert (waited["condition"], waited["stdout"]) == ("pattern", "broken\n")
    for tool in ("get_job_output", "tail_job_output"):
        assert server.call(tool, job_id="dev", since=first["cursor"])["stdout"] == "broken\n"


def test_a_lost_job_whose_processes_live_is_used_again_and_waited_for(jobs: Jobs, gate: Gate) -> None:
    job = jobs.execute(f"{gate.reach}; sleep 1000", name="dev")
    gate.wait_until_reached()
    kill_both(jobs, job.id)
    again = jobs.run("sleep 1000", name="dev", if_running="reuse", until={"pattern": "ready"})
    assert (again.job.id, again.reused, again.met) == (job.id, True, False)
    assert isinstance(again.job.state, Lost)
    sweep.kill(job.id)


def test_who_kills_a_name_that_is_none_is_told_those_that_run(server: Server) -> None:
    server.execute("sleep 1000", name="dev")
    answer = server.call("kill_job", job_id="Dev")
    assert (answer["status"], answer["hint"]) == ("not_found", "Names of running jobs: dev.")

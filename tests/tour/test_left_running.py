"""What a job leaves running: a job ends with its main process, and a daemon that it started may live on.

Such a job has the status of its exit code, and every answer says that processes of it still run.
"""

import threading

import pytest

from bgjob.api import Jobs, processes
from tests.support.gate import Gate
from tests.support.server import Server, StartServer, ToolError

HINT = "1 process of it still runs: kill_job ends it. Do not end a command with & or nohup:"


def left(server: Server, code: int = 0) -> str:
    """A job that has ended, and has left one process."""
    job_id = server.execute(f"sleep 1000 & exit {code}")
    server.call("wait_for_job", job_ids=[job_id], timeout_s=30)
    return job_id


def listed(server: Server, status: str) -> list[str]:
    return [job["job_id"] for job in server.call("list_jobs", status=status)["jobs"]]


def test_the_call_that_starts_it_says_so(server: Server) -> None:
    answer = server.call("execute_command", command="sleep 1000 & echo started", wait_s=30)
    assert (answer["status"], answer["exit_code"], answer["left_running"]) == ("completed", 0, 1)
    assert (answer["stdout"], answer["hint"][: len(HINT)]) == ("started\n", HINT)


def test_every_answer_about_the_job_says_so(server: Server) -> None:
    job_id = left(server, 2)
    (waited,) = server.call("wait_for_job", job_ids=[job_id])["jobs"]
    for told in (server.status(job_id), waited):
        assert (told["status"], told["exit_code"], told["left_running"]) == ("failed", 2, 1)
        assert told["hint"].startswith(HINT)
    (row,) = [job for job in server.call("list_jobs")["jobs"] if job["job_id"] == job_id]
    assert (row["status"], row["left_running"]) == ("failed", 1)
    with pytest.raises(ToolError, match=f"it failed with exit code 2. {HINT}"):
        server.call("interact_with_job", job_id=job_id, input="x")


def test_its_status_in_detail_tells_what_is_left(server: Server) -> None:
    """As of a job that runs: its processes and their ports."""
    serve = "python3 -u -m http.server --bind 127.0.0.1 0"
    job_id = server.execute(f"{serve} & exit 0")
    server.call("wait_for_job", job_ids=[job_id], pattern="Serving HTTP", timeout_s=30)
    server.call("wait_for_job", job_ids=[job_id], timeout_s=30)
    activity = server.call("get_job_status", job_id=job_id, detail=True)["activity"]
    (process,) = activity["tree"]
    assert process["command"].endswith(serve)
    assert [each["pid"] for each in activity["listening"]] == [process["pid"]]
    server.call("kill_job", job_id=job_id)
    assert "activity" not in server.call("get_job_status", job_id=job_id, detail=True)


def test_the_last_words_of_what_is_left_are_waited_for(jobs: Jobs) -> None:
    """Whenever they come: the process prints them and ends, and its shim with it."""
    for number in range(40):
        job_id = jobs.execute(f"echo now; (setsid sh -c 'sleep 0.0{number:02d}; echo later' &)").id
        (waited,) = jobs.wait_for([job_id], pattern="later", timeout_s=30)
        assert waited.came
        assert (waited.came.condition, waited.output.stdout) == ("pattern", "now\nlater\n")


def test_it_is_listed_among_the_running_and_among_those_of_its_own_word(server: Server) -> None:
    job_id = left(server)
    words = ("queued", "running", "completed", "failed", "killed")
    assert [word for word in words if job_id in listed(server, word)] == ["running", "completed"]
    server.call("kill_job", job_id=job_id)
    assert [word for word in words if job_id in listed(server, word)] == ["completed"]


def test_a_kill_of_it_is_a_kill(server: Server) -> None:
    """How the job itself ended stays as it was."""
    job_id = left(server, 2)
    answer = server.call("kill_job", job_id=job_id)
    assert (answer["status"], answer["processes"], answer["exit_code"]) == ("killed", 1, 2)
    status = server.status(job_id)
    assert (status["status"], status["exit_code"], status["descendants"]) == ("failed", 2, 0)
    assert {"left_running", "hint"}.isdisjoint(status)
    assert server.call("kill_job", job_id=job_id)["status"] == "already_terminated"


def test_a_mere_signal_reaches_it(server: Server) -> None:
    job_id = left(server)
    answer = server.call("kill_job", job_id=job_id, signal="STOP", only_signal=True)
    assert (answer["status"], answer["processes"]) == ("signaled", 1)
    assert server.status(job_id)["left_running"] == 1


def test_what_ends_with_the_job_was_not_left(jobs: Jobs, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of a pipeline may outlive the job by a moment: that is no daemon. Here the moment is long."""
    monkeypatch.setattr(processes, "ENDING_S", 30)
    job_id = jobs.execute(f"({gate.pause}) & exit 0").id
    gate.wait_until_reached()
    opening = threading.Timer(0.2, gate.open)
    opening.daemon = True  # if the job is not there any more, nobody lets it go
    opening.start()
    (waited,) = jobs.wait_for([job_id], timeout_s=30)
    assert (waited.status.left_running, waited.status.hint) == (0, None)


def test_what_is_being_ended_was_not_left(server: Server, gate: Gate) -> None:
    """All processes of a job that is killed get their grace: none of them is the caller's to end."""
    job_id = server.execute(f"(trap '' TERM; {gate.reach}; while :; do sleep 0.1; done) & exec sleep 1000")
    gate.wait_until_reached()
    patient = {"job_id": job_id, "grace_s": 50}
    killing = threading.Thread(target=server.call, args=("kill_job",), kwargs=patient)
    killing.start()
    (waited,) = server.call("wait_for_job", job_ids=[job_id], timeout_s=30)["jobs"]
    assert (waited["status"], waited["cause"]) == ("killed", "killed")
    assert {"left_running", "hint"}.isdisjoint(waited)
    assert job_id not in listed(server, "running")
    assert server.call("kill_job", job_id=job_id, grace_s=0)["status"] == "already_terminated"
    killing.join()


def test_a_server_that_it_left_is_still_waited_for(server: Server, gate: Gate) -> None:
    """Its port, its output: the job has ended, and what was asked for comes from a process that it left."""
    serving = "import http.server; http.server.test(port=0, bind='127.0.0.1')"
    job_id = server.execute(f'({gate.pause}; exec python3 -c "{serving}") & exit 0')
    gate.wait_until_reached()
    threading.Timer(0.3, gate.open).start()
    by_port = server.call("wait_for_job", job_ids=[job_id], port=0, timeout_s=45)
    by_pattern = server.call("wait_for_job", job_ids=[job_id], pattern="Serving", timeout_s=45)
    for answer, condition in ((by_port, "port"), (by_pattern, "pattern")):
        (job,) = answer["jobs"]
        assert (answer["met"], job["condition"], job["status"]) == (True, condition, "completed")
        assert job["left_running"] == 1


def test_it_ends_with_the_last_process_for_who_waits_for_more(server: Server, gate: Gate) -> None:
    job_id = server.execute(f"({gate.pause}) & exit 0")
    gate.wait_until_reached()
    threading.Timer(0.3, gate.open).start()
    answer = server.call("wait_for_job", job_ids=[job_id], pattern="never printed", timeout_s=45)
    assert (answer["met"], answer["jobs"][0]["condition"]) == (False, "exit")


def test_it_is_the_running_job_of_its_name(start_server: StartServer) -> None:
    server = start_server()
    job_id = server.call("execute_command", command="sleep 1000 & exit 0", name="daemon", wait_s=30)["job_id"]
    again = server.call("execute_command", command="sleep 1000", name="daemon", if_running="reuse")
    assert (again["job_id"], again["reused"], again["left_running"]) == (job_id, True, 1)
    with pytest.raises(ToolError, match="running already"):
        server.call("execute_command", command="sleep 1000", name="daemon", if_running="refuse")
    restarted = server.call("execute_command", command="sleep 1000", name="daemon", if_running="restart")
    assert restarted["job_id"] != job_id
    assert "left_running" not in server.status(job_id)

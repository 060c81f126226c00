"""Interaction: what is typed reaches the job, its answer comes back, and a job that does not read blocks nobody."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from bgjob.api import Jobs, JobStatus, Typed
from tests.support.gate import Gate
from tests.support.server import Server, StartServer, ToolError

Ended = Callable[[str], JobStatus]
PATIENCE_S = 20.0


def interact(server: Server, job_id: str, text: str, **options: object) -> dict[str, Any]:
    return server.call("interact_with_job", job_id=job_id, input=text, **options)


def answer(jobs: Jobs, job_id: str, text: str) -> tuple[str, str]:
    """Of the door, where a call may wait longer than a tool lets it: so it has answered, on a busy machine too."""
    output = jobs.interact(job_id, Typed(text), wait_s=PATIENCE_S).output
    return output.stdout, output.stderr


def test_the_answer_is_what_the_job_printed_after_the_input(server: Server, jobs: Jobs, gate: Gate) -> None:
    job_id = server.execute(f"echo before the input; {gate.reach}; cat")
    gate.wait_until_reached()
    server.talk(job_id, "hello", "hello\n")
    assert answer(jobs, job_id, "again") == ("again\n", "")
    assert answer(jobs, job_id, "with its own newline\n") == ("with its own newline\n", "")


def test_a_python_repl_can_be_driven(server: Server, jobs: Jobs) -> None:
    job_id = server.execute("python3 -qi")
    assert answer(jobs, job_id, "6 * 7")[0] == "42\n"
    server.talk(job_id, "print('a'); print('b')", "a\nb\n")


def test_it_still_answers_when_the_log_rotates(start_server: StartServer, jobs: Jobs, gate: Gate) -> None:
    server = start_server(MCP_BG_MAX_OUTPUT_SIZE="8KB")
    job_id = server.execute(f"seq 1 5000; {gate.reach}; while read n; do seq 1 $n; done")
    gate.wait_until_reached()
    assert answer(jobs, job_id, "3")[0] == "1\n2\n3\n"
    server.talk(job_id, "900", "".join(f"{number}\n" for number in range(1, 901)))


def test_end_of_file_ends_a_job_that_reads_to_the_end(server: Server, ended: Ended) -> None:
    job_id = server.execute("wc -c")
    interact(server, job_id, "12345", close_stdin=True)
    ended(job_id)
    assert server.output(job_id)["stdout"].strip() == "6"
    other = server.execute("cat; exec sleep 1000")
    interact(server, other, "", close_stdin=True)
    with pytest.raises(ToolError, match="no open stdin"):
        interact(server, other, "too late")


def test_a_job_that_does_not_read_pushes_back(server: Server) -> None:
    """The call answers within its wait, says what was taken, and the server is free meanwhile."""
    job_id = server.execute("sleep 1000")
    answers: list[dict[str, Any]] = []
    big = threading.Thread(target=lambda: answers.append(interact(server, job_id, "x" * 3_000_000, wait_s=1)))
    big.start()
    answered = 0
    while big.is_alive():
        assert server.status(job_id)["status"] == "running"
        answered += 1
    assert answered > 5  # a server that is held up answers one or two
    assert answers[0]["accepted_bytes"] == answers[0]["unread_bytes"]
    assert 60_000 < answers[0]["accepted_bytes"] <= 65536  # what a pipe holds


def test_input_goes_to_one_caller_after_the_other(server: Server, jobs: Jobs) -> None:
    job_id = server.execute("cat")
    threads = [
        threading.Thread(target=interact, args=(server, job_id, letter * 20_000), kwargs={"wait_s": 1})
        for letter in "abcd"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    interact(server, job_id, "", close_stdin=True)
    lines = b"".join(chunk.data for chunk in jobs.follow(job_id, wait=True)).splitlines()
    assert lines
    assert [len(set(line)) for line in lines] == [1] * len(lines)


def test_a_finished_job_takes_no_input(server: Server, ended: Ended) -> None:
    job_id = server.execute("true")
    ended(job_id)
    with pytest.raises(ToolError, match=f"^Job {job_id} is not running and cannot accept input"):
        interact(server, job_id, "x")


def test_a_silent_job_answers_nothing_after_the_wait(server: Server) -> None:
    job_id = server.execute("cat > /dev/null")
    assert interact(server, job_id, "shh", wait_s=0.05)["stdout"] == ""


@pytest.mark.parametrize("wait_s", [-1, 1.5, "soon"])
def test_a_bad_wait_is_a_clear_error(server: Server, wait_s: object) -> None:
    job_id = server.execute("cat")
    with pytest.raises(ToolError, match="wait_s"):
        interact(server, job_id, "x", wait_s=wait_s)

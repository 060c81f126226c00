"""Quick commands: with wait_s a call behaves like a shell tool, and starts what it was meant to start."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bgjob.api import JobStatus
from tests.support.requires import needs
from tests.support.server import Server, StartServer, ToolError

Ended = Callable[[str], JobStatus]
# searches its stdin if that is a pipe, as ripgrep does, and else the files beside it
SEARCH = "if [ -p /dev/stdin ]; then grep needle; else grep -h needle *; fi"


def test_a_program_that_would_read_a_pipe_reads_the_files(server: Server, tmp_path: Path) -> None:
    (tmp_path / "hay").write_text("a needle\n")
    answer = server.call("execute_command", command=SEARCH, cwd=str(tmp_path), wait_s=30)
    assert (answer["status"], answer["stdout"]) == ("completed", "a needle\n")


@pytest.mark.skipif(shutil.which("rg") is None, reason="needs ripgrep")
def test_ripgrep_without_a_path_searches_files(server: Server, tmp_path: Path) -> None:
    (tmp_path / "hay").write_text("a needle\n")
    answer = server.call("execute_command", command="rg needle", cwd=str(tmp_path), wait_s=30)
    assert (answer["status"], answer["stdout"]) == ("completed", "hay:a needle\n")


def test_without_a_wait_stdin_stays_open(server: Server) -> None:
    job_id = server.execute("cat")
    server.talk(job_id, "hello", "hello\n")


def test_the_caller_chooses_what_stdin_is(server: Server, ended: Ended) -> None:
    asking = server.call("execute_command", command="read -r name; echo hi $name", wait_s=30, stdin="open")
    assert (asking["status"], asking["waits_for_input"]) == ("running", True)
    server.talk(asking["job_id"], "Ada", "hi Ada\n")
    job_id = server.execute("cat; echo at its end", stdin="null")
    ended(job_id)
    assert server.output(job_id)["stdout"] == "at its end\n"


def test_typing_into_a_job_without_stdin_says_how_to_start_one(server: Server) -> None:
    job = server.call("execute_command", command="sleep 1000", wait_s=0.1)
    with pytest.raises(ToolError, match=r"stdin=.open.*pty"):
        server.call("interact_with_job", job_id=job["job_id"], input="x")


@needs("bash")
@pytest.mark.parametrize(
    ("command", "stdout"),
    [
        ("source ./settings && echo $SET", "yes\n"),
        ("[[ abc == a* ]] && echo matched", "matched\n"),
        ("cat <<< 'a here string'", "a here string\n"),
        ("echo {1..3}", "1 2 3\n"),
        ("set -o pipefail; false | true || echo seen", "seen\n"),
    ],
)
def test_what_bash_understands_works(server: Server, tmp_path: Path, command: str, stdout: str) -> None:
    (tmp_path / "settings").write_text("SET=yes\n")
    answer = server.call("execute_command", command=command, cwd=str(tmp_path), wait_s=30)
    assert (answer["exit_code"], answer["stdout"]) == (0, stdout)


@needs("bash")
def test_a_repl_that_was_interrupted_and_left_has_completed(server: Server) -> None:
    """Another shell ends itself by the SIGINT that its child has handled."""
    repl = "import sys\nfor line in sys.stdin: print(line)"
    command = f"python3 -c 'import signal; signal.signal(signal.SIGINT, print)\n{repl}'; exit $?"
    job_id = server.execute(command, pty=True)
    server.call("wait_for_job", job_ids=[job_id], for_input=True, timeout_s=30)
    server.call("interact_with_job", job_id=job_id, keys=["ctrl-c"])
    server.call("interact_with_job", job_id=job_id, keys=["ctrl-d"])
    (job,) = server.call("wait_for_job", job_ids=[job_id], timeout_s=30)["jobs"]
    assert (job["status"], job["exit_code"]) == ("completed", 0)


def test_lines_that_end_as_on_windows_are_lines(server: Server, tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    answer = server.call("execute_command", command="cd demo\r\npwd\r\n", cwd=str(tmp_path), wait_s=30)
    assert answer["stdout"] == f"{tmp_path}/demo\n"


def test_python_prints_at_once(start_server: StartServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    server = start_server()
    job_id = server.execute("python3 -c 'import time; print(\"begun\"); time.sleep(1000)'")
    server.wait_until_printed(job_id, "begun")


def test_a_caller_can_have_python_wait_as_it_does_elsewhere(server: Server) -> None:
    answer = server.call(
        "execute_command", command="echo [$PYTHONUNBUFFERED]", env={"PYTHONUNBUFFERED": ""}, wait_s=30
    )
    assert answer["stdout"] == "[]\n"

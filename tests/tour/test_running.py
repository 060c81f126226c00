"""Running commands: a real shell, a real exit code, and honest words for how it ended."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bgjob.api import JobStatus
from bgjob.core.job import Exited
from tests.support.gate import Gate
from tests.support.server import Server, StartServer, ToolError
from tests.support.shims import settable_signals

Ended = Callable[[str], JobStatus]


def test_a_command_answers_with_a_job_id_while_it_runs(server: Server, gate: Gate, ended: Ended) -> None:
    job_id = server.execute(f"{gate.pause}; exit 0")
    gate.wait_until_reached()
    assert server.status(job_id)["status"] == "running"
    gate.open()
    ended(job_id)
    assert server.status(job_id)["status"] == "completed"


@pytest.mark.parametrize(
    ("command", "stdout"),
    [
        ("echo a b | tr ' ' '\\n' | sort -r", "b\na\n"),
        ("cd / && pwd", "/\n"),
        ("X=1; Y=$((X + 1)); echo $Y ${X}x", "2 1x\n"),
        ("echo hidden > file; cat file; ls f*", "hidden\nfile\n"),
        ("cat <<END\nhere\ndocument\nEND", "here\ndocument\n"),
        ("echo one\necho two", "one\ntwo\n"),
        ("(echo later) & wait; echo done", "later\ndone\n"),
        ("printf 'no newline at the end'", "no newline at the end"),
        ("false || echo 'quotes; and && such'", "quotes; and && such\n"),
    ],
)
def test_the_shell_is_real(server: Server, ended: Ended, tmp_path: Path, command: str, stdout: str) -> None:
    job_id = server.execute(command, cwd=str(tmp_path))
    ended(job_id)
    assert server.output(job_id)["stdout"] == stdout


def test_a_command_may_be_longer_than_an_argument(server: Server, ended: Ended) -> None:
    text = "x" * 300_000
    job_id = server.execute(f": '{text}'; echo '{text}' | wc -c; cat; exit 4")
    server.call("interact_with_job", job_id=job_id, input="stdin is not the script", close_stdin=True)
    ended(job_id)
    assert server.output(job_id)["stdout"] == "300001\nstdin is not the script\n"
    assert server.status(job_id)["exit_code"] == 4


def test_another_exit_code_is_failed(server: Server, ended: Ended) -> None:
    job_id = server.execute("exit 3")
    ended(job_id)
    status = server.status(job_id)
    assert (status["status"], status["exit_code"], status["cause"]) == ("failed", 3, "exited")


def test_an_unknown_program_is_failed_with_the_shells_message(server: Server, ended: Ended) -> None:
    job_id = server.execute("no-such-program-anywhere")
    ended(job_id)
    assert server.status(job_id)["exit_code"] == 127
    assert "no-such-program-anywhere" in server.output(job_id)["stderr"]


def test_a_signal_from_elsewhere_is_killed_and_named(server: Server, ended: Ended) -> None:
    job_id = server.execute("kill -SEGV $$")
    ended(job_id)
    status = server.status(job_id)
    assert (status["status"], status["cause"], status["signal"]) == ("killed", "signaled", "SIGSEGV")
    assert "exit_code" not in status


def test_cwd_env_name_and_shell_are_the_callers(server: Server, ended: Ended, tmp_path: Path) -> None:
    job_id = server.execute(
        'echo "$PWD $COLOUR $BASH_VERSION"',
        cwd=str(tmp_path),
        env={"COLOUR": "red"},
        name="mine",
        shell="bash",
    )
    ended(job_id)
    stdout = server.output(job_id)["stdout"]
    assert stdout.startswith((f"{tmp_path} red 5", f"{tmp_path} red 4"))
    status = server.status(job_id)
    assert (status["name"], status["cwd"]) == ("mine", str(tmp_path))


def test_a_job_gets_a_clean_process(start_server: StartServer, ended: Ended, tmp_path: Path) -> None:
    """Only stdin, stdout, stderr; its own session; default signals; the server's settings are not its business."""
    server = start_server(MCP_BG_MAX_JOBS="7", PASSED="on")
    job_id = server.execute(
        "ls /proc/self/fd | tr '\\n' ' '; cut -d' ' -f6 /proc/$$/stat; echo $$; "
        "grep -E 'Sig(Blk|Ign)' /proc/self/status | cut -f2; env | grep -c MCP_BG_; echo $PASSED $BGJOB_ID; umask"
    )
    ended(job_id)
    fds_and_sid, pid, blocked, ignored, settings, passed, _umask = server.output(job_id)[
        "stdout"
    ].splitlines()
    assert fds_and_sid == f"0 1 2 3 {pid}"  # 3 is ls's own look at the directory
    assert (settable_signals(blocked), settable_signals(ignored)) == (0, 0)
    assert (settings, passed) == ("0", f"on {job_id}")


def test_jobs_are_listed_newest_first_page_by_page(start_server: StartServer, ended: Ended) -> None:
    server = start_server()
    ids = [server.execute(f"exit {number % 2}") for number in range(5)]
    for job_id in ids:
        ended(job_id)
    first = server.call("list_jobs", limit=3)
    second = server.call("list_jobs", limit=3, cursor=first["next_cursor"])
    assert [job["job_id"] for job in first["jobs"] + second["jobs"]] == ids[::-1]
    assert "next_cursor" not in second
    failed = server.call("list_jobs", status="failed")["jobs"]
    assert [job["command"] for job in failed] == ["exit 1", "exit 1"]
    assert {job["status"] for job in failed} == {"failed"}


def test_a_list_says_how_a_job_ended_where_its_exit_code_does_not(
    start_server: StartServer, ended: Ended
) -> None:
    server = start_server()
    commands = ("exit 3", "kill -9 $$", "exec sleep 1000")
    exited, signaled, killed = map(server.execute, commands)
    timed_out = server.execute("exec sleep 1000", timeout_s=0.1)
    server.call("kill_job", job_id=killed)
    for job_id in (exited, signaled, timed_out):
        ended(job_id)
    listed = {job["job_id"]: job for job in server.call("list_jobs")["jobs"]}
    assert all(job.keys() >= {"job_id", "status", "command", "started"} for job in listed.values())
    assert [listed[job_id]["status"] for job_id in (exited, signaled, killed)] == [
        "failed",
        "killed",
        "killed",
    ]
    assert [listed[job_id].get("cause") for job_id in (exited, signaled, killed, timed_out)] == [
        None,
        "signaled",
        "killed",
        "timed_out",
    ]


def test_fifty_parallel_starts_never_exceed_the_limit(
    start_server: StartServer, gate: Gate, tmp_path: Path
) -> None:
    """Two servers on one home, a limit of 4: exactly four jobs run, and an ended job frees its slot."""
    servers = [start_server(MCP_BG_MAX_JOBS="4") for _ in range(2)]
    started, refused = start_in_parallel(servers, "cat", 50)
    assert len(started) == 4
    assert all("Job limit reached: Maximum concurrent jobs limit (4) reached" in text for text in refused)
    servers[0].call("kill_job", job_id=started[0])
    servers[1].execute("true")  # nobody looked at the ended one


def start_in_parallel(servers: list[Server], command: str, count: int) -> tuple[list[str], list[str]]:
    from concurrent.futures import ThreadPoolExecutor

    def start(number: int) -> tuple[str | None, str]:
        try:
            return servers[number % len(servers)].execute(command), ""
        except ToolError as error:
            return None, str(error)

    with ThreadPoolExecutor(count) as pool:
        answers = list(pool.map(start, range(count)))
    return [job_id for job_id, _ in answers if job_id], [text for job_id, text in answers if not job_id]


def test_a_command_that_is_too_long_to_be_read_again_is_refused(server: Server) -> None:
    with pytest.raises(ToolError, match=r"^Invalid command: it has 8000000 characters"):
        server.execute("#" * 8_000_000)


@pytest.mark.parametrize("command", ["", "   ", "\n\t"])
def test_a_blank_command_is_refused(server: Server, command: str) -> None:
    with pytest.raises(ToolError, match=r"^Invalid command: "):
        server.execute(command)


@pytest.mark.parametrize(
    "job_id", ["00000000-0000-4000-8000-000000000000", "../..", "a\0b", "x" * 10_000, "", "*", "1234"]
)
def test_an_id_that_is_none_is_not_found_and_nothing_else(server: Server, job_id: str) -> None:
    for tool in ("get_job_status", "get_job_output", "tail_job_output"):
        with pytest.raises(ToolError, match=r"^Job .* not found"):
            server.call(tool, job_id=job_id)
    with pytest.raises(ToolError, match=r"^Job .* not found"):
        server.call("interact_with_job", job_id=job_id, input="x")
    assert server.call("kill_job", job_id=job_id)["status"] == "not_found"


def test_exec_failure_is_a_failed_job_with_its_reason(server: Server, ended: Ended) -> None:
    job_id = server.execute("true", env={"BIG": "x" * 3_000_000})  # more than the kernel takes
    status = server.status(job_id)
    assert (status["status"], status["cause"]) == ("failed", "never_started")
    assert "too long" in status["reason"].lower()


def test_a_directory_that_does_not_exist_is_an_error_that_names_it(server: Server) -> None:
    with pytest.raises(ToolError, match="cwd='/no/such'"):
        server.execute("true", cwd="/no/such")


def test_exited_is_what_the_door_says_too(server: Server, ended: Ended) -> None:
    state = ended(server.execute("exit 7")).job.state
    assert isinstance(state, Exited)
    assert state.code == 7

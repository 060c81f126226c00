"""Interaction: what is typed reaches the job, its answer comes back, and a job that does not read blocks nobody."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bgjob.api import Jobs, JobStatus, Typed
from tests.support.gate import Gate
from tests.support.requires import needs
from tests.support.server import Server, StartServer, ToolError
from tests.support.waiting import wait_until

Ended = Callable[[str], JobStatus]
PATIENCE_S = 40.0
# as long as a call may wait: what answers earlier has not waited for the time to be up
LONG_S = 30.0


def interact(server: Server, job_id: str, text: str, **options: object) -> dict[str, Any]:
    return server.call("interact_with_job", job_id=job_id, input=text, **options)


def at_prompt(server: Server, command: str, *, for_input: bool = False, **options: object) -> str:
    """A job that is known to wait: for a caller, or with `for_input` in any way that the kernel shows."""
    job_id = server.execute(command, **options)
    if for_input:
        assert server.call("wait_for_job", job_ids=[job_id], for_input=True, timeout_s=PATIENCE_S)["met"]
    wait_until(lambda: for_input or server.status(job_id).get("waits_for_input") is True)
    return job_id


def timed(server: Server, job_id: str, **typed: object) -> tuple[dict[str, Any], float]:
    began = time.monotonic()
    return server.call("interact_with_job", job_id=job_id, **typed), time.monotonic() - began


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
    assert sorted(lines) == [letter.encode() * 20_000 for letter in "abcd"]


def test_a_finished_job_takes_no_input(server: Server, ended: Ended) -> None:
    job_id = server.execute("true")
    ended(job_id)
    with pytest.raises(ToolError, match=f"^Job {job_id} is not running and cannot accept input"):
        interact(server, job_id, "x")


def test_a_finished_job_says_how_it_ended(server: Server, ended: Ended) -> None:
    for command, how in (("true", "it completed"), ("exit 3", "it failed with exit code 3")):
        job_id = server.execute(command)
        ended(job_id)
        with pytest.raises(ToolError, match=f"cannot accept input: {how}"):
            interact(server, job_id, "x")


# -- how long it takes ------------------------------------------------------------------------------


def test_a_silent_job_answers_nothing_once_it_has_read(server: Server) -> None:
    job_id = at_prompt(server, "cat > /dev/null")
    said, took_s = timed(server, job_id, input="shh", wait_s=LONG_S)
    assert (said["stdout"], said["status"], said["waits_for_input"]) == ("", "running", True)
    assert took_s < LONG_S


def test_the_answer_of_a_slow_line_comes_with_the_next_prompt(server: Server) -> None:
    """Not with the echo of what was typed."""
    job_id = at_prompt(server, "PS1='ask> ' bash --norc --noprofile -i", pty=True)
    said, took_s = timed(server, job_id, input="sleep 0.3; echo fini''shed", wait_s=LONG_S)
    assert "finished" in said["stdout"]
    assert said["stdout"].rstrip().endswith("ask>")
    assert (said["status"], said["waits_for_input"], said["prompt"]) == ("running", True, "ask>")
    assert took_s < LONG_S


@needs("script")
def test_the_same_in_a_terminal_that_the_job_has_made(server: Server) -> None:
    job_id = at_prompt(server, "script -qc 'bash --norc --noprofile -i' /dev/null", pty=True)
    said, took_s = timed(server, job_id, input="sleep 2; echo fini''shed", wait_s=LONG_S)
    assert "finished" in said["stdout"]
    assert said["waits_for_input"] is True
    assert said["stdout"].rstrip().endswith(said["prompt"])
    assert took_s < LONG_S


def test_a_repl_that_computes_is_waited_for(server: Server) -> None:
    job_id = at_prompt(server, "python3 -qi", pty=True)
    code = "import time; end = time.time() + 1"
    interact(server, job_id, code, wait_s=LONG_S)
    said = interact(server, job_id, "while time.time() < end: pass\n\nprint(6 * 7)", wait_s=LONG_S)
    assert "\n42\n" in said["stdout"]


def test_each_answer_brings_the_next_question(server: Server) -> None:
    job_id = at_prompt(
        server,
        "read -p 'file: ' a; read -s -p 'secret: ' b; echo; sleep 0.2; read -s -p 'again: ' c; echo; "
        "echo saved $a ${#b}",
        pty=True,
        shell="bash",
    )
    prompts = [interact(server, job_id, text, wait_s=LONG_S).get("prompt") for text in ("key", "hunter2")]
    assert prompts == ["secret:", "again:"]
    last = interact(server, job_id, "hunter2", wait_s=LONG_S)
    assert (last["status"], last["exit_code"]) == ("completed", 0)
    assert "saved key 7" in last["stdout"]
    assert "waits_for_input" not in last


def test_a_job_that_ends_answers_at_once_with_its_exit_code(server: Server) -> None:
    job_id = at_prompt(server, "read x; exit 7")
    said, took_s = timed(server, job_id, input="bye", wait_s=LONG_S)
    assert (said["status"], said["exit_code"]) == ("failed", 7)
    assert took_s < LONG_S


@pytest.mark.parametrize("pty", [False, True])
def test_a_job_that_does_not_read_is_not_waited_for(server: Server, pty: bool) -> None:
    job_id = server.execute("exec sleep 1000", pty=pty)
    said, took_s = timed(server, job_id, input="anybody?", wait_s=LONG_S)
    assert (said["status"], said["accepted_bytes"]) == ("running", 9)
    assert said.get("unread_bytes") == (None if pty else 9)
    assert 0.4 < took_s < LONG_S


def test_the_end_is_waited_for_after_the_end_of_input(server: Server) -> None:
    job_id = at_prompt(server, "wc -c; sleep 0.3; exit 4")
    said = interact(server, job_id, "12345", close_stdin=True, wait_s=LONG_S)
    assert (said["stdout"].strip(), said["exit_code"]) == ("6", 4)


def test_a_pipeline_that_has_not_printed_yet_is_given_a_moment(server: Server) -> None:
    """Its first process reads again long before the last has anything to say."""
    job_id = at_prompt(server, "cat | while read x; do sleep 0.1; echo got $x; done", for_input=True)
    assert interact(server, job_id, "this", wait_s=LONG_S)["stdout"] == "got this\n"


def test_a_server_that_listens_for_keys_answers_a_key(server: Server, tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(LISTENS_FOR_KEYS)
    job_id = at_prompt(server, f"python3 {script}", for_input=True)
    said, took_s = timed(server, job_id, input="h", wait_s=LONG_S)
    assert said["stdout"] == "help for h\n"
    assert "waits_for_input" not in said
    assert took_s < LONG_S


LISTENS_FOR_KEYS = """
import select, socket, sys
listening = socket.create_server(("127.0.0.1", 0))
print("ready", flush=True)
while True:
    readable, _, _ = select.select([sys.stdin, listening], [], [])
    print("help for", sys.stdin.readline().strip(), flush=True)
"""


# -- what is typed ----------------------------------------------------------------------------------


def test_text_before_keys_gets_no_newline_of_its_own(server: Server) -> None:
    for pty in (False, True):
        job_id = at_prompt(server, "stty -echo 2> /dev/null; cat", pty=pty, for_input=True)
        said = server.call("interact_with_job", job_id=job_id, input="abc", keys=["enter"], wait_s=LONG_S)
        assert said["stdout"] == "abc\n"


def test_keys_go_without_text(server: Server) -> None:
    job_id = at_prompt(server, "stty raw -echo; printf '> '; head -c 4 | od -An -c; exec cat", pty=True)
    server.call("interact_with_job", job_id=job_id, keys=["down", "enter"], wait_s=LONG_S)
    server.wait_until_printed(job_id, r"033   [   B  \r")


@pytest.mark.parametrize("text", ["y", "y\r", "y\n", "y\r\n"])
def test_enter_is_pressed_once_however_it_is_written(server: Server, text: str) -> None:
    job_id = at_prompt(server, "read -p 'one? ' a; read -p 'two? ' b; echo got $a,$b", pty=True)
    said = interact(server, job_id, text, wait_s=LONG_S)
    assert (said["status"], said["prompt"]) == ("running", "two?")


def test_a_pipe_gets_carriage_returns_as_they_are(server: Server) -> None:
    job_id = at_prompt(server, "head -c 6 | od -An -c", for_input=True)
    said = interact(server, job_id, "a\r\nb\r\n", wait_s=LONG_S)
    assert said["stdout"].split() == ["a", r"\r", r"\n", "b", r"\r", r"\n"]


def test_a_line_that_a_terminal_would_cut_is_refused(server: Server) -> None:
    """Of a line that a terminal collects until Enter, the kernel drops what is beyond 4,095 bytes."""
    job_id = at_prompt(server, "stty -echo; while read line; do echo got ${#line}; done", pty=True)
    with pytest.raises(ToolError, match="4095"):
        interact(server, job_id, "x" * 4096)
    said = interact(server, job_id, "x" * 4095 + "\n" + "y" * 4000, wait_s=LONG_S)
    assert said["stdout"].split("\n")[:2] == ["got 4095", "got 4000"]


def test_a_line_of_any_length_goes_to_a_program_that_takes_each_key(server: Server) -> None:
    job_id = at_prompt(server, "stty raw -echo; head -c 6000 | wc -c", for_input=True, pty=True)
    assert "6000" in interact(server, job_id, "x" * 6000, add_newline=False, wait_s=LONG_S)["stdout"]


def test_the_end_of_input_comes_after_an_unfinished_line_too(server: Server) -> None:
    job_id = at_prompt(server, "stty -echo; cat; echo over", pty=True)
    said = interact(server, job_id, "no newline", add_newline=False, close_stdin=True, wait_s=LONG_S)
    server.call("wait_for_job", job_ids=[job_id], timeout_s=PATIENCE_S)
    assert said["stdout"].startswith("no newline")
    assert server.status(job_id)["status"] == "completed"


def test_a_wait_that_is_cut_says_so(start_server: StartServer) -> None:
    server = start_server(MCP_BG_MAX_WAIT="1")
    job_id = at_prompt(server, "read x; sleep 1000")
    assert interact(server, job_id, "go", wait_s=20)["waited_s"] == 1
    job_id = at_prompt(server, "cat")
    assert "waited_s" not in interact(server, job_id, "go", wait_s=20)


def test_what_an_ended_job_has_not_read_is_not_told(server: Server) -> None:
    """Whether its shim is there to ask or has ended with it, which is chance."""
    for _ in range(20):
        job_id = at_prompt(server, "read -n 1 x; exit 3", shell="bash")
        said = interact(server, job_id, "abcdef", wait_s=LONG_S)
        assert (said["exit_code"], "unread_bytes" in said) == (3, False)


@needs("less")
def test_a_row_of_a_screen_is_no_prompt(server: Server, tmp_path: Path) -> None:
    (tmp_path / "long").write_text("line\n" * 1000)
    job_id = at_prompt(server, f"less {tmp_path}/long", pty=True)
    status = server.status(job_id)
    assert (status["waits_for_input"], "prompt" in status) == (True, False)
    assert "prompt" not in server.call("tail_job_output", job_id=job_id)
    assert "prompt" not in interact(server, job_id, " ", add_newline=False, wait_s=LONG_S)


def test_an_empty_input_alone_presses_enter(server: Server) -> None:
    job_id = at_prompt(server, "read x; echo pressed; cat")
    assert interact(server, job_id, "", wait_s=LONG_S)["stdout"] == "pressed\n"


def test_nothing_at_all_is_a_clear_error(server: Server) -> None:
    job_id = server.execute("cat")
    with pytest.raises(ToolError, match="Nothing to type"):
        server.call("interact_with_job", job_id=job_id)


def test_ctrl_c_interrupts_without_a_terminal_too(server: Server) -> None:
    job_id = at_prompt(server, "python3 -qi")
    busy = interact(server, job_id, r"""exec("print('busy', flush=True)\nwhile True: pass")""", wait_s=0)
    assert "waits_for_input" not in busy
    server.wait_until_printed(job_id, "busy")
    said = server.call("interact_with_job", job_id=job_id, keys=["ctrl-c"], wait_s=LONG_S)
    assert "KeyboardInterrupt" in said["stderr"]
    assert (said["status"], said["accepted_bytes"], said["waits_for_input"]) == ("running", 0, True)


def test_ctrl_c_reaches_what_a_terminal_would_reach(server: Server, new_gate: Callable[[str], Gate]) -> None:
    """The job's group, and not a daemon that it has started; also where nothing can be typed."""
    in_daemon, in_job = new_gate("daemon"), new_gate("job")
    daemon = f"setsid -f sh -c '{in_daemon.reach}; exec sleep 1000'"
    job_id = server.execute(f"{daemon}; {in_job.reach}; exec sleep 1000", stdin="null")
    in_daemon.wait_until_reached()
    in_job.wait_until_reached()
    said = server.call("interact_with_job", job_id=job_id, keys=["ctrl-c"], wait_s=LONG_S)
    assert (said["status"], said["signal"], said["stdout"]) == ("killed", "SIGINT", "")
    assert server.status(job_id)["descendants"] == 1


def test_ctrl_d_without_a_terminal_is_the_end_of_input(server: Server) -> None:
    job_id = at_prompt(server, "cat; echo end; exit 3")
    said = server.call("interact_with_job", job_id=job_id, input="last", keys=["ctrl-d"], wait_s=LONG_S)
    assert (said["stdout"], said["exit_code"]) == ("lastend\n", 3)


@pytest.mark.parametrize("wait_s", [-1, "soon"])
def test_a_bad_wait_is_a_clear_error(server: Server, wait_s: object) -> None:
    job_id = server.execute("cat")
    with pytest.raises(ToolError, match="wait_s"):
        interact(server, job_id, "x", wait_s=wait_s)


@needs("node")
@pytest.mark.parametrize(("command", "pty"), [("node", True), ("node -i", False)])
def test_a_repl_that_waits_for_a_promise_is_not_done(server: Server, command: str, pty: bool) -> None:
    """It goes back to watching its input, and prints the value when it has come."""
    job_id = at_prompt(server, command, pty=pty)
    slow = "await new Promise(done => setTimeout(() => done(6 * 7), 1500))"
    said, took_s = timed(server, job_id, input=slow, wait_s=LONG_S)
    assert "42" in said["stdout"]
    assert (said["prompt"], took_s < LONG_S) == (">", True)


@needs("node")
def test_the_question_that_was_answered_is_not_asked_again(server: Server) -> None:
    job_id = at_prompt(server, "node -i")
    said = interact(server, job_id, "await new Promise(done => setTimeout(done, 1e9))", wait_s=1)
    assert (said["stdout"], "waits_for_input" in said) == ("", False)
    assert server.status(job_id)["waits_for_input"] is False


@needs("vim")
def test_an_editor_that_is_left_has_ended(server: Server, tmp_path: Path) -> None:
    """It waits for its terminal a last time before it ends."""
    job_id = at_prompt(server, f"vim -u NONE {tmp_path}/notes", pty=True)
    said, _ = timed(server, job_id, input="ihello world", keys=["esc"], wait_s=LONG_S)
    assert "hello world" in said["screen"]
    assert "prompt" not in said
    said, _ = timed(server, job_id, input=":wq", wait_s=LONG_S)
    assert (said["status"], said["exit_code"]) == ("completed", 0)
    assert (tmp_path / "notes").read_text() == "hello world\n"

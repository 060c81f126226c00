"""bgjob wait: until jobs end, print, listen, fall silent or ask; what came true, and as which exit code."""

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faces.command_line import BGJOB, Cli, has_socket
from tests.faces.own_terminal import assert_only_shown
from tests.support.escapes import ESCAPES
from tests.support.gate import Gate
from tests.support.homes import end_all_jobs
from tests.support.tmux import terminal
from tests.support.waiting import wait_until

AFTER = r"after \d+\.\d s"
LISTEN = (
    "exec python3 -c 'import socket, time; s = socket.create_server((\"127.0.0.1\", 0)); time.sleep(1000)'"
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("wait") / "home"
    yield home
    end_all_jobs(home)


@pytest.fixture(scope="module")
def cli(home: Path) -> Cli:
    return Cli(home)


@pytest.mark.parametrize(
    ("command", "options", "code", "said"),
    [
        ("exit 0", [], 0, rf"exit 0 {AFTER}"),
        ("exit 3", [], 3, rf"exit 3 {AFTER}"),
        ("kill -9 $$", [], 137, rf"SIGKILL {AFTER}"),
        ("sleep 1000", ["--timeout", "0.1"], 124, rf"timed out {AFTER}"),
        ("sleep 1000", ["--limit", "silence_s=0.1"], 143, rf"went over its silence limit {AFTER}"),
    ],
)
def test_the_end_of_a_job_gives_its_exit_code(
    cli: Cli, command: str, options: list[str], code: int, said: str
) -> None:
    job_id = cli.run(*options, "--", command)
    waited = cli("wait", job_id)
    assert re.fullmatch(rf"{job_id[:8]}: {said}\n", waited.stdout)
    assert (waited.stderr, waited.returncode) == ("", code)


@pytest.mark.parametrize(
    ("command", "options", "code", "said"),
    [
        ("echo it is ready; exec cat", ["--pattern", "rea.y"], 0, "printed: it is ready"),
        ("echo broken; exec cat", ["--pattern", "ready", "--stop-pattern", "bro"], 1, "printed: broken"),
        ("printf 'Name: '; read name", ["--input"], 0, "waits for input: Name:"),
        ("echo x; exec sleep 1000", ["--silence", "0.2s"], 0, "has fallen silent"),
        (LISTEN, ["--port", "any"], 0, r"listens on port \d+"),
        ("exit 0", ["--pattern", "ready"], 1, rf"exit 0 {AFTER}"),
        ("exit 5", ["--pattern", "ready"], 5, rf"exit 5 {AFTER}"),
        ("exec cat", ["--timeout", "0.2"], 124, "still running"),
        ("exec cat", ["--pattern", "ready", "--timeout", "0.2"], 124, "still running"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_condition_gives_0_where_it_came_true(
    cli: Cli, command: str, options: list[str], code: int, said: str
) -> None:
    job_id = cli.run("--name", "it", command)
    waited = cli("wait", *options, job_id)
    assert re.fullmatch(rf"it: {said}\n", waited.stdout), waited
    assert (waited.stderr, waited.returncode) == ("", code)


def test_a_prompt_does_not_end_a_wait_for_the_end(cli: Cli) -> None:
    """Another may answer it. The wait is for longer than a prompt takes to be seen."""
    job_id = cli.run("--name", "asks", "printf 'Name: '; read name; exit 4")
    assert cli("wait", "--input", job_id).returncode == 0
    assert cli("wait", "--timeout", "1", job_id).stdout == "asks: still running\n"
    cli("kill", job_id)


def test_of_several_jobs_all_are_waited_for(cli: Cli, gate: Gate) -> None:
    slow = cli.run("--name", "slow", f"{gate.pause}; exit 6")
    gate.wait_until_reached()
    quick = cli.run("--name", "quick", "exit 2")
    with cli.begin("wait", quick, slow) as waiting:
        gate.open()
        stdout, stderr = waiting.communicate(timeout=120)
    assert re.fullmatch(rf"quick: exit 2 {AFTER}\nslow: exit 6 {AFTER}\n", stdout)
    assert (stderr, waiting.returncode) == ("", 2)


def test_or_for_any_of_them(cli: Cli) -> None:
    slow, quick = cli.run("--name", "slow", "exec cat"), cli.run("--name", "quick", "exit 2")
    waited = cli("wait", "--any", slow, quick)
    assert re.fullmatch(rf"slow: still running\nquick: exit 2 {AFTER}\n", waited.stdout)
    assert waited.returncode == 2
    cli("kill", slow)


def test_as_json_each_job_is_an_object(cli: Cli) -> None:
    job_id = cli.run("--name", "it", "echo ready; exec cat")
    (found,) = map(json.loads, cli("wait", "--json", "--pattern", "ready", job_id).stdout.splitlines())
    chosen = {word: found.get(word) for word in ("job_id", "name", "status", "met", "condition", "detail")}
    assert chosen == {
        "job_id": job_id,
        "name": "it",
        "status": "running",
        "met": True,
        "condition": "pattern",
        "detail": "ready",
    }


def test_ctrl_c_ends_the_wait_and_not_the_job(cli: Cli, gate: Gate) -> None:
    job_id = cli.run(f"{gate.pause}; exit 3")
    gate.wait_until_reached()
    with cli.begin("wait", job_id) as waiting:
        wait_until(lambda: has_socket(waiting.pid))
        waiting.send_signal(signal.SIGINT)
        assert waiting.communicate(timeout=120) == ("", "")
    assert waiting.returncode == 130
    gate.open()
    assert cli("wait", job_id).returncode == 3


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["no such job"], 125, "bgjob: Job no such job not found"),
        (["--pattern", "("], 125, "is not valid: missing )"),
        (["--port", "x"], 2, "Accepted: 1 to 65535, or any"),
        (["--port", "70000"], 2, "Accepted: 1 to 65535, or any"),
        (["--timeout", "soon"], 2, "Accepted: seconds, or e.g. 30m"),
        (["--any", "--all"], 2, "not allowed with"),
    ],
)
def test_errors_are_no_exit_code_of_a_job(cli: Cli, arguments: list[str], code: int, said: str) -> None:
    cli.run("true")
    refused = cli("wait", *arguments)
    assert (refused.returncode, refused.stdout) == (code, "")
    assert said in refused.stderr


def test_at_a_terminal_one_line_tells_what_is_waited_for_and_is_gone_at_the_end(
    cli: Cli, gate: Gate, tmp_path: Path
) -> None:
    job_id = cli.run("--name", "busy", f"printf 'half \\033[2Jdone\n'; {gate.pause}")
    gate.wait_until_reached()
    shell = ["sh", "-c", f"{BGJOB} wait {job_id}; echo over; exec cat"]
    with terminal(shell, tmp_path, cli.environment) as opened:
        opened.wait_for("busy: half done")
        gate.open()
        opened.wait_for("over")
        assert re.search(r"^busy: exit 0 after \d", opened.screen)
        assert "half" not in opened.screen


def test_nothing_that_a_job_printed_steers_a_terminal(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"|".join(ESCAPES.values()))
    job_id = cli.run("--name", "it", f"cat {tmp_path}/data; read x")
    for options in (["--input"], ["--pattern", "PWNED"], ["--json", "--input"]):
        waited = cli("wait", *options, job_id)
        assert "PWNED" in assert_only_shown(waited.stdout.encode())
        assert len(waited.stdout.splitlines()) == 1

"""The wire: stdout is the protocol's alone, and the server ends with its client, whatever it is doing."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from bgjob.api import Jobs
from tests.support.gate import Gate
from tests.support.raw_client import RawClient

SERVER_PATIENCE_S = 120.0

NOISY_SERVER = """
import os, sys
from bgjob import api, cli

def noisy_status(jobs, job_id, **options):
    print("a stray print", flush=True)
    os.system("echo a stray child; cat")   # cat: nor may a child eat the client's messages
    return api.job_status(jobs.context, job_id, **options)

api.Jobs.status = noisy_status
cli.main(["mcp"])
"""


@pytest.fixture
def client(home: Path) -> Iterator[RawClient]:
    with RawClient(home) as client:
        client.shake_hands()
        yield client


def test_noise_of_jobs_and_of_the_server_never_reaches_stdout(home: Path) -> None:
    import sys

    with RawClient(home, [sys.executable, "-c", NOISY_SERVER]) as client:
        client.shake_hands()
        job_id = client.execute("echo a loud job; echo on both >&2; cat")
        client.write(b"this is no message")
        client.call("get_job_status", {"job_id": job_id})
        client.call("kill_job", {"job_id": job_id})
        client.hang_up()
        client.rest()
        assert client.lines
        assert {json.loads(line)["jsonrpc"] for line in client.lines} == {"2.0"}
        for noise in ("a stray print", "a stray child", "this is no message"):
            assert noise in client.stderr
        assert "a loud job" not in client.stderr


def test_the_server_ends_with_its_stdin(client: RawClient) -> None:
    client.hang_up()
    assert client.process.wait(SERVER_PATIENCE_S) == 0


def test_the_server_ends_with_its_client_though_a_call_is_in_flight(
    client: RawClient, gate: Gate, tmp_path: Path, jobs: Jobs
) -> None:
    """And the job is none the worse."""
    asked = Gate(tmp_path / "asked")
    job_id = client.execute(f"trap '{asked.reach}' TERM; {gate.reach}; while :; do sleep 0.01; done")
    gate.wait_until_reached()
    client.send_call("kill_job", {"job_id": job_id, "grace_s": 60})
    asked.wait_until_reached()
    client.hang_up()
    client.stdout.close()
    assert client.process.wait(SERVER_PATIENCE_S) == 0
    assert jobs.kill(job_id, grace_s=0).status == "killed"


def test_what_was_asked_before_the_end_of_stdin_is_still_answered(client: RawClient) -> None:
    """`printf … | bgjob mcp` works."""
    asked = [client.send("ping"), client.send_call("list_jobs"), client.send("tools/list")]
    client.hang_up()
    assert sorted(message["id"] for message in client.rest()) == asked
    assert client.process.wait(SERVER_PATIENCE_S) == 0


def test_the_server_ends_when_nobody_reads_its_answers(client: RawClient) -> None:
    client.stdout.close()
    client.send("ping")
    assert client.process.wait(SERVER_PATIENCE_S) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_server_at_once_and_without_a_word(
    client: RawClient, number: signal.Signals
) -> None:
    os.kill(client.process.pid, number)
    assert client.process.wait(SERVER_PATIENCE_S) == -number
    assert client.stderr == ""


def test_a_client_that_reads_slowly_stops_no_other_call(client: RawClient, jobs: Jobs, gate: Gate) -> None:
    """Answers of many megabytes wait for their reader; the calls behind them are done meanwhile."""
    noisy = client.execute("seq 1 20000")
    for _ in jobs.follow(noisy, wait=True):
        pass
    asked = [client.send_call("get_job_output", {"job_id": noisy}) for _ in range(20)]
    asked.append(client.send_call("execute_command", {"command": f"{gate.reach}"}))
    gate.wait_until_reached()  # and nothing was read yet
    assert sorted(client.answer_to(number)["id"] for number in asked) == asked

"""The stdio transport: every kind of descriptor, clients that read slowly or not at all, and what follows EOF."""

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bgjob.api import Jobs
from tests.support.gate import Gate
from tests.support.raw_client import HANDSHAKE, SERVE, Message, RawClient
from tests.support.waiting import PATIENCE_S, wait_until
from tests.support.wires import WIRES, pipes

MEGABYTE = "x" * (1 << 20)
MUCH = 40 << 20
"""More than may wait for a client, and less than all answers together."""


@pytest.fixture
def client(home: Path) -> Iterator[RawClient]:
    with RawClient(home) as client:
        client.shake_hands()
        yield client


def ping(request_id: object) -> bytes:
    """Its answer is as long as its id."""
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "method": "ping"}).encode()


def waiting_call(client: RawClient, gate: Gate, **arguments: Any) -> int:
    """A call that waits for a job until its gate is opened; provably in flight."""
    job_id = client.execute(gate.pause)
    gate.wait_until_reached()
    asked = client.send_call("wait_for_job", {"job_ids": [job_id], **arguments})
    client.ask("ping")
    return asked


class TestNonBlocking:
    """Whoever shares a descriptor with the server may have set O_NONBLOCK on it, for both."""

    @pytest.mark.parametrize("kind", WIRES)
    @pytest.mark.parametrize("ends", ["stdin", "stdout", "both"])
    def test_every_message_gets_through(self, home: Path, kind: str, ends: str) -> None:
        wire = WIRES[kind]()
        for name in ("stdin", "stdout"):
            if ends in (name, "both"):
                os.set_blocking(getattr(wire, name), False)
        with RawClient(home, SERVE, wire) as client:
            client.shake_hands()
            client.write(ping(MEGABYTE))
            client.write(ping(2))  # it can be read only while the first answer is not
            assert client.next_message() == {"jsonrpc": "2.0", "id": MEGABYTE, "result": {}}
            assert client.next_message()["id"] == 2
            client.hang_up()
            assert client.process.wait(PATIENCE_S) == 0


class TestSlowClients:
    def test_unread_answers_are_bounded(self, client: RawClient) -> None:
        """The server reads no more requests, and takes no more memory, until its answers are read."""
        client.tools()
        before = memory_bytes(client.process.pid)
        asked = [f"unread {number}" for number in range(4000)]
        lines = b"".join(json.dumps(request(each, "tools/list", {})).encode() + b"\n" for each in asked)
        with ThreadPoolExecutor() as pool:
            writing = pool.submit(client.write_bytes, lines)
            wait_until(lambda: is_at_rest(client.process.pid), "the server waits for its reader")
            assert memory_bytes(client.process.pid) < before + MUCH
            assert [client.next_message()["id"] for _ in asked] == asked
            writing.result()

    def test_two_hundred_calls_at_once_are_each_answered(self, client: RawClient, gate: Gate) -> None:
        """Nothing is read before all are sent, and none of them ends before that."""
        job_id = client.execute(gate.pause)
        gate.wait_until_reached()
        asked = [client.send_call("wait_for_job", {"job_ids": [job_id], "timeout_s": 45}) for _ in range(200)]
        gate.open()
        answers = [client.next_message() for _ in asked]
        assert sorted(answer["id"] for answer in answers) == asked
        assert {outcome(answer) for answer in answers} == {"completed"}

    def test_a_client_may_read_one_byte_at_a_time(self, client: RawClient) -> None:
        for number in range(20):
            client.write(ping(f"{number}" * 5000))
        got = b""
        while got.count(b"\n") < 20:
            got += os.read(client.stdout.fileno(), 1 if len(got) % 50 else 4000)
        assert [json.loads(line)["id"][:1] for line in got.splitlines()] == [str(n)[:1] for n in range(20)]

    def test_nobody_needs_to_read_stderr(self, home: Path) -> None:
        unread, stderr = os.pipe()
        try:
            with RawClient(home, SERVE, pipes()._replace(stderr=stderr)) as client:
                client.shake_hands()
                for _ in range(3000):
                    client.write(b"this is no message, and the log says so")
                    assert client.next_message()["error"]["code"] == -32700
                assert client.ask("ping")["result"] == {}
        finally:
            os.close(unread)
            os.close(stderr)

    def test_a_server_without_stderr_writes_its_log_into_no_other_file(self, home: Path) -> None:
        command = ["/bin/sh", "-c", 'exec "$@" 2>&-', "sh", *SERVE]
        with RawClient(home, command) as client:
            client.shake_hands()
            client.write(b"this is no message")
            assert client.next_message()["error"]["code"] == -32700
            assert Path(f"/proc/{client.process.pid}/fd/2").readlink() == Path(os.devnull)


class TestCancelled:
    def test_a_cancelled_wait_is_not_answered(self, client: RawClient, gate: Gate) -> None:
        asked = waiting_call(client, gate)
        cancel(client, asked)
        client.ask("ping")  # answered by who has read the cancellation: only then the wait may end
        gate.open()
        client.hang_up()
        assert client.rest() == []
        assert client.process.wait(PATIENCE_S) == 0

    def test_waits_are_cancelled_freely(self, client: RawClient, gate: Gate) -> None:
        """Those that are not cancelled are answered."""
        job_id = client.execute(gate.pause)
        gate.wait_until_reached()
        asked = [client.send_call("wait_for_job", {"job_ids": [job_id], "timeout_s": 45}) for _ in range(100)]
        for request_id in asked[::2]:
            cancel(client, request_id)
        client.ask("ping")
        gate.open()
        client.hang_up()
        assert sorted(answer["id"] for answer in client.rest()) == asked[1::2]

    def test_what_is_not_in_flight_is_cancelled_without_a_word(self, client: RawClient) -> None:
        answered = client.ask("ping")["id"]
        for request_id in (answered, 10_000, "never", None, True, 1.5, [1]):
            cancel(client, request_id)
        assert client.ask("ping")["result"] == {}

    def test_two_calls_of_one_id_are_both_answered(self, client: RawClient, gate: Gate) -> None:
        """No client may do so, and one that does is not left waiting; not even after EOF."""
        call = same_id_twice(client, gate)
        gate.open()
        client.hang_up()
        assert [answer["id"] for answer in client.rest()] == [call, call]

    def test_two_calls_of_one_id_are_both_cancelled(self, client: RawClient, gate: Gate) -> None:
        cancel(client, same_id_twice(client, gate))
        client.hang_up()
        assert client.rest() == []
        assert client.process.wait(PATIENCE_S) == 0


class TestTheEnd:
    def test_a_file_of_requests_is_a_session(self, home: Path, tmp_path: Path) -> None:
        """`bgjob mcp < session.jsonl > answers.jsonl`, with a call that takes more than a second."""
        session, answers = tmp_path / "session.jsonl", tmp_path / "answers.jsonl"
        call = {"name": "execute_command", "arguments": {"command": "sleep 2; echo done", "wait_s": 40}}
        requests = [("initialize", HANDSHAKE), ("tools/call", call), ("ping", {})]
        session.write_text(
            "\n".join(json.dumps(request(number, *each)) for number, each in enumerate(requests))
        )
        with session.open() as stdin, answers.open("w") as stdout:
            environment = {**os.environ, "BGJOB_HOME": str(home)}
            subprocess.run(
                SERVE, stdin=stdin, stdout=stdout, env=environment, check=True, timeout=2 * PATIENCE_S
            )
        got = {answer["id"]: answer for answer in map(json.loads, answers.read_text().splitlines())}
        assert sorted(got) == [0, 1, 2]
        assert got[1]["result"]["structuredContent"]["stdout"] == "done\n"

    def test_a_call_in_flight_at_eof_is_answered_once_it_is_done(self, client: RawClient, gate: Gate) -> None:
        asked = waiting_call(client, gate)
        client.hang_up()
        gate.open()
        (answer,) = client.rest()
        assert answer["id"] == asked
        assert client.process.wait(PATIENCE_S) == 0

    @pytest.mark.parametrize("kind", [kind for kind in WIRES if kind != "one socket"])
    def test_it_ends_at_once_when_its_reader_goes_after_eof(self, home: Path, kind: str, gate: Gate) -> None:
        with RawClient(home, SERVE, WIRES[kind]()) as client:
            client.shake_hands()
            waiting_call(client, gate)
            client.hang_up()
            client.stdout.close()
            assert client.process.wait(PATIENCE_S) == 0
        gate.open()

    def test_it_ends_when_an_answer_that_came_late_finds_no_reader(
        self, client: RawClient, gate: Gate
    ) -> None:
        """Though its stdin stays open."""
        waiting_call(client, gate)
        client.stdout.close()
        gate.open()
        assert client.process.wait(PATIENCE_S) == 0

    def test_a_last_line_needs_no_end(self, client: RawClient) -> None:
        client.write_bytes(ping("the last"))
        client.hang_up()
        assert [answer["id"] for answer in client.rest()] == ["the last"]

    def test_answers_that_are_longer_than_the_pipe_are_delivered_after_eof(self, client: RawClient) -> None:
        for number in range(5):
            client.write(ping(f"{number}{MEGABYTE}"))
        client.hang_up()
        assert [answer["id"][0] for answer in client.rest()] == list("01234")
        assert client.process.wait(PATIENCE_S) == 0


def test_a_job_does_not_hold_the_wire(home: Path, jobs: Jobs) -> None:
    """Else a client would wait for the end of stdout until the job ends."""
    with RawClient(home) as client:
        client.shake_hands()
        job_id = client.execute("cat")
        client.hang_up()
        assert client.rest() == []
    assert jobs.kill(job_id).status == "killed"


def request(request_id: int | str, method: str, params: Message) -> Message:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def cancel(client: RawClient, request_id: object) -> None:
    params = {"requestId": request_id}
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
    client.write(json.dumps(note).encode())


def same_id_twice(client: RawClient, gate: Gate) -> str:
    job_id = client.execute(gate.pause)
    gate.wait_until_reached()
    call = {"name": "wait_for_job", "arguments": {"job_ids": [job_id]}}
    for _ in range(2):
        client.write(json.dumps(request("twice", "tools/call", call)).encode())
    client.ask("ping")
    return "twice"


def outcome(answer: Message) -> str:
    return str(answer["result"]["structuredContent"]["jobs"][0]["status"])


def memory_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmRSS"))


def is_at_rest(pid: int) -> bool:
    """No thread of it does anything, however often one looks."""
    return all(state == "S" for _ in range(200) for state in thread_states(pid))


def thread_states(pid: int) -> Iterator[str]:
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError):
            yield (thread / "stat").read_text().rpartition(") ")[2][0]

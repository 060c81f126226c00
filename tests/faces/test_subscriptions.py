"""Clients are told when a job's output or standing changes, whichever server started it."""

import contextlib
import fcntl
import json
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal

from bgjob.api import Jobs
from bgjob.mcp.caller import Caller, Channel
from bgjob.mcp.server import SERVER
from bgjob.mcp.service import Service
from bgjob.mcp.subscriptions import Subscriptions
from bgjob.protocol.request import Client, Request
from tests.support.eras import ERAS, Era, alone
from tests.support.gate import Gate
from tests.support.raw_client import Message, RawClient
from tests.support.server import StartServer
from tests.support.stores import ended_job
from tests.support.waiting import wait_until

UPDATED = "notifications/resources/updated"
LIST_CHANGED = "notifications/resources/list_changed"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
NO_JOB = "bgjob://jobs/00000000-0000-4000-8000-000000000000/output"
MOST_PER_SECOND = 5

Start = Callable[[], RawClient]


@pytest.fixture
def start(home: Path) -> Iterator[Start]:
    """Any number of servers on one home, each with a client."""
    with contextlib.ExitStack() as started:

        def client() -> RawClient:
            client = started.enter_context(RawClient(home))
            client.shake_hands()
            return client

        yield client


class Subscriber:
    """A client that has subscribed, in the one way or the other."""

    def __init__(self, client: RawClient, era: Era, *uris: str, **notifications: Any) -> None:
        self.client, self.era = client, era
        if era == "handshake":
            for uri in uris:
                assert client.ask("resources/subscribe", {"uri": uri})["result"] == {}
        else:
            wanted = {"resourceSubscriptions": list(uris), **notifications}
            self.id = client.send("subscriptions/listen", alone(notifications=wanted))
            acknowledged = self.next()
            assert acknowledged["method"] == ACKNOWLEDGED
            self.honoured = acknowledged["params"]["notifications"]

    def next(self) -> Message:
        """The next message, whatever it is."""
        line = self.client.stdout.readline()
        assert line, self.client.stderr
        self.client.lines.append(line)
        message: Message = json.loads(line)
        if self.era == "stateless" and "method" in message:
            assert message["params"]["_meta"] == {SUBSCRIPTION: self.id}
        return message

    def updated(self) -> str:
        """Waits for the next notification that a resource has changed."""
        message = self.next()
        assert message["method"] == UPDATED
        return str(message["params"]["uri"])

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Looks again after each notification, also after one that came while it looked."""
        while True:
            before = len(told(self.client))
            if is_so():
                return
            if len(told(self.client)) == before:
                self.next()

    def wait_for(self, *uris: str) -> None:
        """Until each of them has been told, in any order."""
        missing = set(uris)
        while missing:
            missing.discard(self.updated())


def told(client: RawClient) -> list[str]:
    """The URIs of all notifications that have come."""
    messages = map(json.loads, client.lines)
    return [message["params"]["uri"] for message in messages if message.get("method") == UPDATED]


def text(client: RawClient, uri: str) -> str:
    return str(client.ask("resources/read", {"uri": uri})["result"]["contents"][0]["text"])


def wait_for_end(client: RawClient, job_id: str) -> None:
    waited = client.call("wait_for_job", {"job_ids": [job_id], "timeout_s": 40})["structuredContent"]
    assert waited["met"]


class TestOfAnotherServer:
    @pytest.mark.parametrize("era", ERAS)
    def test_its_output_and_its_end_are_told(self, start: Start, gate: Gate, era: Era) -> None:
        ours, other = start(), start()
        job_id = other.execute(f"{gate.pause}; echo it; {gate.pause}; exit 3")
        gate.wait_until_reached()
        stdout, stderr, status = (f"bgjob://jobs/{job_id}/{view}" for view in ("stdout", "stderr", "status"))
        subscriber = Subscriber(ours, era, stderr, stdout)
        gate.open()
        assert subscriber.updated() == stdout
        assert text(ours, stdout) == "it\n"
        gate.wait_until_reached()
        gate.open()
        subscriber.wait_for(stdout, stderr)
        assert json.loads(text(ours, status))["exit_code"] == 3

    @pytest.mark.parametrize("era", ERAS)
    def test_it_may_be_killed(self, start: Start, gate: Gate, era: Era) -> None:
        ours, other = start(), start()
        job_id = other.execute(f"{gate.pause}; echo it; exec cat")
        gate.wait_until_reached()
        uri = f"bgjob://jobs/{job_id}/output"
        subscriber = Subscriber(ours, era, uri)
        other.process.kill()
        other.process.wait()
        gate.open()
        assert subscriber.updated() == uri
        assert "it" in text(ours, uri)

    def test_a_new_job_of_a_name(self, start: Start) -> None:
        ours, other = start(), start()
        uri = "bgjob://jobs/dev/stdout"
        other.call("execute_command", {"command": "echo 1", "name": "dev", "wait_s": 40})
        subscriber = Subscriber(ours, "handshake", uri)
        other.call("execute_command", {"command": "echo 2", "name": "dev", "wait_s": 40})
        subscriber.wait_until(lambda: text(ours, uri) == "2\n")

    @pytest.mark.parametrize("era", ERAS)
    def test_a_removed_job_is_told_of_once_more(self, start: Start, jobs: Jobs, era: Era) -> None:
        ours = start()
        gone, job_id = (ended_job(jobs.store) for _ in range(2))
        uris = [f"bgjob://jobs/{each}/output" for each in (gone, job_id)]
        subscriber = Subscriber(ours, era, *uris)
        for uri in uris:
            ((place, removed),) = [each for each in jobs.store.ids() if each[1] in uri]
            jobs.store.remove(place, removed)
            assert subscriber.updated() == uri
        assert told(ours) == uris


class TestAspects:
    def test_a_prompt_changes_the_status(self, start: Start) -> None:
        client = start()
        job_id = client.execute("printf 'Name: '; read name")
        uri = f"bgjob://jobs/{job_id}/status"
        subscriber = Subscriber(client, "handshake", uri)
        subscriber.wait_until(lambda: json.loads(text(client, uri)).get("waits_for_input", False))

    def test_a_resize_changes_the_screen(self, start: Start) -> None:
        client = start()
        job_id = client.call("execute_command", {"command": "exec cat", "pty": True})["structuredContent"][
            "job_id"
        ]
        uri = f"bgjob://jobs/{job_id}/screen"
        subscriber = Subscriber(client, "stateless", uri)
        client.send_call(
            "interact_with_job", {"job_id": job_id, "input": "", "rows": 10, "add_newline": False}
        )
        while (message := subscriber.next()).get("method") != UPDATED:
            assert "result" in message
        assert message["params"]["uri"] == uri

    def test_a_queued_job_that_starts(self, home: Path) -> None:
        with RawClient(home, MCP_BG_MAX_JOBS="1") as client:
            client.shake_hands()
            first = client.execute("exec cat")
            queued = client.call("execute_command", {"command": "exec cat", "queue": True})[
                "structuredContent"
            ]
            uri = f"bgjob://jobs/{queued['job_id']}/status"
            assert queued["status"] == "queued"
            subscriber = Subscriber(client, "handshake", uri, "bgjob://jobs")
            client.call("kill_job", {"job_id": first, "grace_s": 0})
            subscriber.wait_until(lambda: json.loads(text(client, uri))["status"] == "running")
            subscriber.wait_until(lambda: "bgjob://jobs" in told(client))


class TestBounds:
    @pytest.mark.parametrize("era", ERAS)
    def test_a_hundred_thousand_lines_are_few_notifications(self, start: Start, gate: Gate, era: Era) -> None:
        client = start()
        job_id = client.execute(f"{gate.pause}; for i in 1 2 3 4 5; do seq 20000; sleep 0.1; done; echo end")
        gate.wait_until_reached()
        stdout, status = (f"bgjob://jobs/{job_id}/{view}" for view in ("stdout", "status"))
        subscriber = Subscriber(client, era, stdout, status)
        began = time.monotonic()
        gate.open()
        subscriber.wait_until(lambda: text(client, f"{stdout}?lines=1") == "end\n")
        wait_for_end(client, job_id)
        passed_s = time.monotonic() - began
        assert 1 <= told(client).count(stdout) <= 2 + passed_s * MOST_PER_SECOND

    def test_what_a_client_does_not_read_does_not_pile_up(self, start: Start, gate: Gate) -> None:
        """Its pipe is full: of each resource one notification waits, however long it is."""
        client, other = start(), start()
        job_id = other.execute(f"{gate.pause}; for i in 1 2 3 4 5 6; do echo; sleep 0.25; done")
        gate.wait_until_reached()
        uri = f"bgjob://jobs/{job_id}/stdout"
        client.ask("resources/subscribe", {"uri": uri})
        asked = [client.send("tools/list") for _ in range(40)]
        wait_until(lambda: not unread_bytes(client), "the server has read them all")
        gate.open()
        wait_for_end(other, job_id)
        client.answer_to(asked[-1])
        client.ask("ping")
        assert told(client).count(uri) <= 2

    def test_a_thread_tells_no_more_until_the_last_is_read(self, jobs: Jobs, gate: Gate) -> None:
        job_id = jobs.execute(f"{gate.pause}; echo 1; {gate.pause}; echo 2; {gate.pause}").id
        uri = f"bgjob://jobs/{job_id}/stdout"
        slow, quick = list[Message](), list[Message]()
        read = threading.Event()
        slow_one = Subscriptions(jobs, Channel(slow.append, lambda: assert_set(read)))
        quick_one = Subscriptions(jobs, Channel(quick.append, lambda: None))
        for each in (slow_one, quick_one):
            each.subscribe(subscription_to(uri))
        gate.wait_until_reached()
        gate.open()
        wait_until(lambda: len(quick) == len(slow) == 1, "both are told")
        gate.wait_until_reached()
        gate.open()
        wait_until(lambda: len(quick) == 2, "the quick one is told")
        assert len(slow) == 1
        read.set()
        wait_until(lambda: len(slow) == 2, "told of the rest, once")
        for each in (slow_one, quick_one):
            each.close()


def unread_bytes(client: RawClient) -> int:
    """Of what we have sent."""
    return int.from_bytes(fcntl.ioctl(client.stdin.fileno(), termios.FIONREAD, bytes(4)), sys.byteorder)


def assert_set(event: threading.Event) -> None:
    assert event.wait(60)


def subscription_to(uri: str) -> Request:
    return Request(1, "resources/subscribe", {"uri": uri}, "2025-11-25", Client(), SERVER)


class TestSubscribing:
    def test_there_are_no_subscriptions_where_the_server_cannot_speak_first(self, jobs: Jobs) -> None:
        request = subscription_to("bgjob://jobs")
        answer = Service(jobs).perform(request, Caller(request, lambda _: None))
        assert answer["error"]["code"] == -32601

    def test_what_there_is_not(self, start: Start) -> None:
        client = start()
        for uri in (NO_JOB, "file:///etc/passwd", "bgjob://jobs/nothing/output"):
            error = client.ask("resources/subscribe", {"uri": uri})["error"]
            assert error["code"] == -32002
            assert error["data"] == {"uri": uri}
        assert client.ask("resources/subscribe", {})["error"]["code"] == -32602
        assert client.ask("resources/unsubscribe", {"uri": NO_JOB})["result"] == {}

    def test_nothing_is_told_after_an_unsubscribe(self, start: Start, gate: Gate) -> None:
        client = start()
        job_id = client.execute(f"{gate.pause}; echo it; {gate.pause}")
        gate.wait_until_reached()
        stdout, output = (f"bgjob://jobs/{job_id}/{view}" for view in ("stdout", "output"))
        subscriber = Subscriber(client, "handshake", stdout, output)
        client.ask("resources/unsubscribe", {"uri": stdout})
        gate.open()
        assert subscriber.updated() == output
        client.ask("resources/unsubscribe", {"uri": output})
        gate.wait_until_reached()
        gate.open()
        wait_for_end(client, job_id)
        assert told(client) == [output]

    def test_subscribing_again_after_the_last_unsubscribe(self, start: Start, gate: Gate) -> None:
        client = start()
        job_id = client.execute(f"{gate.pause}; echo it")
        gate.wait_until_reached()
        uri = f"bgjob://jobs/{job_id}/stdout"
        Subscriber(client, "handshake", uri)
        client.ask("resources/unsubscribe", {"uri": uri})
        subscriber = Subscriber(client, "handshake", uri)
        gate.open()
        assert subscriber.updated() == uri


class TestListening:
    def test_the_list_changes_when_jobs_come_and_go(self, start: Start, jobs: Jobs) -> None:
        ours, other = start(), start()
        subscriber = Subscriber(ours, "stateless", resourcesListChanged=True)
        assert subscriber.honoured == {"resourcesListChanged": True}
        job_id = other.execute("true")
        assert subscriber.next()["method"] == LIST_CHANGED
        wait_for_end(other, job_id)
        wait_until(lambda: not jobs.has_shim(job_id), "its shim has left")
        ((place, _),) = jobs.store.ids()
        jobs.store.remove(place, job_id)
        assert subscriber.next()["method"] == LIST_CHANGED
        assert len(ours.ask("resources/list")["result"]["resources"]) == 1

    def test_only_what_there_is_is_honoured(self, start: Start, jobs: Jobs) -> None:
        uri = f"bgjob://jobs/{ended_job(jobs.store)}/output"
        subscriber = Subscriber(
            start(), "stateless", NO_JOB, uri, "file:///x", f"{uri}?lines=0", toolsListChanged=True
        )
        assert subscriber.honoured == {"resourceSubscriptions": [uri]}
        assert Subscriber(subscriber.client, "stateless").honoured == {}

    def test_nothing_is_told_after_a_cancellation(self, start: Start, gate: Gate) -> None:
        client = start()
        job_id = client.execute(f"{gate.pause}; echo it")
        gate.wait_until_reached()
        stdout, output = (f"bgjob://jobs/{job_id}/{view}" for view in ("stdout", "output"))
        cancelled, subscriber = (
            Subscriber(client, "stateless", stdout),
            Subscriber(client, "stateless", output),
        )
        client.write(
            b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}' % cancelled.id
        )
        client.ask("ping")
        gate.open()
        assert subscriber.updated() == output
        wait_for_end(client, job_id)
        assert stdout not in told(client)

    def test_at_the_end_of_stdin_it_is_closed_gracefully(self, start: Start) -> None:
        client = start()
        subscriber = Subscriber(client, "stateless", "bgjob://jobs", resourcesListChanged=True)
        client.hang_up()
        (answer,) = client.rest()
        assert answer["id"] == subscriber.id
        assert answer["result"]["resultType"] == "complete"
        assert answer["result"]["_meta"][SUBSCRIPTION] == subscriber.id
        assert client.process.wait(30) == 0

    def test_the_official_client_listens(
        self, start_server: StartServer, portal: BlockingPortal, gate: Gate
    ) -> None:
        ours, other = start_server(), start_server()
        job_id = other.execute(f"{gate.pause}; echo it")
        gate.wait_until_reached()
        uri = f"bgjob://jobs/{job_id}/output"
        listening = portal.call(lambda: as_awaited(ours.client.listen(resource_subscriptions=[uri])))
        with portal.wrap_async_context_manager(listening) as subscription:
            gate.open()
            event = portal.call(subscription.__anext__)
            assert str(event.uri) == uri


async def as_awaited(value: Any) -> Any:
    return value

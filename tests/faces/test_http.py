"""MCP over HTTP: one message a POST, in every revision, without sessions."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bgjob.mcp.server import SERVER
from tests.support.gate import Gate
from tests.support.homes import end_all_jobs
from tests.support.http_server import (
    META,
    REVISION,
    Header,
    HttpServer,
    Response,
    handshake_request,
    head,
    response,
    stateless,
    tool_call,
)
from tests.support.waiting import wait_until

INITIALIZE = handshake_request(
    "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "raw", "version": "1"}
)
OLD = ("MCP-Protocol-Version", "2025-11-25")
NEW = ("MCP-Protocol-Version", REVISION)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    home = tmp_path_factory.mktemp("http") / "home"
    with HttpServer(home, MCP_BG_MAX_JOBS="1000") as server:
        yield server
    end_all_jobs(home)


def code_of(answer: Response) -> tuple[int, int]:
    return answer.status, answer.json["error"]["code"]


class TestMessages:
    def test_a_request_of_the_handshake_needs_no_session(self, shared: HttpServer) -> None:
        welcome = shared.post(INITIALIZE)
        assert welcome.status == 200
        assert welcome.json["result"]["protocolVersion"] == "2025-11-25"
        assert "mcp-session-id" not in map(str.lower, welcome.headers)
        tools = shared.post(handshake_request("tools/list"), OLD, ("Mcp-Session-Id", "made-up"))
        assert len(tools.json["result"]["tools"]) == 10

    def test_a_request_of_2026_stands_alone(self, shared: HttpServer) -> None:
        message, headers = stateless("tools/list")
        answer = shared.post(message, *headers)
        assert answer.headers["content-type"] == "application/json"
        assert answer.json["result"]["cacheScope"] == "private"

    def test_after_a_refusal_the_connection_can_be_used(self, shared: HttpServer) -> None:
        """Clients of older revisions try a GET first, and send their next request on the same connection."""
        with shared.connect() as connected:
            connected.sendall(head("GET", "/mcp", shared.headers()))
            assert response(connected).status == 405
            connected.sendall(head("GET", "/healthz", [shared.host()]))
            assert response(connected).status == 200

    def test_no_answer_has_news(self, shared: HttpServer) -> None:
        job_id = shared.execute("true", name="quick")
        shared.call("wait_for_job", job_ids=[job_id])
        assert "news" not in shared.call("list_jobs")

    @pytest.mark.parametrize("method", ["notifications/initialized", "notifications/cancelled"])
    def test_a_notification_is_accepted(self, shared: HttpServer, method: str) -> None:
        answer = shared.post({"jsonrpc": "2.0", "method": method, "params": {"requestId": 1}})
        assert (answer.status, answer.body) == (202, b"")

    def test_so_is_an_answer_to_nothing(self, shared: HttpServer) -> None:
        assert shared.post({"jsonrpc": "2.0", "id": 7, "result": {}}, OLD).status == 202


def no_headers(message: object) -> tuple[object, list[Header]]:
    return message, []


REFUSED: dict[str, tuple[tuple[object, list[Header]], tuple[int, int]]] = {
    "no JSON": (no_headers(b"{"), (400, -32700)),
    "too deep": (no_headers(b"[" * 200_000), (400, -32700)),
    "empty": (no_headers(b""), (400, -32700)),
    "a number": (no_headers(17), (400, -32600)),
    "id null": (no_headers({"jsonrpc": "2.0", "id": None, "method": "ping"}), (400, -32600)),
    "an empty batch": (no_headers([]), (400, -32600)),
    "a batch": (no_headers([INITIALIZE]), (400, -32600)),
    "a batch of 2025-03-26": (([INITIALIZE], [("MCP-Protocol-Version", "2025-03-26")]), (400, -32600)),
    "unknown method": (stateless("tools/nothing"), (404, -32601)),
    "unknown method before 2026": ((handshake_request("tools/nothing"), [OLD]), (200, -32601)),
    "unknown tool": (tool_call("nothing", {}), (400, -32602)),
    "unknown tool before 2026": ((handshake_request("tools/call", name="nothing"), [OLD]), (200, -32602)),
    "no header": ((stateless("tools/list")[0], []), (400, -32020)),
    "header of another method": (
        (stateless("tools/list")[0], stateless("server/discover")[1]),
        (400, -32020),
    ),
    "header of an older revision": (
        (stateless("tools/list")[0], [OLD, ("Mcp-Method", "tools/list")]),
        (400, -32020),
    ),
    "unknown revision": (
        (handshake_request("tools/list"), [("MCP-Protocol-Version", "1999-01-01")]),
        (400, -32602),
    ),
    "unknown revision of a notification": (
        ({"jsonrpc": "2.0", "method": "notifications/initialized"}, [("MCP-Protocol-Version", "1999-01-01")]),
        (400, -32022),
    ),
    "revision that there is not": (
        (
            stateless("tools/list", _meta={**META, "io.modelcontextprotocol/protocolVersion": "2099-01-01"})[
                0
            ],
            [("MCP-Protocol-Version", "2099-01-01"), ("Mcp-Method", "tools/list")],
        ),
        (400, -32022),
    ),
    "handshake in 2026": ((stateless("ping")), (404, -32601)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_wrong_with_a_message_has_its_codes(shared: HttpServer, what: str) -> None:
    (message, headers), codes = REFUSED[what]
    assert code_of(shared.post(message, *headers)) == codes


MEDIA_TYPES: dict[str, tuple[list[Header], int]] = {
    "only JSON": ([("Accept", "application/json")], 406),
    "only events": ([("Accept", "text/event-stream")], 406),
    "a page": ([("Accept", "text/html")], 406),
    "anything": ([("Accept", "*/*")], 200),
    "both, with weights": ([("Accept", "text/event-stream;q=0.5, Application/JSON")], 200),
    "both, in two headers": ([("Accept", "application/json"), ("Accept", "text/event-stream")], 200),
    "a form": ([("Content-Type", "application/x-www-form-urlencoded")], 415),
    "text": ([("Content-Type", "text/plain")], 415),
    "with a character set": ([("Content-Type", "application/json; charset=utf-8")], 200),
}


@pytest.mark.parametrize("what", MEDIA_TYPES)
def test_media_types_are_checked(shared: HttpServer, what: str) -> None:
    headers, status = MEDIA_TYPES[what]
    assert shared.post(INITIALIZE, *headers).status == status


class TestStreams:
    def test_progress_makes_the_answer_a_stream(self, shared: HttpServer, gate: Gate) -> None:
        """The job ends when its first progress has been told: without a stream it would never end."""
        message, headers = tool_call("execute_command", {"command": gate.pause, "wait_s": 45}, progress="p")
        body = json.dumps(message).encode()
        with shared.connect() as connected:
            told = [*shared.headers(*headers), ("Content-Length", str(len(body)))]
            connected.sendall(head("POST", "/mcp", told) + body)
            received = b""
            while b"notifications/progress" not in received:
                received += connected.recv(65536)
            gate.wait_until_reached()
            gate.open()
            while b'"resultType"' not in received:
                received += connected.recv(65536)
        assert b"content-type: text/event-stream" in received
        assert b"x-accel-buffering: no" in received

    def test_without_progress_it_is_json(self, shared: HttpServer) -> None:
        message, headers = tool_call("execute_command", {"command": "sleep 1.2", "wait_s": 45})
        answer = shared.post(message, *headers)
        assert answer.headers["content-type"] == "application/json"

    def test_a_silent_stream_is_kept_alive(self, tmp_path: Path, gate: Gate) -> None:
        home = tmp_path / "home"
        shorter = "from bgjob.web import replies; replies.KEEP_ALIVE_S = 0.1"
        with HttpServer(home, first=shorter) as server, server.connect() as connected:
            send_call(server, connected, "execute_command", command=gate.pause, wait_s=45)
            received = b""
            while received.count(b"\r\n:\n\n\r\n") < 3:
                received += connected.recv(65536)
            gate.wait_until_reached()
            gate.open()
            while b'"resultType"' not in received:
                received += connected.recv(65536)
        end_all_jobs(home)

    @pytest.mark.skipif("subscriptions/listen" not in SERVER.methods, reason="there is nothing to listen to")
    def test_a_subscription_tells_and_is_closed_with_its_result(self, tmp_path: Path) -> None:
        home = tmp_path / "home"
        message, headers = stateless("subscriptions/listen", notifications={"resourcesListChanged": True})
        body = json.dumps(message).encode()
        with HttpServer(home) as server, server.connect() as connected:
            told = [*server.headers(*headers), ("Content-Length", str(len(body)))]
            connected.sendall(head("POST", "/mcp", told) + body)
            received = b""
            while b"notifications/subscriptions/acknowledged" not in received:
                received += connected.recv(65536)
            server.execute("true", wait_s=30)
            while b"notifications/resources/list_changed" not in received:
                received += connected.recv(65536)
            assert server.stop() == 0
            while piece := connected.recv(65536):
                received += piece
        assert b'"resultType":"complete"' in received
        assert received.endswith(b"0\r\n\r\n")

    def test_a_client_that_leaves_cancels_its_request_and_not_its_job(
        self, tmp_path: Path, gate: Gate
    ) -> None:
        home = tmp_path / "home"
        with HttpServer(home, MCP_BG_MAX_WAIT="600") as server:
            with server.connect() as connected:
                send_call(server, connected, "execute_command", command=gate.pause, wait_s=600, name="waited")
                gate.wait_until_reached()
                wait_until(lambda: threads(server) == 2, "the thread that imports the rest has ended")
            wait_until(lambda: threads(server) == 1, "the thread of the request ends, before the job does")
            gate.open()
            (waited,) = server.call("wait_for_job", job_ids=["waited"])["jobs"]
            assert waited["status"] == "completed"


def send_call(server: HttpServer, connected: Any, tool: str, **arguments: Any) -> None:
    message, headers = tool_call(tool, arguments)
    body = json.dumps(message).encode()
    told = [*server.headers(*headers), ("Content-Length", str(len(body)))]
    connected.sendall(head("POST", "/mcp", told) + body)


def threads(server: HttpServer) -> int:
    return len(list(Path(f"/proc/{server.process.pid}/task").iterdir()))


def metrics(server: HttpServer) -> str:
    answer = server.request("GET", "/metrics", [server.host(), server.authorization()])
    assert answer.status == 200
    return answer.body.decode()


class TestTwoServers:
    def test_they_cannot_be_told_apart(self, tmp_path: Path, gate: Gate) -> None:
        """Every request of a conversation goes to the other server than the one before."""
        home = tmp_path / "home"
        with HttpServer(home) as one, HttpServer(home) as other:
            assert one.token
            assert not other.token  # it is shown once
            other.token = one.token
            welcome = one.post(INITIALIZE).json
            assert other.post(INITIALIZE).json == welcome
            assert other.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, OLD).status == 202
            job_id = one.execute(f"echo begun; {gate.pause}; echo done")
            gate.wait_until_reached()
            assert other.call("get_job_status", job_id=job_id)["status"] == "running"
            gate.open()
            (waited,) = one.call("wait_for_job", job_ids=[job_id])["jobs"]
            assert waited["status"] == "completed"
            assert other.call("get_job_output", job_id=job_id)["stdout"] == "begun\ndone\n"
            assert other.call("list_jobs")["jobs"] == one.call("list_jobs")["jobs"]


class TestMetrics:
    def test_they_are_not_there_unless_asked_for(self, shared: HttpServer) -> None:
        assert shared.request("GET", "/metrics", [shared.host(), shared.authorization()]).status == 404

    def test_they_count_jobs_and_requests(self, tmp_path: Path) -> None:
        home = tmp_path / "home"
        with HttpServer(home, "--metrics") as server:
            job_id = server.execute("echo 12345", wait_s=30)
            server.execute("exit 3", wait_s=30)
            server.call("get_job_status", job_id=job_id)
            server.request("GET", "/mcp", [server.host()])
            server.post(*no_headers({"jsonrpc": "2.0", "id": 1, "method": "made/up"})[:1])
            text = metrics(server)
        assert 'bgjob_jobs{status="completed"} 1' in text
        assert 'bgjob_jobs{status="failed"} 1' in text
        assert "bgjob_output_bytes 6" in text
        assert 'bgjob_requests_total{method="tools/call",outcome="ok"} 3' in text
        assert 'bgjob_requests_total{method="other",outcome="error"} 1' in text
        assert 'bgjob_http_refused_total{status="401"} 1' in text
        assert 'bgjob_request_duration_seconds_bucket{le="+Inf"} 4' in text
        assert "bgjob_streams_open 0" in text
        assert all(line.startswith("#") or len(line.rsplit(" ", 1)) == 2 for line in text.splitlines())

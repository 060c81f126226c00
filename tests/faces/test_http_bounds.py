"""What a client of the HTTP server cannot do: fill its memory, hold its connections, keep it from stopping."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import repeat
from pathlib import Path

import pytest

from bgjob.core.errors import CannotServe
from bgjob.web.body import MOST_BYTES
from bgjob.web.listen import bound_address, bound_unix
from tests.support.gate import Gate
from tests.support.homes import end_all_jobs
from tests.support.http_server import HttpServer, head, response, send_wait, stateless
from tests.support.requires import needs
from tests.support.tls import tls_server
from tests.support.waiting import wait_until

HURRIED_HEAD = "from bgjob.web import connection; connection.HEAD_S = 0.2"
HURRIED_SECOND_HEAD = """
from bgjob.web import connection
complete = connection.TimedConnection.on_response_complete
def hurry(self):
    connection.HEAD_S = 0.2
    complete(self)
connection.TimedConnection.on_response_complete = hurry
"""
HURRIED_BODY = "from bgjob.web import body; body.PATIENCE_S = 0.2"
HURRIED_READER = "from bgjob.web import connection; connection.UNREAD_S = 0.2"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    with HttpServer(tmp_path_factory.mktemp("bounds") / "home") as server:
        yield server


def is_ended(connected: socket.socket) -> bool:
    """The server has closed it; else this raises TimeoutError."""
    with contextlib.suppress(ConnectionResetError):
        while connected.recv(65536):
            pass
    return True


def is_cut_off(connected: socket.socket, pieces: Iterable[bytes]) -> bool:
    """While they are sent, the server has closed it."""
    try:
        for piece in pieces:
            connected.sendall(piece)
    except (ConnectionResetError, BrokenPipeError):
        return True
    return False


class TestSlowClients:
    def test_one_that_sends_nothing_is_ended(self, tmp_path: Path) -> None:
        with HttpServer(tmp_path / "home", first=HURRIED_HEAD) as server, server.connect() as connected:
            assert is_ended(connected)

    def test_one_whose_head_never_ends_is_ended(self, tmp_path: Path) -> None:
        """Each byte comes in time, the head does not."""
        with HttpServer(tmp_path / "home", first=HURRIED_HEAD) as server, server.connect() as connected:
            assert is_cut_off(connected, slowly(b"GET /healthz HTTP/1.1\r\nX-Long: " + b"x" * 20_000))

    def test_also_after_an_answer(self, tmp_path: Path) -> None:
        with (
            HttpServer(tmp_path / "home", first=HURRIED_SECOND_HEAD) as server,
            server.connect() as connected,
        ):
            connected.sendall(head("GET", "/healthz", [server.host()]))
            assert response(connected).status == 200
            assert is_cut_off(connected, slowly(b"GET /healthz HTTP/1.1\r\nX-Long: " + b"x" * 20_000))

    def test_one_that_does_not_send_its_whole_body_is_told_so(self, tmp_path: Path) -> None:
        with HttpServer(tmp_path / "home", first=HURRIED_BODY) as server, server.connect() as connected:
            headers = [*server.headers(), ("Content-Length", "100")]
            connected.sendall(head("POST", "/mcp", headers) + b"{")
            assert response(connected).status == 408
            assert is_ended(connected)

    def test_one_that_does_not_read_its_answers_is_ended(self, tmp_path: Path) -> None:
        """The server first stops to read from it, and then ends it."""
        message, headers = stateless("tools/list")
        body = json.dumps(message).encode()
        with HttpServer(tmp_path / "home", first=HURRIED_READER) as server, server.connect() as connected:
            told = [*server.headers(*headers), ("Content-Length", str(len(body)))]
            assert is_cut_off(connected, repeat(head("POST", "/mcp", told) + body))


def slowly(data: bytes) -> Iterator[bytes]:
    for byte in data:
        time.sleep(0.002)
        yield bytes([byte])


class TestSizes:
    def test_a_body_that_is_announced_as_too_large_is_refused_unread(self, shared: HttpServer) -> None:
        with shared.connect() as connected:
            headers = [*shared.headers(), ("Content-Length", str(MOST_BYTES + 1))]
            connected.sendall(head("POST", "/mcp", headers))
            assert response(connected).status == 413

    def test_so_is_one_that_comes_in_pieces(self, shared: HttpServer) -> None:
        piece = b"%x\r\n%b\r\n" % (1 << 20, b" " * (1 << 20))
        with shared.connect() as connected:
            connected.sendall(head("POST", "/mcp", [*shared.headers(), ("Transfer-Encoding", "chunked")]))
            for _ in range(MOST_BYTES >> 20):
                connected.sendall(piece)
            connected.sendall(b"1\r\n \r\n")
            assert response(connected).status == 413

    def test_the_largest_body_is_read(self, tmp_path: Path) -> None:
        with HttpServer(tmp_path / "home") as server:
            message, headers = stateless("tools/list")
            body = json.dumps(message).encode().ljust(MOST_BYTES)
            assert server.post(body, *headers).status == 200

    def test_a_head_without_end_is_refused(self, shared: HttpServer) -> None:
        with shared.connect() as connected:
            connected.sendall(b"GET /healthz HTTP/1.1\r\n")
            assert is_cut_off(connected, repeat(b"X-Long: x\r\n" * 1000))


class TestMany:
    def test_two_hundred_waits_hold_up_no_quick_call(self, tmp_path: Path, gate: Gate) -> None:
        """Under a limit of open files that is too low for them: the server raises its own, not that of jobs."""
        home = tmp_path / "home"
        lower = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 8192))"
        with HttpServer(home, first=lower) as server, ExitStack() as opened:
            job_id = server.execute(f"ulimit -Sn; {gate.pause}")
            gate.wait_until_reached()
            with ThreadPoolExecutor(200) as people:
                waits = [people.submit(server.call, "wait_for_job", job_ids=[job_id]) for _ in range(200)]
                opened.callback(gate.open)
                wait_until(lambda: len(list(Path(f"/proc/{server.process.pid}/task").iterdir())) > 200)
                assert server.call("get_job_status", job_id=job_id)["status"] == "running"
                opened.close()
                answers = [wait.result() for wait in waits]
            assert {answer["jobs"][0]["status"] for answer in answers} == {"completed"}
            assert server.call("get_job_output", job_id=job_id)["stdout"] == "256\n"
        end_all_jobs(home)


class TestStop:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_waits_are_answered_and_jobs_go_on(
        self, tmp_path: Path, gate: Gate, number: signal.Signals
    ) -> None:
        home = tmp_path / "home"
        with HttpServer(home, MCP_BG_MAX_WAIT="600") as server:
            job_id = server.execute(gate.pause)
            gate.wait_until_reached()
            with server.connect() as waiting, server.connect() as idle:
                send_wait(server, waiting, job_id)
                wait_until(lambda: len(list(Path(f"/proc/{server.process.pid}/task").iterdir())) > 1)
                assert server.stop(number) == 0
                answer = response(waiting)
                assert is_ended(idle)
            (job,) = answer.events[-1]["result"]["structuredContent"]["jobs"]
            assert job["status"] == "running"
            assert "condition" not in job  # none came true
            gate.open()
        with HttpServer(home) as again:
            again.token = server.token
            (job,) = again.call("wait_for_job", job_ids=[job_id])["jobs"]
            assert job["status"] == "completed"
        end_all_jobs(home)

    def test_an_idle_server_stops_at_once(self, tmp_path: Path) -> None:
        with HttpServer(tmp_path / "home") as server:
            assert server.stop() == 0
            assert server.process.stderr
            assert server.process.stderr.read() == ""


class TestWhereItListens:
    def test_other_machines_need_tls_or_a_flag(self, tmp_path: Path) -> None:
        refused = serve(tmp_path, "--host", "0.0.0.0")
        assert refused.returncode == 1
        assert "--tls-cert" in refused.stderr
        assert "--insecure-network" in refused.stderr
        with HttpServer(tmp_path / "home", "--host", "0.0.0.0", "--insecure-network") as server:
            assert server.request("GET", "/healthz", [server.host()]).status == 200

    def test_a_port_in_use_is_said_to_be(self, tmp_path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            refused = serve(tmp_path, "--port", port)
        assert (refused.returncode, len(refused.stderr.splitlines())) == (1, 1)
        assert f"Port {port} of 127.0.0.1 is in use." in refused.stderr

    def test_its_connections_send_at_once(self) -> None:
        """Without that the second write of an answer waits 40 ms for a client to confirm the first."""
        with (
            bound_address("127.0.0.1", 0, network=False) as listening,
            socket.create_connection(listening.getsockname()),
            listening.accept()[0] as accepted,
        ):
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1

    @pytest.mark.parametrize(
        ("host", "words"), [("not a name", "is no address"), ("192.0.2.1", "is no address of this machine")]
    )
    def test_what_is_no_address_is_said_to_be_none(self, host: str, words: str) -> None:
        with pytest.raises(CannotServe, match=words):
            bound_address(host, 0, network=True)

    @pytest.mark.parametrize(
        ("path", "words"),
        [("/nothing/socket", "No such file"), ("/dev/null", "no socket"), ("x" * 200, "too long")],
    )
    def test_what_cannot_be_a_socket_is_said(self, path: str, words: str) -> None:
        with pytest.raises(CannotServe, match=words):
            bound_unix(path)

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("--tls-cert", "/nothing", "--tls-key", "/nothing"), "TLS cannot be used"),
            (("--tls-cert", "/nothing"), "belong together"),
        ],
    )
    def test_tls_needs_its_two_files(self, tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
        refused = serve(tmp_path, *arguments)
        assert refused.returncode in (1, 2)
        assert words in refused.stderr
        assert len(refused.stderr.splitlines()) == 1

    def test_a_unix_socket_is_its_owner_s_and_needs_a_token(self, tmp_path: Path) -> None:
        path = tmp_path / "socket"
        with HttpServer(tmp_path / "home", "--unix", str(path)) as server:
            assert path.stat().st_mode & 0o777 == 0o600
            assert server.request("GET", "/healthz", [server.host()]).status == 200
            assert server.request(headers=[server.host()]).status == 401
            assert len(server.call("list_jobs")["jobs"]) == 0
            in_use = serve(tmp_path, "--unix", str(path))
            assert "Another server listens" in in_use.stderr
            assert server.stop() == 0
            assert not path.exists()

    def test_the_socket_of_a_killed_server_is_replaced(self, tmp_path: Path) -> None:
        path = tmp_path / "socket"
        with HttpServer(tmp_path / "home", "--unix", str(path)):
            pass  # it is killed
        assert path.exists()
        with HttpServer(tmp_path / "home", "--unix", str(path)) as server:
            assert server.request("GET", "/healthz", [server.host()]).status == 200

    @needs("openssl")
    def test_tls(self, tmp_path: Path) -> None:
        with tls_server(tmp_path) as (server, context):
            assert server.address.startswith("https://127.0.0.1:")
            with (
                server.connect() as plain,
                context.wrap_socket(plain, server_hostname="127.0.0.1") as connected,
            ):
                connected.sendall(head("GET", "/healthz", [server.host()]))
                assert response(connected).status == 200


def serve(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    place = () if {"--unix", "--port"} & set(arguments) else ("--port", "0")
    return subprocess.run(
        [sys.executable, "-m", "bgjob", "serve", *place, *arguments],
        env={**os.environ, "BGJOB_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

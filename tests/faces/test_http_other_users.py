"""Other users of this machine: the HTTP server closes their connections as it accepts them.

So whatever they get hold of, a token, a cookie or a key, is of no use to them, and they cannot use up what the
server has. Root may connect, as it may do everything.
"""

import contextlib
import fcntl
import json
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bgjob.core.errors import CannotServe
from bgjob.system import peer_users
from bgjob.web.listen import Door
from tests.support.gate import Gate
from tests.support.homes import end_all_jobs
from tests.support.http_server import HttpServer, Response, head, response, send_wait, stateless
from tests.support.other_user import NOBODY, SEND, OtherUser, answer_as_nobody, needs_root
from tests.support.page_login import PageLogin, first_key, log_in, posting
from tests.support.requires import linux_only, needs
from tests.support.tls import tls_server
from tests.support.waiting import wait_until

pytestmark = linux_only

TAKE_THE_PORT = """
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as listening:
    told("listening")
    for _ in range(2):
        with listening.accept()[0] as connection:
            connection.settimeout(120)
            received = b""
            while b"\\r\\n\\r\\n" not in received:
                received += connection.recv(65536)
            connection.shutdown(socket.SHUT_RDWR)
        told(received.hex())
"""
HOLD_MANY = """
held = []
for _ in range(int(sys.argv[2])):
    try:
        held.append(connected(sys.argv[1]))
    except ConnectionResetError:
        pass
told("connected")
sys.stdin.read()
"""
SIOCGIFADDR = 0x8915
FEW_REQUESTS = "from bgjob.web import connection; connection.MOST_REQUESTS = 5"
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[HttpServer]:
    with HttpServer(tmp_path / "home") as server:
        yield server
    end_all_jobs(tmp_path / "home")


def bytes_of(
    server: HttpServer, method: str, path: str, headers: list[tuple[str, str]], body: bytes = b""
) -> bytes:
    headers = [server.host(), *headers, ("Connection", "close"), ("Content-Length", str(len(body)))]
    return head(method, path, headers) + body


def with_token(server: HttpServer) -> bytes:
    message, headers = stateless("tools/list")
    named = [each for each in server.headers(*headers) if each[0] != "Host"]
    return bytes_of(server, "POST", "/mcp", named, json.dumps(message).encode())


def with_cookie(server: HttpServer) -> bytes:
    login = PageLogin(server)
    return bytes_of(server, "GET", login.placed("/api/store"), [login.cookie])


def own_answer(server: HttpServer, request: bytes) -> Response:
    with server.connect() as connected:
        connected.sendall(request)
        return response(connected)


@contextlib.contextmanager
def held_up(server: HttpServer) -> Iterator[None]:
    """It accepts nothing meanwhile."""
    server.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.process.send_signal(signal.SIGCONT)


@needs_root
class TestWhatWasStolen:
    @pytest.mark.parametrize("request_of", [with_token, with_cookie])
    def test_a_token_and_a_cookie_are_of_no_use_to_another_user(
        self, server: HttpServer, request_of: Callable[[HttpServer], bytes]
    ) -> None:
        request = request_of(server)
        assert own_answer(server, request).status == 200
        assert answer_as_nobody(server.port, request) == b""

    def test_so_is_what_clients_send_to_who_takes_the_port_while_the_server_is_down(
        self, tmp_path: Path
    ) -> None:
        home = tmp_path / "home"
        with HttpServer(home) as server:
            port, requests = server.port, [with_token(server), with_cookie(server)]
        with OtherUser(TAKE_THE_PORT, port) as squatter:
            assert squatter.line() == "listening"
            stolen = [self.lured(port, request, squatter) for request in requests]
        with HttpServer(home, "--port", str(port)) as server:
            for request, seen in zip(requests, stolen, strict=True):
                assert seen
                assert request.startswith(seen)
                assert answer_as_nobody(port, request) == b""
                assert own_answer(server, request).status == 200

    def lured(self, port: int, request: bytes, squatter: OtherUser) -> bytes:
        with socket.create_connection(("127.0.0.1", port)) as connected:
            connected.sendall(request)
            return bytes.fromhex(squatter.line())

    def test_a_key_logs_no_other_user_in(self, server: HttpServer) -> None:
        key = first_key(server)
        headers = [each for each in posting(server) if each[0] != "Host"]
        request = bytes_of(server, "POST", "/api/login", headers, json.dumps({"key": key}).encode())
        for how in ((), ("half-closed",)):
            assert answer_as_nobody(server.port, request, *how) == b""
        assert log_in(server, key).status == 200

    def test_a_connection_that_was_half_closed_before_it_is_accepted_is_refused(
        self, server: HttpServer
    ) -> None:
        """It is in no state ESTABLISHED any more."""
        request = with_token(server)
        with held_up(server):
            other = OtherUser(SEND, server.port, request.hex(), "half-closed")
            wait_until(lambda: NOBODY in half_closed_by(server.port))
        with other:
            assert other.line() == ""
            assert own_answer(server, request).status == 200

    def test_the_log_names_each_user_once(self, server: HttpServer) -> None:
        for _ in range(3):
            assert answer_as_nobody(server.port, HEALTH) == b""
        server.stop()
        assert server.process.stderr
        (line,) = server.process.stderr.read().splitlines()
        assert f"uid {NOBODY}" in line
        assert "--allow-other-users" in line


def half_closed_by(port: int) -> set[int]:
    """The users whose clients have sent all to this port, and shut down their side."""
    fin_wait_2 = "05"
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {int(row[7]) for row in rows if row[2].endswith(f":{port:04X}") and row[3] == fin_wait_2}


@needs_root
class TestWhereOthersMayConnect:
    def test_nowhere_by_default_also_on_a_unix_socket_that_is_open_to_them(self, tmp_path: Path) -> None:
        with ExitStack() as opened:
            path = reachable_socket(opened)
            with HttpServer(tmp_path / "home", "--unix", str(path)) as server:
                path.chmod(0o666)
                assert own_answer(server, HEALTH).status == 200
                assert answer_as_nobody(path, HEALTH) == b""
            with HttpServer(tmp_path / "home", "--unix", str(path), "--allow-other-users"):
                path.chmod(0o666)
                assert b" 200 OK" in answer_as_nobody(path, HEALTH)

    def test_where_they_are_allowed_to(self, tmp_path: Path) -> None:
        with HttpServer(tmp_path / "home", "--allow-other-users") as server:
            assert b" 200 OK" in answer_as_nobody(server.port, with_token(server))
            assert b" 401 " in answer_as_nobody(
                server.port, with_token(server).replace(b"Bearer ", b"Bearer x")
            )

    def test_not_from_this_machine_where_other_machines_may(self, tmp_path: Path) -> None:
        with HttpServer(tmp_path / "home", "--host", "0.0.0.0", "--insecure-network") as server:
            assert own_answer(server, with_token(server)).status == 200
            assert answer_as_nobody(server.port, with_token(server)) == b""


def reachable_socket(opened: ExitStack) -> Path:
    """A path for a socket in a directory that all users may enter."""
    directory = tempfile.mkdtemp(prefix="bgjob-open-")
    opened.callback(shutil.rmtree, directory)
    Path(directory).chmod(0o755)
    return Path(directory, "socket")


class TestManyConnections:
    @needs_root
    @pytest.mark.parametrize("count", [1100, 2100])
    def test_of_another_user_do_not_disturb_the_owner(self, server: HttpServer, count: int) -> None:
        with OtherUser(HOLD_MANY, server.port, count) as other:
            assert other.line() == "connected"
            assert server.call("list_jobs")["jobs"] == []

    def test_of_our_own_are_closed_the_longest_idle_first(self, server: HttpServer, gate: Gate) -> None:
        """And what is within a request stays, however old it is."""
        job_id = server.execute(gate.pause)
        gate.wait_until_reached()
        with ExitStack() as opened:
            waiting = opened.enter_context(server.connect())
            send_wait(server, waiting, job_id)
            idle = [opened.enter_context(server.connect()) for _ in range(1100)]
            assert server.call("get_job_status", job_id=job_id)["status"] == "running"
            assert [each.recv(1) for each in idle[:100]] == [b""] * 100
            assert own_answer_on(idle[-1], HEALTH).status == 200
            gate.open()
            assert jobs_in(response(waiting)) == ["completed"]

    @needs("openssl")
    def test_that_never_begin_to_speak_tls_are_closed_oldest_first(self, tmp_path: Path) -> None:
        few = "from bgjob.web import listen; listen.MOST_HANDSHAKES = 5"
        with tls_server(tmp_path, few) as (server, context), ExitStack() as opened:
            silent = [opened.enter_context(server.connect()) for _ in range(30)]
            assert [each.recv(1) for each in silent[:25]] == [b""] * 25
            speaking = opened.enter_context(
                context.wrap_socket(server.connect(), server_hostname="127.0.0.1")
            )
            more = [opened.enter_context(server.connect()) for _ in range(30)]
            assert [each.recv(1) for each in more[:25]] == [b""] * 25
            assert own_answer_on(speaking, HEALTH).status == 200

    def test_a_request_too_many_is_answered_with_503(self, tmp_path: Path, gate: Gate) -> None:
        with HttpServer(tmp_path / "home", first=FEW_REQUESTS) as server, ExitStack() as opened:
            job_id = server.execute(gate.pause)
            gate.wait_until_reached()
            waits = [opened.enter_context(server.connect()) for _ in range(5)]
            for each in waits:
                send_wait(server, each, job_id)
            assert own_answer(server, HEALTH).status == 503
            gate.open()
            assert [jobs_in(response(each)) for each in waits] == [["completed"]] * 5
            assert own_answer(server, HEALTH).status == 200
        end_all_jobs(tmp_path / "home")


def jobs_in(answer: Response) -> list[str]:
    return [job["status"] for job in answer.events[-1]["result"]["structuredContent"]["jobs"]]


def own_answer_on(connected: socket.socket, request: bytes) -> Response:
    connected.sendall(request)
    return response(connected)


PLACES = [
    (socket.AF_INET, "127.0.0.1", socket.AF_INET, "127.0.0.1"),
    (socket.AF_INET, "127.0.0.1", socket.AF_INET, "127.0.0.9"),
    (socket.AF_INET, "127.0.0.1", socket.AF_INET6, "::ffff:127.0.0.1"),
    (socket.AF_INET6, "::1", socket.AF_INET6, "::1"),
    (socket.AF_INET6, "::", socket.AF_INET, "127.0.0.1"),
]


@pytest.mark.parametrize("lookup", peer_users.LOOKUPS)
class TestTheLookup:
    """Both ways to look a client up."""

    @pytest.fixture(autouse=True)
    def use(self, lookup: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(peer_users, "LOOKUPS", (lookup,))

    @pytest.mark.parametrize(("family", "host", "from_family", "source"), PLACES)
    def test_finds_our_own_user_whatever_the_addresses(
        self, family: int, host: str, from_family: int, source: str
    ) -> None:
        with ExitStack() as opened:
            listening = door(opened, family, host)
            client = opened.enter_context(socket.socket(from_family))
            client.bind((source, 0))
            client.connect((reached(host, from_family), listening.getsockname()[1]))
            opened.enter_context(listening.accept()[0])
            client.shutdown(socket.SHUT_WR)

    def test_finds_it_when_its_side_is_shut_down(self) -> None:
        with ExitStack() as opened:
            listening = door(opened)
            client = opened.enter_context(socket.create_connection(listening.getsockname()))
            client.shutdown(socket.SHUT_WR)
            assert opened.enter_context(listening.accept()[0]).recv(1) == b""

    @pytest.mark.parametrize("is_reset", [False, True])
    def test_does_not_take_an_end_that_no_process_holds_for_root_s(self, *, is_reset: bool) -> None:
        """The kernel says uid 0 of it, and inode 0."""
        with ExitStack() as opened:
            listening = door(opened)
            with socket.create_connection(listening.getsockname()) as client:
                client.sendall(HEALTH)
                if is_reset:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            with pytest.raises(ConnectionAbortedError):
                listening.accept()

    @needs_root
    @pytest.mark.parametrize(
        "how", ["", "connection.shutdown(socket.SHUT_WR)", "connection.shutdown(socket.SHUT_RD)"]
    )
    def test_finds_another_user(self, how: str) -> None:
        script = f"connection = connected(sys.argv[1]); {how or 'pass'}; told('there'); sys.stdin.read()"
        with ExitStack() as opened:
            listening = door(opened)
            other = opened.enter_context(OtherUser(script, listening.getsockname()[1]))
            assert other.line() == "there"
            with pytest.raises(ConnectionAbortedError):
                listening.accept()

    def test_is_not_misled_by_a_listener_of_the_client_s_port(self, lookup: Any) -> None:
        """The kernel answers with one where there is no such connection."""
        with socket.create_server(("127.0.0.1", 0)) as listening:
            port = listening.getsockname()[1]
            ends = [(socket.inet_aton("127.0.0.1"), number, 0) for number in (port, 1)]
            assert lookup(socket.AF_INET, *ends) is None


def door(opened: ExitStack, family: int = socket.AF_INET, host: str = "127.0.0.1") -> Door:
    listening = socket.create_server((host, 0), family=family, dualstack_ipv6=host == "::")
    return opened.enter_context(Door(listening))


def reached(host: str, family: int) -> str:
    if family == socket.AF_INET6:
        return "::1" if host == "::1" else "::ffff:127.0.0.1"
    return "127.0.0.1"


def test_a_connection_from_another_machine_is_told_by_its_address() -> None:
    """Our own addresses are those that a socket of ours can have."""
    for address in ("127.0.0.1", "127.9.9.9", *own_addresses()):
        assert is_ours(address, socket.AF_INET)
        assert is_ours(f"::ffff:{address}", socket.AF_INET6)
    for address in ("192.0.2.7", "198.51.100.1"):
        assert not is_ours(address, socket.AF_INET)


IN_A_NETWORK_OF_ITS_OWN = """
import socket, subprocess, sys
from types import SimpleNamespace
from bgjob.system import peer_users
for words in (
    "link add near type veth peer name far",
    "addr add 10.9.0.5/24 dev near",
    "addr add 10.9.0.6/24 dev near",
    "link set near up",
):
    subprocess.run(["ip", *words.split()], check=True)
for address in ("10.9.0.5", "10.9.0.6", "10.9.0.7"):
    named = SimpleNamespace(family=socket.AF_INET, getpeername=lambda: (address, 7))
    print(address, peer_users.is_from_this_machine(named))
"""


@needs_root
@needs("ip")
@needs("unshare")
def test_a_second_address_of_a_network_card_is_ours_too() -> None:
    """Routes to it start at the first one."""
    argv = ["unshare", "--net", sys.executable, "-c", IN_A_NETWORK_OF_ITS_OWN]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.stdout == "10.9.0.5 True\n10.9.0.6 True\n10.9.0.7 False\n", done.stderr


def is_ours(address: str, family: int) -> bool:
    named: Any = SimpleNamespace(family=family, getpeername=lambda: (address, 7, 0, 0))
    return peer_users.is_from_this_machine(named)


def own_addresses() -> list[str]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asked = (
            fcntl.ioctl(asking, SIOCGIFADDR, struct.pack("256s", name.encode()))
            for name in with_address(asking)
        )
        return [socket.inet_ntoa(answer[20:24]) for answer in asked]


def with_address(asking: socket.socket) -> Iterator[str]:
    for _, name in socket.if_nameindex():
        with contextlib.suppress(OSError):
            fcntl.ioctl(asking, SIOCGIFADDR, struct.pack("256s", name.encode()))
            yield name


def test_where_the_system_tells_no_users_it_does_not_listen_on_a_port(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peer_users, "LOOKUPS", ())
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        pytest.raises(CannotServe, match="which user has connected") as refused,
    ):
        Door(listening)
    assert "--unix PATH" in str(refused.value)

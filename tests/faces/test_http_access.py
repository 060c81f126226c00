"""Who may ask: every combination of Host, Origin, token, path, method and scope has its exact status code."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.homes import end_all_jobs
from tests.support.http_server import MEDIA_TYPES, Header, HttpServer, tool_call

HOSTS = ("own", "name", "other_port", "other", "several", "none", "userinfo")
OWN_HOSTS = ("own", "name", "other_port")
ORIGINS = ("none", "own", "other", "null", "other_port_of_us", "several")
TOKENS = ("none", "wrong", "basic", "several", "read", "run", "kill")
KNOWN_TOKENS = ("read", "run", "kill")
PATHS = ("/mcp", "/healthz", "/metrics", "/mcp/", "/.env")
METHODS = ("GET", "POST", "DELETE", "OPTIONS")
TOOLS = {"list_jobs": "read", "execute_command": "run", "kill_job": "kill"}
ALLOWED = {"/mcp": ("POST",), "/healthz": ("GET",), "/metrics": ("GET",)}


class Probe(NamedTuple):
    host: str
    origin: str
    token: str
    path: str
    method: str
    tool: str


PROBES = [
    Probe(*each)
    for each in itertools.product(HOSTS, ORIGINS, TOKENS, PATHS, METHODS, TOOLS)
    # the tool matters only where it is called
    if each[5] == "list_jobs" or (each[3], each[4]) == ("/mcp", "POST")
]


def expected(probe: Probe) -> int:
    """The order of the checks, as bgjob.web.access lists it."""
    if probe.host in ("several", "none"):
        return 400  # no HTTP/1.1
    if probe.host not in OWN_HOSTS:
        return 421
    if probe.origin not in ("none", "own"):
        return 403
    if probe.path != "/healthz" and probe.token not in KNOWN_TOKENS:
        return 401
    if probe.path not in ALLOWED:
        return 404
    if probe.method not in ALLOWED[probe.path]:
        return 405
    needed = {"/mcp": TOOLS[probe.tool], "/metrics": "read", "/healthz": None}[probe.path]
    return 403 if needed and needed != probe.token else 200


class Prober:
    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._tokens = {scope: server.add_token(scope, "--scope", scope) for scope in KNOWN_TOKENS}

    def status(self, probe: Probe) -> int:
        message, named = tool_call(probe.tool, {"command": "true", "job_id": "none"})
        host = self._host(probe)
        headers = [
            *self._hosts(probe),
            *self._origins(probe, host),
            *self._authorizations(probe),
            *MEDIA_TYPES,
        ]
        body = json.dumps(message).encode() if probe.method == "POST" else b""
        answer = self._server.request(probe.method, probe.path, [*headers, *named], body)
        assert "mcp-session-id" not in {name.lower() for name in answer.headers}
        self._check_headers(probe, answer.status, answer.headers)
        return answer.status

    def _host(self, probe: Probe) -> str:
        own = f"127.0.0.1:{self._server.port}"
        names = {
            "name": f"LocalHost:{self._server.port}",
            "other_port": "localhost:1",
            "other": "evil.example",
        }
        return {**names, "userinfo": f"127.0.0.1@evil.example:{self._server.port}"}.get(probe.host, own)

    def _hosts(self, probe: Probe) -> list[Header]:
        host = ("Host", self._host(probe))
        return {"none": [], "several": [host, ("Host", "evil.example")]}.get(probe.host, [host])

    def _origins(self, probe: Probe, host: str) -> list[Header]:
        own, other = ("Origin", f"http://{host}"), ("Origin", "https://evil.example")
        return {
            "none": [],
            "own": [own],
            "other": [other],
            "null": [("Origin", "null")],
            "other_port_of_us": [("Origin", "http://127.0.0.1:3000")],
            "several": [own, other],
        }[probe.origin]

    def _authorizations(self, probe: Probe) -> list[Header]:
        def bearer(plain: str) -> Header:
            return "Authorization", f"Bearer {plain}"

        if probe.token in KNOWN_TOKENS:
            return [bearer(self._tokens[probe.token])]
        return {
            "none": [],
            "wrong": [bearer(self._tokens["read"][:-1])],
            "basic": [("Authorization", f"Basic {self._tokens['read']}")],
            "several": [bearer(self._tokens["read"]), bearer("x")],
        }[probe.token]

    def _check_headers(self, probe: Probe, status: int, headers: object) -> None:
        assert isinstance(headers, dict)
        told = {name.lower(): value for name, value in headers.items()}
        if status == 401:
            assert told["www-authenticate"].startswith("Bearer ")
            assert ("invalid_token" in told["www-authenticate"]) == (probe.token != "none")
        if status == 403 and probe.origin in ("none", "own"):
            needed = TOOLS[probe.tool] if probe.path == "/mcp" else "read"
            assert told["www-authenticate"].endswith(f'error="insufficient_scope", scope="{needed}"')
        if status == 405:
            assert set(ALLOWED[probe.path]) <= set(told["allow"].split(", ")) <= {"GET", "HEAD", "POST"}


@pytest.fixture(scope="module")
def prober(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prober]:
    home = tmp_path_factory.mktemp("access") / "home"
    with HttpServer(home, "--metrics", MCP_BG_MAX_JOBS="1000") as server:
        yield Prober(server)
    end_all_jobs(home)


@pytest.mark.parametrize("host", HOSTS)
def test_every_combination_has_its_status_code(prober: Prober, host: str) -> None:
    probes = [probe for probe in PROBES if probe.host == host]
    wrong = {probe: status for probe in probes if (status := prober.status(probe)) != expected(probe)}
    assert wrong == {}


def test_there_are_hundreds_of_combinations_and_every_code_is_among_them() -> None:
    assert len(PROBES) > 1000
    assert {expected(probe) for probe in PROBES} == {200, 400, 401, 403, 404, 405, 421}


def test_what_is_refused_for_its_token_looks_the_same_at_every_path(tmp_path: Path) -> None:
    with HttpServer(tmp_path / "home") as server:
        for authorization in ([], [("Authorization", "Bearer wrong")]):
            answers = [
                server.request(method, path, [server.host(), *authorization])
                for path in ("/mcp", "/metrics", "/nothing", "//", "/mcp?x=1", "//mcp", "/api")
                for method in ("GET", "POST", "PUT")
            ]
            assert len({(answer.status, answer.body) for answer in answers}) == 1


def test_a_request_of_http_1_0_without_a_host_is_refused(tmp_path: Path) -> None:
    with HttpServer(tmp_path / "home") as server, server.connect() as connected:
        connected.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert connected.recv(100).startswith(b"HTTP/1.1 421 ")


def test_another_name_can_be_allowed(tmp_path: Path) -> None:
    with HttpServer(tmp_path / "home", "--allow-host", "Jobs.Example.com") as server:
        for host in ("jobs.example.com", "JOBS.example.com:443"):
            assert server.request("GET", "/healthz", [("Host", host)]).status == 200
        assert server.request("GET", "/healthz", [("Host", "example.com")]).status == 421


def test_health_tells_nothing_but_that_the_server_is_there(tmp_path: Path) -> None:
    with HttpServer(tmp_path / "home") as server:
        answer = server.request("GET", "/healthz", [server.host()])
        assert (answer.status, answer.json) == (200, {"status": "ok"})
        assert set(map(str.lower, answer.headers)) == {
            "date",
            "content-length",
            "content-type",
            "cache-control",
        }

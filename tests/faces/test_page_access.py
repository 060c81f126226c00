"""Who may ask for the page: hostile requests with their exact status codes, keys, logins and their rights."""

import hashlib
import http.client
import json
import os
import re
import signal
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import bgjob.web.page
from bgjob.web.body import MOST_BYTES
from bgjob.web.page import files, guard
from bgjob.web.page.files import CONTENT_POLICY
from bgjob.web.page.site import KEY_BODY_BYTES
from tests.support.homes import end_all_jobs
from tests.support.http_server import Header, HttpServer, Response, head, response, stateless
from tests.support.page_login import JSON, POSTED, PageLogin, first_key, key_in, log_in, origin, posting
from tests.support.requires import needs
from tests.support.tls import tls_server

STATIC = Path(bgjob.web.page.__file__).parent / "static"
HEADERS_OF_ALL = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
OF_POST = "Origin: {origin}\nX-Bgjob: 1\nContent-Type: application/json\n"
SOCKET = (
    "Upgrade: websocket\nConnection: Upgrade\nSec-WebSocket-Version: 13\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\n"
)
KILL = '{"jobs":["{job}"]}'


class Hostile(NamedTuple):
    """A request as it is sent; what is in braces differs by server and login."""

    status: int
    head: str
    body: str = ""
    of_page: bool = True
    """False: it is refused by the HTTP library, or as a request for MCP."""


def get(status: int, path: str = "{own}store", host: str = "{host}", more: str = "") -> Hostile:
    """With the login of a browser: the worst case."""
    return Hostile(status, f"GET {path} HTTP/1.1\nHost: {host}\nCookie: {{cookie}}\n{more}")


def post(
    status: int,
    more: str = OF_POST,
    path: str = "{own}kill",
    body: str = KILL,
    *,
    host: str = "{host}",
    cookie: str = "Cookie: {cookie}\n",
) -> Hostile:
    return Hostile(status, f"POST {path} HTTP/1.1\nHost: {host}\n{cookie}{more}", body)


def elsewhere(hostile: Hostile) -> Hostile:
    return hostile._replace(of_page=False)


def posted_by(origins: str) -> str:
    return OF_POST.replace("Origin: {origin}\n", origins)


HOSTILE = {
    # -- Host
    "the Host of another site (DNS rebinding)": get(421, host="evil.test:{port}"),
    "a Host that begins as ours": get(421, host="127.0.0.1.evil.test:{port}"),
    "a Host with a user": get(421, host="127.0.0.1@evil.test:{port}"),
    "no Host, HTTP/1.0": Hostile(421, "GET {own}store HTTP/1.0\nCookie: {cookie}\n"),
    "two Hosts": elsewhere(get(400, host="{host}\nHost: evil.test")),
    "another Host, ours as forwarded": get(421, host="evil.test", more="X-Forwarded-Host: {host}\n"),
    "another Host, ours in the target": elsewhere(get(421, "http://{host}{own}store", host="evil.test")),
    "our Host, another in the target": elsewhere(get(401, "http://evil.test{own}store")),
    "the page itself by another Host": get(421, "/", host="evil.test:{port}"),
    "a POST to our Host without its port": post(403, host="127.0.0.1"),
    # -- Origin
    "a POST of another site": post(403, posted_by("Origin: http://evil.test\n")),
    "a POST of a sandboxed page": post(403, posted_by("Origin: null\n")),
    "a POST without Origin": post(403, posted_by("")),
    "a POST of an empty Origin": post(403, posted_by("Origin: \n")),
    "a POST of another port": post(403, posted_by("Origin: http://127.0.0.1:1\n")),
    "a POST of our name, not our address": post(403, posted_by("Origin: http://localhost:{port}\n")),
    "a POST of https, where there is none": post(403, posted_by("Origin: https://{host}\n")),
    "a POST of two Origins": post(403, posted_by("Origin: {origin}\nOrigin: http://evil.test\n")),
    "a POST of an Origin with a path": post(403, posted_by("Origin: {origin}/\n")),
    "a GET of another port": get(403, more="Origin: http://127.0.0.1:1\n"),
    # -- what a page of another site cannot send
    "a POST without our header": post(403, "Origin: {origin}\nContent-Type: application/json\n"),
    "a POST with our header twice": post(403, OF_POST + "X-Bgjob: 1\n"),
    "a POST of the type of a form": post(415, "Origin: {origin}\nX-Bgjob: 1\nContent-Type: text/plain\n"),
    "a POST of no type": post(415, "Origin: {origin}\nX-Bgjob: 1\n"),
    "a POST of two types": post(415, OF_POST + "Content-Type: text/plain\n"),
    "a preflight of another site": Hostile(
        403,
        "OPTIONS {own}kill HTTP/1.1\nHost: {host}\nOrigin: http://evil.test\n"
        "Access-Control-Request-Method: POST\nAccess-Control-Request-Headers: x-bgjob\n",
    ),
    "a preflight of our own": Hostile(
        401,
        "OPTIONS {own}kill HTTP/1.1\nHost: {host}\nOrigin: {origin}\nAccess-Control-Request-Method: POST\n",
    ),
    # -- which page asks, as the browser says
    "a stream for another site": get(403, "{own}stream", more="Sec-Fetch-Site: cross-site\n"),
    "a read for a page of another port": get(403, more="Sec-Fetch-Site: same-site\n"),
    "a link in another site": get(
        403, "{own}download?job={job}", more="Sec-Fetch-Site: cross-site\nSec-Fetch-Mode: navigate\n"
    ),
    "two claims of which page asks": get(403, more="Sec-Fetch-Site: same-origin\nSec-Fetch-Site: none\n"),
    "an unknown claim of which page asks": get(403, more="Sec-Fetch-Site: ours\n"),
    "a POST of another port, by its claim": post(403, OF_POST + "Sec-Fetch-Site: same-site\n"),
    "a POST of no page": post(403, OF_POST + "Sec-Fetch-Site: none\n"),
    # -- the login
    "a POST without cookie": post(401, cookie=""),
    "a POST with a wrong cookie": post(401, cookie="Cookie: bgjob=x\n"),
    "a POST with a cookie that cannot be read": post(401, cookie='Cookie: ;=;bgjob;"\xff\n'),
    "a POST with another login's cookie": post(401, cookie="Cookie: {other}\n"),
    "a POST with the cookie, but not its path": post(401, path="/api/kill"),
    "a POST with another login's path": post(401, path="{other_own}kill"),
    "a POST with the key instead of the login": post(401, cookie="Cookie: bgjob={key}\n"),
    "a POST with the hash instead of the login": post(401, cookie="Cookie: bgjob={hash}\n"),
    "a POST with a token": post(401, OF_POST + "Authorization: Bearer {token}\n", cookie=""),
    "MCP with the cookie": elsewhere(
        post(401, path="/mcp", body='{"jsonrpc":"2.0","id":1,"method":"tools/list"}')
    ),
    "MCP by way of the login's path": post(404, path="{own}../../mcp", body="{}"),
    "logging in, of another site": post(
        403, posted_by("Origin: http://evil.test\n"), "/api/login", '{"key":"x"}'
    ),
    "logging in with a wrong key": post(401, path="/api/login", body='{"key":"x"}'),
    "logging in with a key that is no text": post(401, path="/api/login", body='{"key":{"$ne":null}}'),
    "logging in without a key": post(401, path="/api/login", body="{}"),
    "logging in with a login": post(401, path="/api/login", body='{"key":"{login}"}'),
    "logging in by GET": get(405, "/api/login?key={key}"),
    # -- methods
    "killing by GET": get(405, "{own}kill?jobs={job}"),
    "killing by HEAD": Hostile(405, "HEAD {own}kill?jobs={job} HTTP/1.1\nHost: {host}\nCookie: {cookie}\n"),
    "killing by PUT": Hostile(
        405, "PUT {own}kill HTTP/1.1\nHost: {host}\nCookie: {cookie}\n" + OF_POST, KILL
    ),
    "killing by a method in its header": get(405, "{own}kill", more="X-HTTP-Method-Override: POST\n"),
    "a stream by HEAD": Hostile(405, "HEAD {own}stream HTTP/1.1\nHost: {host}\nCookie: {cookie}\n"),
    "reading by POST": post(405, path="{own}store", body="{}"),
    "TRACE": Hostile(405, "TRACE {own}store HTTP/1.1\nHost: {host}\nCookie: {cookie}\n"),
    "writing a file": Hostile(
        405, "PUT /page/main.js HTTP/1.1\nHost: {host}\nCookie: {cookie}\n", "alert(1)"
    ),
    # -- websockets
    "a websocket of another site": get(403, "{own}socket", more="Origin: http://evil.test\n" + SOCKET),
    "a websocket of another port": get(403, "{own}stream", more="Origin: http://127.0.0.1:1\n" + SOCKET),
    "a websocket without Origin": get(404, "{own}socket?job={job}", more=SOCKET),
    "a websocket without cookie": Hostile(
        401, "GET {own}socket HTTP/1.1\nHost: {host}\nOrigin: {origin}\n" + SOCKET
    ),
    "a websocket of our own": get(404, "{own}socket", more="Origin: {origin}\n" + SOCKET),
    # -- paths
    "a file above the page": get(404, "/page/../guard.py"),
    "... with encoded dots": get(404, "/page/%2e%2e/guard.py"),
    "... with encoded slashes": get(404, "/page/..%2f..%2f..%2fserver.py"),
    "... with backslashes": get(404, "/page/..\\..\\server.py"),
    "... by its whole path": get(404, "/page//etc/passwd"),
    "a file with NUL in its name": get(404, "/page/main.js%00.css"),
    "a file that is not of the page": get(404, "/page/vendor/HASHES"),
    "a folder": get(404, "/page/vendor/"),
    "two slashes before the path": elsewhere(get(401, "/{own}store")),
    "two slashes in the path": get(401, "/api/{own}store"),
    "two slashes behind the login": get(404, "{own}/store"),
    "a path in capitals": elsewhere(get(401, "/API/store")),
    "nothing behind the login": get(404, "{own}"),
    "a path that is not Unicode": get(404, "{own}%ff%fe"),
    "a path with a line feed": get(404, "{own}store%0d%0aX-Bgjob:%201"),
    # -- ids
    "an id that is a path": get(404, "{own}job?job=../../tokens.json"),
    "an id that is an encoded path": get(404, "{own}job?job=..%2f..%2ftokens.json"),
    "an id with NUL": get(404, "{own}job?job=%00"),
    "an id that is not Unicode": get(404, "{own}job?job=%ff"),
    "no id": get(400, "{own}job"),
    # -- bodies
    "a body that is no JSON": post(400, body="jobs={job}"),
    "no body": post(400, body=""),
    "a body that is a list": post(400, body='["{job}"]'),
    "a body that is a text": post(400, body='"{job}"'),
    "a body in UTF-16": post(400, body="{\0}\0"),
    "a body that is nested deep": post(400, body='{"jobs":' * 100_000),
    "ids that are no list": post(400, body='{"jobs":{"{job}":1}}'),
    "ids that are no texts": post(400, body='{"jobs":[["{job}"]]}'),
    "a number beyond all": post(400, body='{"jobs":["x"],"grace_s":1' + "0" * 5000 + "}"),
}


class Target(NamedTuple):
    server: HttpServer
    login: PageLogin
    other: PageLogin
    job_id: str

    def filled(self, template: str) -> bytes:
        """What is in braces, if it is ours: JSON has braces too."""
        cookie = self.login.cookie[1]
        values = {
            "host": f"127.0.0.1:{self.server.port}",
            "port": self.server.port,
            "origin": origin(self.server)[1],
            "own": self.login.path,
            "cookie": cookie,
            "login": cookie.partition("=")[2],
            "hash": hashlib.sha256(cookie.partition("=")[2].encode()).hexdigest(),
            "other": self.other.cookie[1],
            "other_own": self.other.path,
            "key": key_in(self.server.command("page", "--print").stdout) if "{key}" in template else "",
            "token": self.server.token,
            "job": self.job_id,
        }
        for name, value in values.items():
            template = template.replace(f"{{{name}}}", str(value))
        return template.encode("latin-1")

    def send(self, hostile: Hostile) -> Response:
        lines, body = self.filled(hostile.head).replace(b"\n", b"\r\n"), self.filled(hostile.body)
        length = b"Content-Length: %d\r\n" % len(body) if not hostile.head.startswith("GET") else b""
        with self.server.connect() as connected:
            connected.sendall(lines + length + b"\r\n" + body)
            answer = http.client.HTTPResponse(connected, method=hostile.head.partition(" ")[0])
            answer.begin()
            with answer:
                told = {name.lower(): value for name, value in answer.getheaders()}
                return Response(answer.status, told, answer.read())

    def is_alive(self) -> bool:
        status: str = self.login.get("/api/job", job=self.job_id).json["status"]
        return status == "running"


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    home = tmp_path_factory.mktemp("page") / "home"
    with HttpServer(home) as server:
        login = PageLogin(server)
        other = PageLogin(server, new_key(server))
        started = login.post("/api/start", {"command": "sleep 1000"})
        assert started.status == 200, started
        yield Target(server, login, other, started.json["job"])
    end_all_jobs(home)


def new_key(server: HttpServer, *options: str) -> str:
    return key_in(server.command("page", "--print", *options).stdout)


class TestHostileRequests:
    @pytest.mark.parametrize("name", HOSTILE)
    def test_each_has_its_status_code_and_harms_nothing(self, target: Target, name: str) -> None:
        answer = target.send(HOSTILE[name])
        assert answer.status == HOSTILE[name].status, answer
        if HOSTILE[name].of_page:
            check_headers(answer)
            assert lowered(answer.headers)["content-type"] == "application/json"
            assert HOSTILE[name].head.startswith("HEAD") or list(answer.json) == ["error"]
        assert "access-control-allow-origin" not in answer.headers
        assert "set-cookie" not in answer.headers
        assert target.is_alive()

    def test_what_the_page_asks_is_answered(self, target: Target) -> None:
        """The same requests, as they should be: what is refused above is not refused for another reason."""
        assert target.send(get(200)).status == 200
        assert target.send(get(200, host="localhost:{port}")).status == 200
        assert target.send(get(200, more="Origin: {origin}\nSec-Fetch-Site: same-origin\n")).status == 200
        typed = target.send(get(200, more="Sec-Fetch-Site: none\nSec-Fetch-Mode: navigate\n"))
        assert typed.status == 200
        started = json.loads(target.send(post(200, path="{own}start", body='{"command":"sleep 1000"}')).body)
        other = target._replace(job_id=started["job"])
        assert other.send(post(200, OF_POST + "Sec-Fetch-Site: same-origin\n")).status == 200
        assert not other.is_alive()

    def test_nothing_is_learnt_without_a_login(self, target: Target) -> None:
        """Not which paths there are, nor which methods they have."""
        answers = [
            target.server.request(method, path, [*posting(target.server), *cookies])
            for path in ("/api/kill", "/api/nothing", "/api/", f"{target.login.path}kill", "/api/x/kill")
            for method in ("GET", "POST", "PUT", "DELETE")
            for cookies in ([], [("Cookie", "bgjob=x")])
        ]
        assert {answer.status for answer in answers} == {401}
        assert len({answer.body for answer in answers}) == 1

    def test_a_cookie_of_a_server_of_another_port_does_not_hide_ours(self, target: Target) -> None:
        ours = target.login.cookie[1]
        for cookies in (f"bgjob=x; {ours}", f"{ours}; bgjob=x", f"a=b; {ours}; bgjob=; bgjob"):
            headers = [target.server.host(), ("Cookie", cookies)]
            assert target.server.request("GET", f"{target.login.path}store", headers).status == 200

    def test_a_body_that_is_announced_as_too_large_is_refused_unread(self, target: Target) -> None:
        server, login = target.server, target.login
        for path, cookies, most in (
            (f"{login.path}kill", [login.cookie], MOST_BYTES),
            ("/api/login", [], KEY_BODY_BYTES),
        ):
            with server.connect() as connected:
                headers = [*posting(server), *cookies, ("Content-Length", str(most + 1))]
                connected.sendall(head("POST", path, headers))
                check_refusal(response(connected), 413)

    def test_so_is_one_that_comes_in_pieces(self, target: Target) -> None:
        with target.server.connect() as connected:
            headers = [*posting(target.server), ("Transfer-Encoding", "chunked")]
            piece = b"%x\r\n%b\r\n" % (KEY_BODY_BYTES, b" " * KEY_BODY_BYTES)
            connected.sendall(head("POST", "/api/login", headers) + piece + b"1\r\n \r\n")
            check_refusal(response(connected), 413)

    def test_a_body_is_not_read_of_one_who_may_not_ask(self, target: Target) -> None:
        """It is refused while its body is on the way."""
        reader = PageLogin(target.server, new_key(target.server, "--scope", "read"))
        for cookies, status in (([], 401), ([reader.cookie], 403)):
            with target.server.connect() as connected:
                headers = [*posting(target.server), *cookies, ("Content-Length", "100")]
                connected.sendall(head("POST", f"{reader.path}kill", headers))
                check_refusal(response(connected), status)

    def test_a_body_that_does_not_come_is_waited_for_only_so_long(self, tmp_path: Path) -> None:
        hurried = "from bgjob.web import body; body.PATIENCE_S = 0.2"
        with HttpServer(tmp_path / "home", first=hurried) as server, server.connect() as connected:
            connected.sendall(head("POST", "/api/login", [*posting(server), ("Content-Length", "9")]) + b"{")
            check_refusal(response(connected), 408)

    def test_a_bug_is_answered_and_its_details_are_not(self, tmp_path: Path) -> None:
        broken = "from bgjob.web.page import reads; reads.MEASURE_S = 'a secret'"
        with HttpServer(tmp_path / "home", first=broken) as server:
            answer = PageLogin(server).get("/api/store")
            check_refusal(answer, 500)
            assert b"secret" not in answer.body

    def test_a_browser_that_goes_away_in_the_middle_of_a_body_does_no_harm(self, tmp_path: Path) -> None:
        with HttpServer(tmp_path / "home") as server:
            with server.connect() as connected:
                headers = [*posting(server), ("Content-Length", "100"), ("Expect", "100-continue")]
                connected.sendall(head("POST", "/api/login", headers))
                assert connected.recv(100).startswith(b"HTTP/1.1 100 ")  # it waits for the body
            assert log_in(server, first_key(server)).status == 200
            assert server.stop() == 0
            assert server.process.stderr
            assert server.process.stderr.read() == ""


def check_headers(answer: Response) -> None:
    headers = lowered(answer.headers)
    assert HEADERS_OF_ALL.items() <= headers.items()
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["cache-control"] in ("no-store", "no-cache", "no-cache, no-transform")


def check_refusal(answer: Response, status: int) -> None:
    assert answer.status == status, answer
    check_headers(answer)
    headers = lowered(answer.headers)
    assert (headers["cache-control"], headers["content-type"]) == ("no-store", "application/json")
    assert list(answer.json) == ["error"]
    assert answer.json["error"].endswith(".")


def lowered(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


class TestHeaders:
    @pytest.mark.parametrize(
        ("path", "status"),
        [
            ("/", 200),
            ("/page/main.js", 200),
            ("/page/vendor/xterm.mjs", 200),
            ("/page/nothing.js", 404),
            ("/api/store", 200),
            ("/api/job?job=nothing", 404),
            ("/api/nothing", 404),
            ("/api/stream", 200),
        ],
    )
    def test_every_answer_has_them(self, target: Target, path: str, status: int) -> None:
        login, server = target.login, target.server
        with server.connect() as connected:
            connected.sendall(head("GET", login.placed(path), [server.host(), login.cookie]))
            answer = http.client.HTTPResponse(connected)
            answer.begin()
            with answer:  # a stream has no end
                told = Response(answer.status, dict(answer.getheaders()), b"")
        assert told.status == status
        check_headers(told)
        is_file = not path.startswith("/api") and status == 200
        policy = lowered(told.headers)["content-security-policy"]
        assert policy == (CONTENT_POLICY if is_file or path.startswith("/page") else policy)
        assert ("script-src" in policy) == (not path.startswith("/api"))

    def test_the_page_may_run_no_script_of_another_origin_and_none_that_is_inline(self) -> None:
        rules = dict(rule.strip().split(" ", 1) for rule in CONTENT_POLICY.split(";"))
        assert rules.pop("default-src") == "'none'"
        assert rules.pop("require-trusted-types-for") == "'script'"
        assert rules.pop("trusted-types") == "'none'"
        assert {rules.pop(f"{kind}-src") for kind in ("script", "style", "connect", "img")} == {"'self'"}
        assert rules == {"base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'"}

    def test_a_file_is_asked_for_each_time_and_sent_only_if_it_has_changed(self, target: Target) -> None:
        host = target.server.host()
        first = target.server.request("GET", "/page/main.js", [host])
        told = lowered(first.headers)
        assert told["cache-control"] == "no-cache"
        same = target.server.request("GET", "/page/main.js", [host, ("If-None-Match", told["etag"])])
        assert (same.status, same.body, lowered(same.headers)["etag"]) == (304, b"", told["etag"])
        check_headers(same)
        other = target.server.request("GET", "/page/main.js", [host, ("If-None-Match", '"0"')])
        assert (other.status, other.body) == (200, first.body)

    def test_a_file_of_another_version_is_told_by_its_content(self, tmp_path: Path) -> None:
        """Also if an installer gives both the same time, and they are of the same length."""
        tags = []
        for content in ("old", "new"):
            path = tmp_path / "main.js"
            path.write_text(content)
            os.utime(path, (0, 0))
            tags.append(files._read(path).tag)
        assert len(set(tags)) == 2


class TestKeys:
    def test_one_works_once(self, target: Target) -> None:
        key = new_key(target.server)
        assert [log_in(target.server, key).status for _ in range(3)] == [200, 401, 401]

    def test_of_many_who_use_one_at_once_one_is_logged_in(self, target: Target) -> None:
        key = new_key(target.server)
        with ThreadPoolExecutor(10) as browsers:
            answers = list(browsers.map(lambda _: log_in(target.server, key).status, range(20)))
        assert sorted(answers) == [200, *[401] * 19]

    def test_a_guess_writes_nothing(self, target: Target) -> None:
        before = (target.server.home / "logins.json").stat()
        assert log_in(target.server, "guess").status == 401
        after = (target.server.home / "logins.json").stat()
        assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)

    def test_one_that_has_expired_does_not_work(self, tmp_path: Path) -> None:
        with HttpServer(tmp_path / "home") as server:
            change_logins(server, "key", until=0)
            assert log_in(server, first_key(server)).status == 401

    def test_no_key_and_no_login_is_on_disk(self, target: Target) -> None:
        key = new_key(target.server)
        login = PageLogin(target.server, new_key(target.server))
        file = target.server.home / "logins.json"
        assert file.stat().st_mode & 0o777 == 0o600
        assert key not in file.read_text()
        assert login.cookie[1].partition("=")[2] not in file.read_text()
        assert login.path.strip("/").rpartition("/")[2] not in file.read_text()


def change_logins(server: HttpServer, of_kind: str, **values: object) -> None:
    """Of all rows of this kind."""
    path = server.home / "logins.json"
    record: dict[str, Any] = json.loads(path.read_text())
    for row in record["logins"].values():
        if row["kind"] == of_kind:
            row |= values
    path.write_text(json.dumps(record))


class TestLogins:
    def test_its_cookie_is_for_its_own_path_and_for_no_script(self, target: Target) -> None:
        name, *attributes = target.login.set_cookie.split("; ")
        assert name.startswith("bgjob=")
        path = target.login.path.removesuffix("/")
        assert sorted(attributes) == ["HttpOnly", "Max-Age=2592000", f"Path={path}", "SameSite=Strict"]

    def test_one_outlives_a_killed_server(self, tmp_path: Path) -> None:
        home = tmp_path / "home"
        with HttpServer(home) as first:
            login = PageLogin(first)
            first.stop(signal.SIGKILL)
            with HttpServer(home, "--port", str(first.port)) as second:
                login.server = second
                assert login.get("/api/store").status == 200

    def test_all_servers_of_a_home_know_the_same_ones(self, tmp_path: Path) -> None:
        with HttpServer(tmp_path / "home") as first, HttpServer(tmp_path / "home") as second:
            login = PageLogin(first)
            for server in (second, first):
                login.server = server
                assert login.get("/api/store").status == 200
            assert login.post("/api/logout").status == 204
            login.server = second
            assert login.get("/api/store").status == 401

    def test_logins_of_two_servers_have_two_cookies(self, tmp_path: Path) -> None:
        """To a browser both are 127.0.0.1: neither cookie replaces the other, nor is it sent to the other."""
        with HttpServer(tmp_path / "a") as first, HttpServer(tmp_path / "b") as second:
            one, two = PageLogin(first), PageLogin(second)
            assert one.path != two.path
            one.server = second
            assert one.get("/api/store").status == 401

    def test_logging_out_ends_that_login_alone(self, target: Target) -> None:
        login = PageLogin(target.server, new_key(target.server))
        gone = login.post("/api/logout")
        assert gone.status == 204
        cookie = lowered(gone.headers)["set-cookie"]
        path = login.path.removesuffix("/")
        assert cookie == f"bgjob=; Path={path}; HttpOnly; SameSite=Strict; Max-Age=0"
        assert login.get("/api/store").status == 401
        assert target.login.get("/api/store").status == 200

    def test_one_that_has_expired_is_none(self, tmp_path: Path) -> None:
        with HttpServer(tmp_path / "home") as server:
            login = PageLogin(server)
            change_logins(server, "login", until=0)
            assert login.get("/api/store").status == 401

    def test_the_streams_of_one_that_was_removed_end(self, tmp_path: Path) -> None:
        hurried = "from bgjob.web import replies; replies.KEEP_ALIVE_S = 0.2"
        with HttpServer(tmp_path / "home", first=hurried) as server, server.connect() as connected:
            login = PageLogin(server)
            connected.sendall(head("GET", login.placed("/api/stream"), [server.host(), login.cookie]))
            answer = http.client.HTTPResponse(connected)
            answer.begin()
            with answer:
                assert answer.status == 200
                assert answer.readline() == b":\n"
                assert login.post("/api/logout").status == 204
                answer.read()  # to its end

    @pytest.mark.parametrize(
        "content",
        ["", "{", "[]", '{"logins": 7}', '{"logins": {"x": 1}}', '{"logins": {"x": {"kind": "key"}}}'],
    )
    def test_a_file_that_cannot_be_read_lets_no_browser_in(self, tmp_path: Path, content: str) -> None:
        with HttpServer(tmp_path / "home") as server:
            login = PageLogin(server)
            (server.home / "logins.json").write_text(content)
            assert login.get("/api/store").status == 401
            assert log_in(server, first_key(server)).status == 401

    @pytest.mark.parametrize("damage", [{"scopes": None}, {"scopes": [["run"]]}, {"until": "x"}, {"kind": 1}])
    def test_a_row_that_cannot_be_read_gives_no_right(self, tmp_path: Path, damage: dict[str, Any]) -> None:
        with HttpServer(tmp_path / "home") as server:
            login = PageLogin(server)
            change_logins(server, "login", **damage)
            assert login.get("/api/store").status in (401, 403)


@pytest.fixture(scope="module")
def only(target: Target) -> dict[str, PageLogin]:
    """Logins with one right each."""
    server = target.server
    return {scope: PageLogin(server, new_key(server, "--scope", scope)) for scope in ("read", "run", "kill")}


class TestScopes:
    READS = ("store", "job?job={job}", "events?from=0&to=1")
    STEERS: Mapping[str, Mapping[str, Any]] = {
        "start": {"command": "true"},
        "answer": {"job": "{job}", "text": "x"},
        "type": {"viewer": "x", "data": ""},
        "resize": {"viewer": "x", "rows": 1, "cols": 1},
        "hold": {"viewer": "x", "hold": True},
        "rerun": {"job": "{job}"},
        "priority": {"job": "{job}", "priority": 1},
    }
    ENDS: Mapping[str, Mapping[str, Any]] = {
        "kill": {"jobs": ["{job}"]},
        "remove": {"jobs": ["{job}"]},
        "signal": {"job": "{job}", "signal": "KILL"},
        "pause": {"job": "{job}"},
        "resume": {"job": "{job}"},
    }

    @pytest.mark.parametrize("path", READS)
    def test_reading(self, target: Target, only: dict[str, PageLogin], path: str) -> None:
        asked = f"/api/{path.replace('{job}', target.job_id)}"
        statuses = {scope: login.get(asked).status for scope, login in only.items()}
        assert statuses == {"read": 200, "run": 403, "kill": 403}
        for login in (only["run"], only["kill"]):
            assert login.get("/api/stream").status == 403

    @pytest.mark.parametrize("path", [*STEERS, *ENDS])
    def test_steering_and_ending(self, target: Target, only: dict[str, PageLogin], path: str) -> None:
        scope = "run" if path in self.STEERS else "kill"
        body = json.dumps({**self.STEERS, **self.ENDS}[path]).replace("{job}", target.job_id).encode()
        for login in (each for other, each in only.items() if other != scope):
            check_refusal(login.post(f"/api/{path}", body), 403)
        assert only[scope].post(f"/api/{path}", b'{"jobs":["x"],"job":"x"}').status in (200, 400, 404, 409)
        assert target.is_alive()

    def test_a_page_is_told_what_it_may(self, target: Target, only: dict[str, PageLogin]) -> None:
        assert only["read"].get("/api/store").json["scopes"] == ["read"]
        assert target.login.get("/api/store").json["scopes"] == ["kill", "read", "run"]

    def test_of_every_path_of_the_page_it_is_known_which_right_it_needs(self) -> None:
        """A path that is added is added here too."""
        source = "\n".join(path.read_text() for path in Path(guard.__file__).parent.glob("*.py"))
        posts = set(re.findall(r'post\("/api/([a-z]+)"', source))
        assert posts == {*self.STEERS, *self.ENDS}


class TestProxy:
    """That ends TLS, and hands on the Host that it was asked for."""

    NAME = "jobs.example.com"

    @pytest.mark.parametrize(
        ("host", "scheme", "status", "is_secure"),
        [
            (NAME, "https", 200, True),
            (NAME, "http", 200, False),
            (f"{NAME}:8443", "https", 200, True),
            (None, "http", 200, False),
            (None, "https", 403, False),
            ("localhost", "https", 403, False),
        ],
    )
    def test_an_origin_of_https_is_ours_by_the_name_that_was_allowed(
        self, tmp_path: Path, host: str | None, scheme: str, status: int, is_secure: bool
    ) -> None:
        with HttpServer(tmp_path / "home", "--allow-host", self.NAME.title()) as server:
            asked = host or f"127.0.0.1:{server.port}"
            headers: list[Header] = [("Host", asked), ("Origin", f"{scheme}://{asked}"), POSTED, JSON]
            body = json.dumps({"key": first_key(server)}).encode()
            answer = server.request("POST", "/api/login", headers, body)
            assert answer.status == status
            assert ("; Secure" in lowered(answer.headers).get("set-cookie", "")) == is_secure

    def test_the_page_is_served_on_a_unix_socket_too(self, tmp_path: Path) -> None:
        home, path = tmp_path / "home", tmp_path / "socket"
        with HttpServer(home, "--unix", str(path), "--allow-host", self.NAME) as server:
            address = server.command("page", "--print", "--address", f"https://{self.NAME}").stdout
            headers: list[Header] = [("Host", self.NAME), ("Origin", f"https://{self.NAME}"), POSTED, JSON]
            body = json.dumps({"key": key_in(address)}).encode()
            assert server.request("POST", "/api/login", headers, body).status == 200
            assert server.request("GET", "/", [("Host", self.NAME)]).status == 200

    def test_the_same_for_mcp(self, tmp_path: Path) -> None:
        message, named = stateless("tools/list")
        with HttpServer(tmp_path / "home", "--allow-host", self.NAME) as server:
            for host, status in ((self.NAME, 200), (f"127.0.0.1:{server.port}", 403)):
                headers = [*named, ("Host", host), ("Origin", f"https://{host}")]
                assert server.post(message, *headers).status == status

    @needs("openssl")
    def test_a_server_with_tls_is_https_alone(self, tmp_path: Path) -> None:
        with tls_server(tmp_path) as (server, context):
            body = json.dumps({"key": first_key(server)}).encode()
            for scheme, status in (("http", 403), ("https", 200)):
                own = ("Origin", f"{scheme}://127.0.0.1:{server.port}")
                headers = [server.host(), own, POSTED, JSON, ("Content-Length", str(len(body)))]
                with (
                    server.connect() as plain,
                    context.wrap_socket(plain, server_hostname="127.0.0.1") as connected,
                ):
                    connected.sendall(head("POST", "/api/login", headers) + body)
                    answer = response(connected)
                    assert answer.status == status
                    is_secure = lowered(answer.headers).get("set-cookie", "").endswith("; Secure")
                    assert is_secure == (scheme == "https")


class TestVendoredFiles:
    def test_they_are_as_their_list_says(self) -> None:
        """Lines: SHA-256, name, package@version. All files are listed, and all that are listed are there."""
        vendor = STATIC / "vendor"
        there = {
            path.relative_to(vendor).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in vendor.rglob("*")
            if path.is_file() and path.name != "HASHES"
        }
        rows = [line.split() for line in (vendor / "HASHES").read_text().splitlines()]
        assert {name: digest for digest, name, _ in rows} == there
        assert len(rows) == len(there) > 0
        assert all(package.rpartition("@")[2][0].isdigit() for _, _, package in rows)

    def test_no_file_of_ours_names_another_server(self) -> None:
        """Only the names of XML look like one."""
        own = [path for path in STATIC.rglob("*") if path.is_file() and "vendor" not in path.parts]
        named = {path.name: re.findall(r"//\w[\w-]*\.[\w.-]+", path.read_text()) for path in own}
        assert {name: found for name, found in named.items() if set(found) - {"//www.w3.org"}} == {}
        assert len(own) > 10

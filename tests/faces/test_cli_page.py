"""bgjob page: the address of the page of a running server, with a key that logs one browser in."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faces.command_line import Cli, Ended, assert_one_line_of_error
from tests.support.gate import Gate
from tests.support.http_server import HttpServer
from tests.support.page_login import PageLogin, key_in, log_in

PROXY = "https://jobs.example.com"
NOBODY = 65534


@pytest.fixture
def serving(home: Path) -> Iterator[HttpServer]:
    with HttpServer(home) as server:
        yield server


@pytest.fixture
def browser(tmp_path: Path) -> Path:
    """A browser that notes what it is to show."""
    script = tmp_path / "browser"
    script.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/opened\n')
    script.chmod(0o755)
    return script


def printed(cli: Cli, *arguments: str) -> str:
    """The address, without the end of its line."""
    said = cli("page", "--print", *arguments)
    assert (said.returncode, said.stderr) == (0, "")
    return said.stdout.removesuffix("\n")


def server_of(address: str) -> str:
    return address.partition("/#")[0]


LOG_IN = """
import encodings.idna, http.client, os, sys
uid, port, key = sys.argv[1:]
connection = http.client.HTTPConnection("127.0.0.1", int(port))
os.seteuid(int(uid))
connection.connect()
headers = {"Origin": f"http://127.0.0.1:{port}", "X-Bgjob": "1", "Content-Type": "application/json"}
connection.request("POST", "/api/login", '{"key": "%s"}' % key, headers)
print(connection.getresponse().status)
"""


def log_in_as(uid: int, server: HttpServer, key: str) -> int:
    """The status of the answer."""
    command = [sys.executable, "-c", LOG_IN, str(uid), str(server.port), key]
    return int(subprocess.run(command, capture_output=True, check=True).stdout)


class TestTheAddress:
    def test_is_opened_in_the_browser(self, cli: Cli, serving: HttpServer, browser: Path) -> None:
        said = cli("page", env={"BROWSER": str(browser)})
        assert (said.returncode, said.stderr) == (0, "")
        assert browser.with_name("opened").read_text() == said.stdout
        assert server_of(said.stdout) == f"http://127.0.0.1:{serving.port}"

    def test_is_only_printed_where_that_is_wanted(self, cli: Cli, serving: HttpServer, browser: Path) -> None:
        said = cli("page", "--print", env={"BROWSER": str(browser)})
        assert server_of(said.stdout) == f"http://127.0.0.1:{serving.port}"
        assert not browser.with_name("opened").exists()

    def test_logs_one_browser_in_once(self, cli: Cli, serving: HttpServer) -> None:
        first, second = (key_in(printed(cli)) for _ in range(2))
        assert [log_in(serving, key).status for key in (first, first, second)] == [200, 401, 200]

    @pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
    def test_logs_in_no_other_user_who_has_seen_it_in_the_arguments_of_the_browser(
        self, cli: Cli, home: Path, browser: Path
    ) -> None:
        with HttpServer(home) as server:
            key = key_in(cli("page", env={"BROWSER": str(browser)}).stdout)
            assert log_in_as(NOBODY, server, key) == 401
            assert log_in_as(NOBODY, server, key_in(printed(cli))) == 200  # only a person has seen it
            assert log_in(server, key).status == 200

    def test_is_that_of_a_job(self, cli: Cli, serving: HttpServer, ended: Ended) -> None:
        job_id = cli.run("--name", "tests", "true")
        ended(job_id)
        for word in (job_id, job_id[:8], "tests"):
            address = printed(cli, word)
            assert address.partition("#")[0] == f"http://127.0.0.1:{serving.port}/?job={job_id}"

    def test_can_be_for_a_browser_that_may_only_look(self, cli: Cli, serving: HttpServer) -> None:
        logins = serving.home / "logins.json"
        PageLogin(serving, key_in(printed(cli, "--scope", "read")))
        assert logins.read_text().count('["read"]') == 1
        PageLogin(serving, key_in(printed(cli, "--scope", "kill", "--scope", "read")))
        assert logins.read_text().count('["read", "kill"]') == 1

    @pytest.mark.parametrize("given", [PROXY, f"{PROXY}/"])
    def test_can_be_that_of_a_proxy(self, cli: Cli, given: str) -> None:
        """Also if no server is known here."""
        assert server_of(printed(cli, "--address", given)) == PROXY

    @pytest.mark.parametrize("host", ["0.0.0.0"])
    def test_names_this_machine_where_the_server_is_for_every_network(
        self, cli: Cli, home: Path, host: str
    ) -> None:
        with HttpServer(home, "--host", host, "--insecure-network") as server:
            port = server.address.rpartition(":")[2].partition("/")[0]
            assert server_of(printed(cli)) == f"http://localhost:{port}"


class TestWhichServer:
    def test_the_newest_that_runs(self, cli: Cli, home: Path) -> None:
        with HttpServer(home) as first:
            with HttpServer(home) as second:
                assert server_of(printed(cli)) == f"http://127.0.0.1:{second.port}"
                assert second.stop() == 0
            assert server_of(printed(cli)) == f"http://127.0.0.1:{first.port}"

    def test_one_that_was_killed_is_not_found(self, cli: Cli, home: Path, gate: Gate) -> None:
        """Also if a job that it has started goes on."""
        with HttpServer(home) as first, HttpServer(home) as second:
            second.execute(gate.pause, first.token)
            gate.wait_until_reached()
            second.stop(signal.SIGKILL)
            assert server_of(printed(cli)) == f"http://127.0.0.1:{first.port}"
            gate.open()

    def test_what_a_killed_one_has_left_behind_is_removed_by_the_next(self, home: Path) -> None:
        servers = home / "servers"
        with HttpServer(home) as killed:
            killed.stop(signal.SIGKILL)
            (left,) = servers.iterdir()
        with HttpServer(home) as server:
            (there,) = servers.iterdir()
            assert there != left
            assert there.stat().st_mode & 0o777 == 0o600
            assert server.stop() == 0
        assert list(servers.iterdir()) == []

    def test_one_on_a_unix_socket_cannot_be_opened(self, cli: Cli, home: Path, tmp_path: Path) -> None:
        with HttpServer(home, "--unix", str(tmp_path / "socket")):
            assert_one_line_of_error(cli("page", "--print"), "No server", "bgjob serve", "--address URL")

    def test_none(self, cli: Cli) -> None:
        assert_one_line_of_error(cli("page"), "No server", "bgjob serve starts one")

    def test_records_that_cannot_be_read_are_passed_over(self, cli: Cli, serving: HttpServer) -> None:
        for name, content in {"a": "{", "b": '{"address": 7}', "c": "[]"}.items():
            (serving.home / "servers" / name).write_text(content)
        assert server_of(printed(cli)) == f"http://127.0.0.1:{serving.port}"


class TestForget:
    def test_all_browsers_are_logged_out(self, cli: Cli, serving: HttpServer) -> None:
        key = key_in(printed(cli))
        logins = [PageLogin(serving), PageLogin(serving, key_in(printed(cli)))]
        assert cli("page", "--forget").stdout == "2 browsers logged out\n"
        assert [login.post("/api/logout").status for login in logins] == [401, 401]
        assert log_in(serving, key).status == 401
        assert cli("page", "--forget").stdout == "0 browsers logged out\n"


class TestErrors:
    @pytest.mark.parametrize(
        "arguments",
        [
            ("--scope", "write"),
            ("--address", "jobs.example.com"),
            ("--address", "ftp://x"),
            ("--address", "https://x/bgjob"),
            ("--address", "https://user@x"),
            ("--address", "https://x/#key=1"),
            ("one", "two"),
        ],
    )
    def test_wrong_usage(self, cli: Cli, arguments: tuple[str, ...]) -> None:
        assert cli("page", "--print", *arguments).returncode == 2

    def test_no_such_job(self, cli: Cli, serving: HttpServer) -> None:
        refused = cli("page", "--print", "nothing")
        assert_one_line_of_error(refused, "nothing")
        assert (serving.home / "logins.json").read_text().count('"key"') == 1  # that of the server's start

    def test_a_browser_that_fails(self, cli: Cli, serving: HttpServer) -> None:
        failed = cli("page", env={"BROWSER": "/bin/false", "PATH": "/nowhere", "DISPLAY": ""})
        assert (failed.returncode, server_of(failed.stdout)) == (1, f"http://127.0.0.1:{serving.port}")
        assert "No browser could be started" in failed.stderr

    def test_logins_that_cannot_be_read(self, cli: Cli, home: Path) -> None:
        """The server starts all the same: its MCP clients need them not."""
        with HttpServer(home) as first:
            assert first.stop() == 0
        (home / "logins.json").write_text("{")
        with HttpServer(home) as server:
            assert "no browser can log in now" in "".join(server.told)
            assert_one_line_of_error(cli("page", "--print"), "logins.json cannot be read")
            assert (home / "logins.json").read_text() == "{"

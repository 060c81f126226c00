"""bgjob page: the address of the page of a running server, with a key that logs one browser in."""

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.faces.command_line import Cli, Ended, assert_one_line_of_error
from tests.support.gate import Gate
from tests.support.http_server import HttpServer
from tests.support.page_login import PageLogin, key_in, log_in

PROXY = "https://jobs.example.com"


@pytest.fixture
def serving(home: Path) -> Iterator[HttpServer]:
    with HttpServer(home) as server:
        yield server


@pytest.fixture
def browser(tmp_path: Path) -> Path:
    """A browser that notes what it is to show, and what other users could see of it."""
    script = tmp_path / "browser"
    script.write_text(f"""#!/bin/sh
echo "$@" >> {tmp_path}/opened
tr '\\0' '\\n' < /proc/$$/cmdline > {tmp_path}/seen
env >> {tmp_path}/seen
""")
    script.chmod(0o755)
    return script


@pytest.fixture
def person(tmp_path: Path, browser: Path) -> dict[str, str]:
    """The environment of a person with this browser, and a home directory of their own."""
    own = tmp_path / "person's own %41"
    own.mkdir()
    return {"HOME": str(own), "BROWSER": str(browser)}


def file_of(browser: Path) -> Path:
    """What the browser was given."""
    given = browser.with_name("opened").read_text().strip()
    assert given.startswith("file:///")
    return Path(unquote(given.removeprefix("file://")))


def printed(cli: Cli, *arguments: str) -> str:
    """The address, without the end of its line."""
    said = cli("page", "--print", *arguments)
    assert (said.returncode, said.stderr) == (0, "")
    return said.stdout.removesuffix("\n")


def server_of(address: str) -> str:
    return address.partition("/#")[0]


class TestTheAddress:
    def test_is_opened_in_the_browser_by_a_file_that_only_its_owner_can_read(
        self, cli: Cli, serving: HttpServer, browser: Path, person: dict[str, str]
    ) -> None:
        said = cli("page", env=person)
        assert (said.returncode, said.stderr) == (0, "")
        assert server_of(said.stdout) == f"http://127.0.0.1:{serving.port}"
        file = file_of(browser)
        assert (str(file.parent), file.stat().st_mode & 0o777) == (person["HOME"], 0o600)
        assert f'location.replace("{said.stdout.strip()}")' in file.read_text()
        assert not file.name.startswith(".")  # which a browser in a sandbox could not read

    def test_is_in_no_argument_and_no_variable_of_the_browser(
        self, cli: Cli, serving: HttpServer, browser: Path, person: dict[str, str]
    ) -> None:
        key = key_in(cli("page", env=person).stdout)
        seen = browser.with_name("seen").read_text()
        assert str(file_of(browser).name) in unquote(seen)
        assert key not in seen

    def test_is_gone_from_the_disk_when_it_was_used(
        self, cli: Cli, serving: HttpServer, browser: Path, person: dict[str, str]
    ) -> None:
        key = key_in(cli("page", env=person).stdout)
        file = file_of(browser)
        assert file.exists()
        assert log_in(serving, key).status == 200
        assert not file.exists()

    def test_or_is_too_old(
        self, cli: Cli, serving: HttpServer, browser: Path, person: dict[str, str]
    ) -> None:
        cli("page", env=person)
        file, logins = file_of(browser), serving.home / "logins.json"
        logins.write_text(re.sub(r'"until": *[0-9.]+', '"until": 1.0', logins.read_text()))
        assert file.exists()
        printed(cli)
        assert not file.exists()

    def test_is_in_the_store_where_there_is_no_home_directory(
        self, cli: Cli, serving: HttpServer, browser: Path, person: dict[str, str]
    ) -> None:
        cli("page", env=person | {"HOME": "/nowhere"})
        assert file_of(browser).parent == serving.home

    def test_is_only_printed_where_that_is_wanted(self, cli: Cli, serving: HttpServer, browser: Path) -> None:
        said = cli("page", "--print", env={"BROWSER": str(browser)})
        assert server_of(said.stdout) == f"http://127.0.0.1:{serving.port}"
        assert not browser.with_name("opened").exists()

    def test_logs_one_browser_in_once(self, cli: Cli, serving: HttpServer) -> None:
        first, second = (key_in(printed(cli)) for _ in range(2))
        assert [log_in(serving, key).status for key in (first, first, second)] == [200, 401, 200]

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
            assert server_of(printed(cli)) == f"http://127.0.0.1:{port}"


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
    def test_all_browsers_are_logged_out(
        self, cli: Cli, serving: HttpServer, browser: Path, person: dict[str, str]
    ) -> None:
        key = key_in(cli("page", env=person).stdout)
        logins = [PageLogin(serving), PageLogin(serving, key_in(printed(cli)))]
        assert file_of(browser).exists()
        assert cli("page", "--forget").stdout == "2 browsers logged out\n"
        assert not file_of(browser).exists()
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

    def test_a_browser_that_fails(self, cli: Cli, serving: HttpServer, tmp_path: Path) -> None:
        failed = cli(
            "page", env={"BROWSER": "/bin/false", "PATH": "/nowhere", "DISPLAY": "", "HOME": str(tmp_path)}
        )
        assert not list(tmp_path.glob("bgjob-page-*"))
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

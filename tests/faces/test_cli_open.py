"""bgjob open: the address of the port that a job listens on, for the browser."""

import sys
from pathlib import Path

import pytest

from bgjob.api import Jobs
from tests.faces.command_line import Cli, Ended, assert_one_line_of_error
from tests.support.gate import Gate
from tests.support.requires import linux_only
from tests.support.waiting import wait_until

pytestmark = linux_only

LISTEN = """
import socket, sys, time
held = [socket.create_server((host, 0)) for host in sys.argv[1:]]
print(*(each.getsockname()[1] for each in held), flush=True)
time.sleep(1000)
"""


def listening(cli: Cli, jobs: Jobs, *hosts: str) -> list[int]:
    """The ports of a job that is known to listen."""
    job_id = cli.run("--name", "web", "--", sys.executable, "-c", LISTEN, *hosts)
    wait_until(lambda: "\n" in jobs.output(job_id).stdout)
    return list(map(int, jobs.output(job_id).stdout.split()))


@pytest.fixture
def browser(tmp_path: Path) -> Path:
    """A browser that notes what it is to show."""
    script = tmp_path / "browser"
    script.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/opened\n')
    script.chmod(0o755)
    return script


class TestTheAddress:
    def test_is_opened_in_the_browser(self, cli: Cli, jobs: Jobs, browser: Path) -> None:
        (port,) = listening(cli, jobs, "127.0.0.1")
        said = cli("open", env={"BROWSER": str(browser)})
        address = f"http://localhost:{port}\n"
        assert (said.stdout, said.stderr, said.returncode) == (address, "", 0)
        assert browser.with_name("opened").read_text() == address

    def test_is_only_printed_where_that_is_wanted(self, cli: Cli, jobs: Jobs, browser: Path) -> None:
        (port,) = listening(cli, jobs, "0.0.0.0")
        shown = cli("open", "--print", "web", env={"BROWSER": str(browser)}).stdout
        assert shown == f"http://localhost:{port}\n"
        assert not browser.with_name("opened").exists()

    def test_names_the_host_where_it_is_not_every_one(self, cli: Cli, jobs: Jobs) -> None:
        (port,) = listening(cli, jobs, "127.0.0.2")
        assert cli("open", "--print").stdout == f"http://127.0.0.2:{port}\n"

    def test_of_several_is_the_lowest_or_the_chosen(self, cli: Cli, jobs: Jobs) -> None:
        ports = listening(cli, jobs, "127.0.0.1", "127.0.0.1")
        assert cli("open", "--print").stdout == f"http://localhost:{min(ports)}\n"
        assert cli("open", "--print", "--port", str(max(ports))).stdout == f"http://localhost:{max(ports)}\n"
        refused = cli("open", "--print", "--port", "1")
        assert_one_line_of_error(refused, f"it does not listen on 1, but on {min(ports)}, {max(ports)}")


class TestErrors:
    def test_a_job_that_listens_on_nothing(self, cli: Cli, gate: Gate) -> None:
        job_id = cli.run(gate.pause)
        gate.wait_until_reached()
        assert_one_line_of_error(cli("open", job_id), "it listens on no port")

    def test_a_job_that_has_ended(self, cli: Cli, ended: Ended) -> None:
        job_id = cli.run("true")
        ended(job_id)
        assert_one_line_of_error(cli("open", job_id), "it has ended")

    def test_a_job_in_the_queue(self, cli: Cli) -> None:
        assert_one_line_of_error(cli("open", cli.run("--delay", "1000", "true")), "it waits in the queue")

    def test_no_job_at_all(self, cli: Cli) -> None:
        assert_one_line_of_error(cli("open"), "There are no jobs yet")

    def test_a_browser_that_fails(self, cli: Cli, jobs: Jobs) -> None:
        (port,) = listening(cli, jobs, "127.0.0.1")
        failed = cli("open", env={"BROWSER": "/bin/false", "PATH": "/nowhere", "DISPLAY": ""})
        assert (failed.returncode, failed.stdout) == (1, f"http://localhost:{port}\n")
        assert "No browser could be started" in failed.stderr

    @pytest.mark.parametrize("port", ["0", "-1", "http"])
    def test_a_port_that_is_none(self, cli: Cli, port: str) -> None:
        assert cli("open", "--port", port).returncode == 2

"""`bgjob notify`: the rules by which a person is told of jobs."""

import contextlib
import json
import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bgjob.api import Jobs
from tests.faces.command_line import BGJOB, Cli, assert_one_line_of_error
from tests.support.server import Server, StartServer, ToolError
from tests.support.webhooks import Desktop, Receiver, receiving, wait_until_all_is_told

pytestmark = pytest.mark.usefixtures("no_watcher_left")


@pytest.fixture
def cli(home: Path) -> Cli:
    return Cli(home)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


def test_without_rules_it_shows_which_ways_there_are(cli: Cli, tmp_path: Path) -> None:
    desktop = Desktop(tmp_path / "desktop")
    assert cli("notify", env=desktop.environment).stdout.splitlines() == [
        "desktop: no rule",
        "bell: no rule",
        "webhook: no rule",
    ]
    bare = cli("notify", env={"PATH": str(tmp_path)}).stdout.splitlines()
    assert bare[0].startswith("desktop: no rule (notify-send is not on the PATH; it is in the package")


def test_a_rule_is_added_shown_tried_and_removed(cli: Cli, receiver: Receiver) -> None:
    added = cli(
        *("notify", "add", "webhook", receiver.url, "--on", "question,end"),
        *("--header", "Authorization=Bearer of-mine"),
    )
    sentence = f"webhook {receiver.url}: on end, question"
    assert (added.returncode, added.stdout, added.stderr) == (0, f"{sentence}\n", "")
    tried = cli("notify", "test", "webhook")
    assert (tried.returncode, tried.stdout) == (0, f"webhook {receiver.url}: delivered\n")
    assert receiver.bodies("kind") == ["test"]
    assert receiver.posted[0].headers["authorization"] == "Bearer of-mine"
    shown = cli("notify").stdout
    assert shown.startswith(f"{sentence}\n  header Authorization: (not shown)\n")
    assert "of-mine" not in shown + added.stdout + tried.stdout
    assert cli("notify", "remove", receiver.url).stdout == f"webhook {receiver.url} removed\n"
    assert cli("notify").stdout.splitlines()[-1] == "webhook: no rule"


def test_what_became_of_the_last_notice_is_shown(cli: Cli, jobs: Jobs, receiver: Receiver) -> None:
    cli("notify", "add", "webhook", receiver.url)
    receiver.answers = [404]
    for _ in range(2):
        cli.run("false")
        wait_until_all_is_told(jobs)
    first, told, failed = cli("notify").stdout.splitlines()[:3]
    assert first == f"webhook {receiver.url}: on failure, question"
    assert told.startswith("  last told: ")
    assert failed.startswith("  last error: ")
    assert failed.endswith(": it answered 404")


def test_a_test_that_fails_says_why_and_exits_with_1(cli: Cli, receiver: Receiver) -> None:
    receiver.answers = [401]
    cli("notify", "add", "webhook", receiver.url)
    tried = cli("notify", "test")
    assert (tried.returncode, tried.stdout) == (1, f"webhook {receiver.url}: it answered 401\n")


def test_a_bell_is_that_of_the_terminal_where_it_was_added(cli: Cli, jobs: Jobs) -> None:
    master, slave = pty.openpty()
    with contextlib.ExitStack() as leave:
        leave.callback(os.close, master)
        leave.callback(os.close, slave)
        subprocess.run(
            [BGJOB, "notify", "add", "bell", "--on", "end"],
            env=cli.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=slave,
            check=True,
        )
        cli.run("true")
        wait_until_all_is_told(jobs)
        assert os.read(master, 100) == b"\a"
        assert cli("notify").stdout.startswith(f"bell {os.ttyname(slave)}: on end\n  last told: ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["add", "bell"], ["no terminal here", "--tty"]),
        (["add", "bell", "--tty", "/dev/null"], ["/dev/null is no terminal"]),
        (["add", "bell", "--tty", "/dev/\x1b[31m"], ["^[[31m"]),
        (["add", "webhook"], ["URL"]),
        (["add", "webhook", "http://a:b@example.org"], ["--header Authorization=VALUE"]),
        (["add", "desktop", "http://example.org"], ["desktop has no URL"]),
        (["add", "desktop", "--header", "A=b"], ["Only a webhook has headers"]),
        (["remove", "desktop"], ["no rule for 'desktop'"]),
        (["test"], ["There is no rule"]),
    ],
)
def test_an_error_is_one_line_that_says_what_to_do(cli: Cli, arguments: list[str], words: list[str]) -> None:
    assert_one_line_of_error(cli("notify", *arguments), *words)


@pytest.mark.parametrize("arguments", [["add"], ["add", "smoke"], ["add", "desktop", "--on", "start"], ["x"]])
def test_wrong_usage_is_told_so(cli: Cli, arguments: list[str]) -> None:
    assert cli("notify", *arguments).returncode == 2


@pytest.mark.parametrize("kinds", ["foo", "end,foo", "end,", ""])
def test_a_kind_that_there_is_none_of_is_named_with_those_that_there_are(cli: Cli, kinds: str) -> None:
    refused = cli("notify", "add", "desktop", "--on", kinds)
    assert (refused.returncode, refused.stdout) == (2, "")
    told = f"argument --on: {kinds!r} is not accepted: give some of end,failure,question"
    assert told in refused.stderr.splitlines()[-1]


UNREADABLE = {
    "half a file": "{bad",
    "nothing": "",
    "no object": "[]",
    "rules of another form": '{"format": 1, "rules": []}',
    "no rules": "{}",
}


@pytest.fixture(params=UNREADABLE.values(), ids=list(UNREADABLE))
def unreadable(cli: Cli, home: Path, request: pytest.FixtureRequest) -> Path:
    cli("ps")
    path = home / "notify.json"
    path.write_text(request.param)
    return path


@pytest.mark.parametrize("arguments", [[], ["test"], ["remove", "desktop"], ["add", "desktop"]], ids=" ".join)
def test_a_file_of_rules_that_cannot_be_read_is_an_error_and_is_left_as_it_is(
    cli: Cli, unreadable: Path, arguments: list[str]
) -> None:
    before = unreadable.read_bytes()
    refused = cli("notify", *arguments)
    assert_one_line_of_error(refused, f"{unreadable} cannot be read", "Move it away; its rules are then gone")
    assert unreadable.read_bytes() == before


def test_a_job_may_be_silenced_or_choose(cli: Cli, jobs: Jobs, receiver: Receiver) -> None:
    cli("notify", "add", "webhook", receiver.url)
    cli.run("--notify", "off", "--name", "silent", "false")
    cli.run("--notify", "webhook:end", "--name", "chosen", "true")
    wait_until_all_is_told(jobs)
    assert receiver.bodies("name") == ["chosen"]
    assert_one_line_of_error(
        cli("run", "--notify", "bell", "true"), "--notify names bell", "bgjob notify add"
    )
    assert_one_line_of_error(cli("run", "--notify", "x", "true"), "--notify='x' is not valid")


def test_two_that_are_added_at_once_are_both_there(cli: Cli, home: Path) -> None:
    cli("ps")
    urls = [f"http://127.0.0.1:1/{number}" for number in range(4)]
    adding = [cli.begin("notify", "add", "webhook", url) for url in urls]
    assert [(each.communicate()[1], each.returncode) for each in adding] == [("", 0)] * 4
    kept = json.loads((home / "notify.json").read_text())["rules"]
    assert sorted(rule["target"] for rule in kept.values()) == urls


class TestAModel:
    @pytest.fixture
    def server(self, start_server: StartServer) -> Server:
        return start_server()

    def test_chooses_among_the_rules_of_the_user(
        self, server: Server, cli: Cli, jobs: Jobs, receiver: Receiver
    ) -> None:
        cli("notify", "add", "webhook", receiver.url)
        server.execute("true", name="chosen", options={"notify": "webhook:end"})
        server.execute("false", name="silent", options={"notify": "off"})
        server.execute("exit 2", name="plain")
        wait_until_all_is_told(jobs)
        assert sorted(receiver.bodies("name")) == ["chosen", "plain"]

    @pytest.mark.parametrize(
        "form", ["{url}", "webhook {url}", "webhook={url}", "webhook:{url}", "webhook,{url}"]
    )
    def test_cannot_choose_where_it_goes(
        self, server: Server, cli: Cli, receiver: Receiver, form: str
    ) -> None:
        cli("notify", "add", "webhook", "http://127.0.0.1:1/")
        with pytest.raises(ToolError, match=r"notify=.* is not valid"):
            server.execute("false", options={"notify": form.format(url=receiver.url)})
        assert receiver.posted == []

    def test_is_told_when_there_is_no_such_rule(self, server: Server) -> None:
        with pytest.raises(ToolError, match="notify names webhook, for which there is no rule here"):
            server.execute("false", options={"notify": "webhook"})

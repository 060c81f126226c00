"""A person is told of jobs: by a real HTTP server, a program in the place of notify-send, and a real terminal."""

import contextlib
import json
import os
import pty
import re
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from bgjob.api import Jobs, Typed
from bgjob.api.notify import add_rule, remove_rules, rule_states, try_rules
from bgjob.core.errors import InvalidArgument
from bgjob.home import watch_registry
from bgjob.home.layout import NOTIFIED, NOTIFY
from bgjob.store.notify_rules import notify_rules
from tests.support.gate import Gate
from tests.support.process_table import every_pid, parent_of, wait_until_gone
from tests.support.queueing import OpenJobs
from tests.support.shims import kill_both
from tests.support.telling import keeper_and_watcher, watchers
from tests.support.waiting import PATIENCE_S, wait_until
from tests.support.webhooks import HELD, Desktop, Receiver, receiving, wait_until_all_is_told

pytestmark = pytest.mark.usefixtures("no_watcher_left")

EVERY_KIND = ["end", "failure", "question"]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def desktop(tmp_path: Path) -> Desktop:
    return Desktop(tmp_path / "desktop")


@pytest.fixture
def with_desktop(open_with: OpenJobs, desktop: Desktop) -> Jobs:
    return open_with(**desktop.environment)


@contextlib.contextmanager
def _terminal() -> Iterator[tuple[int, str]]:
    """What a person sees of it, and its path."""
    master, slave = pty.openpty()
    yield master, os.ttyname(slave)
    os.close(slave)
    os.close(master)


@pytest.fixture
def terminal() -> Iterator[tuple[int, str]]:
    with _terminal() as opened:
        yield opened


class TestWhatIsTold:
    def test_a_failure_with_all_that_a_person_wants_to_know(self, jobs: Jobs, receiver: Receiver) -> None:
        add_rule(jobs.context, "webhook", receiver.url, headers={"Authorization": "Bearer x"})
        job = jobs.execute("echo one; echo two >&2; echo; exit 3", name="build")
        wait_until_all_is_told(jobs)
        (posted,) = receiver.posted
        assert posted.path == "/hook?x=1"
        assert (posted.headers["authorization"], posted.headers["content-type"]) == (
            "Bearer x",
            "application/json",
        )
        assert posted.body.pop("duration_s") >= 0
        assert posted.body.pop("at") >= job.spec.created_at
        assert posted.body == {
            "text": f'"build" ({job.id[:8]}) failed with exit code 3',
            "kind": "failure",
            "how": "failed with exit code 3",
            "job_id": job.id,
            "name": "build",
            "command": "echo one; echo two >&2; echo; exit 3",
            "cause": "exited",
            "exit_code": 3,
            "signal": None,
            "last_line": "two",
        }

    def test_a_completed_job_only_if_every_end_is_wanted(self, jobs: Jobs, receiver: Receiver) -> None:
        add_rule(jobs.context, "webhook", receiver.url)
        jobs.execute("true", name="quiet")
        jobs.execute("true", name="chosen", options={"notify": "webhook:end"})
        jobs.execute("false", name="failed")
        wait_until_all_is_told(jobs)
        assert sorted(receiver.bodies("name")) == ["chosen", "failed"]
        add_rule(jobs.context, "webhook", receiver.url, ["end"])
        jobs.execute("true", name="loud")
        wait_until_all_is_told(jobs)
        assert (receiver.posted[-1].body["name"], receiver.posted[-1].body["kind"]) == ("loud", "end")

    def test_a_question_while_it_waits_for_the_answer(self, jobs: Jobs, receiver: Receiver) -> None:
        add_rule(jobs.context, "webhook", receiver.url)
        job = jobs.execute("printf 'Delete all? [y/N] '; read x; echo $x")
        receiver.wait_for(1)
        (body,) = [posted.body for posted in receiver.posted]
        assert (body["kind"], body["prompt"], body["name"]) == ("question", "Delete all? [y/N]", None)
        jobs.interact(job.id, Typed("n"))
        wait_until_all_is_told(jobs)
        assert len(receiver.posted) == 1  # it completed

    def test_a_lost_job_is_a_failure(self, jobs: Jobs, receiver: Receiver) -> None:
        add_rule(jobs.context, "webhook", receiver.url)
        job = jobs.execute("exec sleep 1000")
        kill_both(jobs, job.id)
        wait_until_all_is_told(jobs)
        assert receiver.bodies("cause") == ["lost"]

    def test_in_the_order_of_the_events(self, jobs: Jobs, receiver: Receiver) -> None:
        receiver.answers = [HELD]
        add_rule(jobs.context, "webhook", receiver.url)
        names = [f"number {number}" for number in range(5)]
        for name in names:
            job = jobs.execute("exit 1", name=name)
            jobs.events("0.0", job_ids=[job.id], kinds=["ended"], timeout_s=PATIENCE_S)
        receiver.released.set()
        wait_until_all_is_told(jobs)
        assert receiver.bodies("name") == names


class TestWhoIsTold:
    def test_nobody_if_the_job_says_so(self, jobs: Jobs, receiver: Receiver, home: Path) -> None:
        add_rule(jobs.context, "webhook", receiver.url, EVERY_KIND)
        jobs.execute("false", options={"notify": "off"})
        assert watch_registry.registered(str(home)) == []
        jobs.execute("cat", watch=["x"], options={"notify": "off"}, stdin="null")  # a watcher sees both
        wait_until_all_is_told(jobs)
        assert receiver.posted == []

    def test_by_the_ways_that_a_job_names(
        self, with_desktop: Jobs, desktop: Desktop, receiver: Receiver
    ) -> None:
        jobs = with_desktop
        add_rule(jobs.context, "webhook", receiver.url)
        add_rule(jobs.context, "desktop")
        jobs.execute("false", name="both")
        jobs.execute("false", name="one", options={"notify": ["desktop"]})
        wait_until_all_is_told(jobs)
        assert receiver.bodies("name") == ["both"]
        assert sorted(call[2] for call in desktop.shown()) == [
            'bgjob: "both" failed with exit code 1',
            'bgjob: "one" failed with exit code 1',
        ]

    def test_a_rule_may_be_for_jobs_that_name_it(self, jobs: Jobs, receiver: Receiver, home: Path) -> None:
        add_rule(jobs.context, "webhook", receiver.url, named=True)
        jobs.execute("false", name="other")
        assert watch_registry.registered(str(home)) == []
        jobs.execute("false", name="named", options={"notify": "webhook"})
        wait_until_all_is_told(jobs)
        assert receiver.bodies("name") == ["named"]

    @pytest.mark.parametrize("way", ["desktop", "bell", "webhook"])
    def test_a_way_without_a_rule_is_refused(self, jobs: Jobs, way: str) -> None:
        with pytest.raises(InvalidArgument, match=f"notify names {way}, for which there is no rule"):
            jobs.execute("true", options={"notify": way})
        assert jobs.list().jobs == []

    def test_a_home_without_rules_has_no_watcher(self, jobs: Jobs, home: Path) -> None:
        jobs.execute("false")
        assert not (home / watch_registry.WATCHES).exists()
        assert watchers(home) == []

    def test_what_was_before_the_rule_is_not_told(self, jobs: Jobs, receiver: Receiver) -> None:
        old = jobs.execute("false", name="old")
        jobs.events("0.0", job_ids=[old.id], kinds=["ended"], timeout_s=PATIENCE_S)
        add_rule(jobs.context, "webhook", receiver.url)
        jobs.execute("false", name="new")
        wait_until_all_is_told(jobs)
        assert receiver.bodies("name") == ["new"]

    def test_of_a_job_that_ran_before_the_rule_too(self, jobs: Jobs, receiver: Receiver, gate: Gate) -> None:
        job = jobs.execute(f"{gate.pause}; exit 4")
        gate.wait_until_reached()
        add_rule(jobs.context, "webhook", receiver.url)
        gate.open()
        receiver.wait_for(1)
        assert receiver.bodies("job_id") == [job.id]

    def test_a_rule_that_was_removed_tells_no_more(
        self, jobs: Jobs, receiver: Receiver, gate: Gate, home: Path
    ) -> None:
        """Of a job that runs, and by a watcher that runs."""
        add_rule(jobs.context, "webhook", receiver.url)
        jobs.execute(f"{gate.pause}; exit 4")
        gate.wait_until_reached()
        keeper_and_watcher(home)
        remove_rules(jobs.context, receiver.url)
        gate.open()
        wait_until_all_is_told(jobs)
        assert receiver.posted == []


class TestNothingWaits:
    def test_for_a_webhook_that_hangs(
        self, open_with: OpenJobs, desktop: Desktop, receiver: Receiver, tmp_path: Path
    ) -> None:
        """Not another rule, not a command for events, not a watch, not a job."""
        told = tmp_path / "told"
        told.touch()
        jobs = open_with(MCP_BG_ON_EVENT=f"echo $BGJOB_EVENT >> {told}", **desktop.environment)
        receiver.answers = [HELD]
        add_rule(jobs.context, "webhook", receiver.url)
        add_rule(jobs.context, "desktop")
        jobs.execute("false")
        receiver.wait_for(1)
        job = jobs.execute("echo needle; exit 2", watch=["needle"])
        matched = jobs.events("0.0", job_ids=[job.id], kinds=["matched"], timeout_s=PATIENCE_S).events
        assert [event.details["line"] for event in matched] == ["needle"]
        wait_until(lambda: told.read_text().split().count("ended") == 2)
        wait_until(lambda: len(desktop.shown()) == 2)
        assert not receiver.released.is_set()
        assert len(receiver.posted) == 1
        receiver.released.set()
        wait_until_all_is_told(jobs)
        assert receiver.bodies("exit_code") == [1, 2]


class TestKills:
    @pytest.mark.parametrize("which", ["watcher", "both"])
    def test_killed_at_a_delivery_it_delivers_again_and_goes_on(
        self, jobs: Jobs, receiver: Receiver, home: Path, which: str
    ) -> None:
        receiver.answers = [200, HELD]
        add_rule(jobs.context, "webhook", receiver.url)
        jobs.execute("exit 1")
        receiver.wait_for(1)
        wait_until_all_is_told(jobs)
        wait_until(lambda: not watchers(home))
        jobs.execute("exit 2")
        receiver.wait_for(2)
        keeper, watcher = keeper_and_watcher(home)
        (delivery,) = [pid for pid in every_pid() if _parent(pid) == watcher]
        for pid in (watcher, keeper) if which == "both" else (watcher,):
            os.kill(pid, signal.SIGKILL)
            wait_until_gone(pid)
        wait_until_gone(delivery)  # with the watcher that had started it
        watch_registry.ensure_watcher(str(home))  # as the next caller does
        jobs.execute("exit 3")
        wait_until_all_is_told(jobs)
        assert receiver.bodies("exit_code") == [1, 2, 2, 3]

    def test_the_address_and_the_headers_are_no_arguments_of_a_process(
        self, jobs: Jobs, receiver: Receiver, home: Path
    ) -> None:
        """All users can see those."""
        receiver.answers = [HELD]
        add_rule(jobs.context, "webhook", receiver.url, headers={"X-Token": "secret-of-mine"})
        jobs.execute("exit 1")
        receiver.wait_for(1)
        _, watcher = keeper_and_watcher(home)
        (delivery,) = [pid for pid in every_pid() if _parent(pid) == watcher]
        seen = Path(f"/proc/{delivery}/cmdline").read_bytes() + Path(f"/proc/{delivery}/environ").read_bytes()
        assert b"deliver" in seen
        assert b"secret-of-mine" not in seen
        assert b"/hook" not in seen
        assert receiver.posted[0].headers["x-token"] == "secret-of-mine"


def _parent(pid: int) -> int:
    try:
        return parent_of(pid)
    except OSError:  # gone meanwhile
        return -1


class TestDesktop:
    def test_it_is_shown_with_the_session_bus_of_the_user(self, with_desktop: Jobs, desktop: Desktop) -> None:
        add_rule(with_desktop.context, "desktop")
        with_desktop.execute("echo the last line; exit 2", name="tests")
        wait_until_all_is_told(with_desktop)
        assert desktop.shown() == [
            ["unix:abstract=bgjob-test", "--", 'bgjob: "tests" failed with exit code 2', "the last line"]
        ]

    @pytest.mark.parametrize(
        ("printed", "shown"),
        [
            (r"\033[31mred\033[0m \033]0;title\007text", "red text"),
            (r"ab\u202ecd\u200bef", "ab\ufffdcd\ufffdef"),
            ("<b>bold</b> & <a href=x>y</a>", "&lt;b&gt;bold&lt;/b&gt; &amp; &lt;a href=x&gt;y&lt;/a&gt;"),
            (r"\\074b\\076", r"\\074b\\076"),
            (r"50%%\rdone 100%%", "done 100%"),
            ("--urgency=critical", "--urgency=critical"),
            (r"one\n \t two  \n\n", "two"),
            ("x" * 300, "x" * 199 + "…"),
            (r"\377\376", "\ufffd\ufffd"),
            ("", ""),
        ],
        ids=[
            "escapes",
            "hidden",
            "markup",
            "backslash",
            "redrawn",
            "dash",
            "blanks",
            "long",
            "bytes",
            "none",
        ],
    )
    def test_text_of_a_job_is_only_text(
        self, with_desktop: Jobs, desktop: Desktop, printed: str, shown: str
    ) -> None:
        """notify-send reads markup in a body, and before that the escapes of C."""
        add_rule(with_desktop.context, "desktop")
        with_desktop.execute(f"LC_ALL=C.UTF-8 printf -- '{printed}'; exit 1", name="n")
        wait_until_all_is_told(with_desktop)
        ((_, _, _, body),) = desktop.shown()
        assert body == shown

    def test_a_command_as_a_title_hides_nothing_either(self, with_desktop: Jobs, desktop: Desktop) -> None:
        add_rule(with_desktop.context, "desktop")
        with_desktop.execute("false \u202e\x07")
        wait_until_all_is_told(with_desktop)
        assert desktop.shown()[0][2] == 'bgjob: "false \ufffd\ufffd" failed with exit code 1'

    def test_what_went_wrong_is_kept_and_the_next_is_shown(
        self, with_desktop: Jobs, desktop: Desktop, home: Path
    ) -> None:
        good = desktop.program.read_text()
        add_rule(with_desktop.context, "desktop")
        desktop.act("printf 'no \\033[31mdaemon\\n' >&2; exit 5")
        with_desktop.execute("false")
        wait_until_all_is_told(with_desktop)
        (state,) = rule_states(with_desktop.context)
        assert state.notified.failure.endswith("notify-send failed with 5: no \ufffd[31mdaemon")
        assert (state.notified.failed_at > 0, state.notified.told_at) == (True, 0)
        desktop.program.write_text(good)
        with_desktop.execute("false")
        wait_until_all_is_told(with_desktop)
        assert len(desktop.shown()) == 1
        assert rule_states(with_desktop.context)[0].notified.told_at > state.notified.failed_at

    def test_without_the_program_it_says_what_to_install(self, open_with: OpenJobs, tmp_path: Path) -> None:
        context = open_with(PATH=str(tmp_path)).context
        state = add_rule(context, "desktop")
        assert state.problem is not None
        assert "notify-send is not on the PATH; it is in the package libnotify" in state.problem
        assert [tried.failure for tried in try_rules(context)] == [state.problem]

    def test_the_bus_of_an_earlier_login_is_not_used(
        self, open_with: OpenJobs, desktop: Desktop, tmp_path: Path
    ) -> None:
        gone = {"DBUS_SESSION_BUS_ADDRESS": f"unix:path={tmp_path}/gone,guid=1"}
        state = add_rule(open_with(**{**desktop.environment, **gone}).context, "desktop")
        common = Path(f"/run/user/{os.getuid()}/bus").exists()
        assert (state.problem is None) == common
        there = {"DBUS_SESSION_BUS_ADDRESS": f"unix:path={tmp_path}"}
        assert add_rule(open_with(**{**desktop.environment, **there}).context, "desktop").problem is None


class TestBell:
    def test_it_rings_at_the_terminal_and_prints_nothing(self, jobs: Jobs, terminal: tuple[int, str]) -> None:
        master, path = terminal
        add_rule(jobs.context, "bell", path)
        jobs.execute("echo text; exit 1")
        wait_until_all_is_told(jobs)
        assert os.read(master, 100) == b"\a"

    def test_one_that_is_gone_is_passed_over(self, jobs: Jobs) -> None:
        """Also if its name has a new terminal: one of this test, of another process or of a job."""
        with _terminal() as (_, path):
            rule = add_rule(jobs.context, "bell", path).rule
        _wait_for_another_time(rule.terminal_ctime_ns)
        with _terminal() as (master, name):
            jobs.execute("false")
            wait_until_all_is_told(jobs)
            (state,) = rule_states(jobs.context)
            assert re.fullmatch(
                f"{path} (is another terminal now; .*|cannot be opened: .*|is no terminal)",
                state.notified.failure,
            )
            assert (path == name) <= ("is another terminal now" in state.notified.failure)
            _assert_silent(master)

    def test_added_again_it_rings_in_the_new_one(self, jobs: Jobs, terminal: tuple[int, str]) -> None:
        master, path = terminal
        old = add_rule(jobs.context, "bell", path).rule
        _wait_for_another_time(old.terminal_ctime_ns)
        Path(path).chmod(0o600)  # gives it the time that the next terminal of this name would have
        assert "is another terminal now" in str(rule_states(jobs.context)[0].problem)
        new = add_rule(jobs.context, "bell", path)
        assert (new.rule.key, new.problem) == (old.key, None)
        assert [tried.failure for tried in try_rules(jobs.context)] == [None]
        assert os.read(master, 100) == b"\a"

    def test_a_file_is_no_terminal(self, jobs: Jobs, tmp_path: Path) -> None:
        file = tmp_path / "file"
        file.write_text("as it was")
        with pytest.raises(InvalidArgument, match="is no terminal"):
            add_rule(jobs.context, "bell", str(file))
        assert file.read_text() == "as it was"

    @pytest.mark.skipif(os.getuid() != 0, reason="only root can give a terminal away")
    def test_that_of_another_user_is_left_alone(self, jobs: Jobs, terminal: tuple[int, str]) -> None:
        master, path = terminal
        add_rule(jobs.context, "bell", path)
        os.chown(path, 12345, -1)
        jobs.execute("false")
        wait_until_all_is_told(jobs)
        (state,) = rule_states(jobs.context)
        assert state.notified.failure == f"{path} is the terminal of another user"
        _assert_silent(master)


def _wait_for_another_time(ctime_ns: int) -> None:
    """The kernel takes the time of a terminal from a clock that goes on every few milliseconds."""
    wait_until(lambda: _new_ctime_ns() > ctime_ns)


def _new_ctime_ns() -> int:
    with _terminal() as (_, path):
        return Path(path).stat().st_ctime_ns


def _assert_silent(master: int) -> None:
    """Nothing was written to the terminal."""
    os.set_blocking(master, False)
    with pytest.raises(BlockingIOError):
        os.read(master, 1)


class TestTheRules:
    def test_their_files_are_closed_to_others(self, jobs: Jobs, receiver: Receiver, home: Path) -> None:
        add_rule(jobs.context, "webhook", receiver.url, headers={"X-Token": "secret"})
        jobs.execute("false")
        wait_until_all_is_told(jobs)
        for name in (NOTIFY, NOTIFIED):
            assert stat.S_IMODE((home / name).stat().st_mode) == 0o600

    def test_one_for_each_way_and_target(self, jobs: Jobs, receiver: Receiver) -> None:
        for kinds in (["end"], ["question"]):
            add_rule(jobs.context, "webhook", receiver.url, kinds)
            add_rule(jobs.context, "webhook", f"{receiver.url}&y", kinds)
        assert [state.rule.kinds for state in rule_states(jobs.context)] == [["question"], ["question"]]
        assert len(remove_rules(jobs.context, receiver.url)) == 1
        assert len(remove_rules(jobs.context, "webhook")) == 1
        with pytest.raises(InvalidArgument, match="There is no rule for 'webhook'"):
            remove_rules(jobs.context, "webhook")

    @pytest.mark.parametrize(
        "url",
        [
            "",
            "example.org/hook",
            "ftp://example.org/",
            "file:///etc/passwd",
            "http://",
            "http:///path",
            "http://user:password@example.org/",
            "http://example.org:0/",
            "http://example.org:99999/",
            "http://example.org/a b",
            "http://example.org/\r\nX: y",
            "http://example.org/#part",
            "http://[::1/",
            "http://example.org/" + "x" * 2000,
        ],
    )
    def test_what_is_no_url_is_refused(self, jobs: Jobs, url: str) -> None:
        with pytest.raises(InvalidArgument, match="URL"):
            add_rule(jobs.context, "webhook", url)
        assert rule_states(jobs.context) == []

    @pytest.mark.parametrize(
        ("name", "value"), [("X-Y", "a\r\nHost: b"), ("X Y", "a"), ("", "a"), ("X", "ä")]
    )
    def test_what_is_no_header_is_refused(self, jobs: Jobs, name: str, value: str) -> None:
        with pytest.raises(InvalidArgument, match="is no header"):
            add_rule(jobs.context, "webhook", "http://example.org/", headers={name: value})

    @pytest.mark.parametrize(
        "damage",
        ["", "{", "[]", '{"rules": 7}', '{"rules": {"bell": 7}}', '{"rules": {"bell": {"way": "smoke"}}}'],
    )
    def test_a_file_that_cannot_be_read_stops_no_job(self, jobs: Jobs, home: Path, damage: str) -> None:
        (home / NOTIFY).write_text(damage)
        jobs.execute("true", watch=["x"])
        wait_until_all_is_told(jobs)
        assert notify_rules(str(home)) == []
        assert not (home / "watcher-error.txt").exists()

    @pytest.mark.parametrize(
        "damage", ["{", '{"rules": {"KEY": 7}}', '{"rules": {"KEY": {"cursor": "x", "told_at": 1}}}']
    )
    def test_a_lost_place_is_that_of_the_rule(
        self, jobs: Jobs, receiver: Receiver, home: Path, damage: str
    ) -> None:
        rule = add_rule(jobs.context, "webhook", receiver.url).rule
        (home / NOTIFIED).write_text(damage.replace("KEY", rule.key))
        jobs.execute("exit 1")
        wait_until_all_is_told(jobs)
        assert receiver.bodies("exit_code") == [1]
        assert json.loads((home / NOTIFIED).read_text())["rules"][rule.key]["cursor"] != "x"

"""bgjob doctor: one line for each thing that bgjob uses, what is missing, and what to do; nothing is changed."""

import json
import os
import uuid
from pathlib import Path

import pytest

from bgjob.api import Jobs
from bgjob.home import queue_dir, watch_registry
from tests.faces.command_line import BGJOB, Cli, Ended, Result
from tests.support.requires import linux_only, needs
from tests.support.shims import kill_both
from tests.support.stores import job_with
from tests.support.tmux import terminal

STATES = {"ok", "degraded", "missing", "broken"}


@pytest.fixture
def cli(home: Path, tmp_path: Path) -> Cli:
    """Of a user without clients, on a PATH with bash alone."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "bash").symlink_to("/bin/bash")
    cli = Cli(home)
    cli.environment |= {"HOME": str(tmp_path), "PATH": str(tmp_path / "bin"), "LC_ALL": "C.UTF-8"}
    return cli


def lines(told: Result) -> dict[str, tuple[str, str]]:
    """By what each is about: its state, and the rest."""
    found = {}
    for line in told.stdout.splitlines():
        state, _, rest = line.partition(" ")
        about, _, what = rest.strip().partition(": ")
        found[about] = state, what
    return found


def files_in(directory: Path) -> dict[str, tuple[int, int]]:
    """With what would change if any of them were written to."""
    return {str(path): (path.lstat().st_mtime_ns, path.lstat().st_ino) for path in directory.rglob("*")}


class TestAMachineThatIsWell:
    def test_has_a_line_for_each_thing_and_exit_code_0(self, cli: Cli) -> None:
        told = cli("doctor")
        assert (told.returncode, told.stderr) == (0, "")
        assert {state for state, _ in lines(told).values()} <= {"ok", "degraded", "missing"}
        about = {"bgjob", "pidfd", "subreaper", "splice", "inotify", "control groups", "/proc", "sock_diag"}
        assert about | {"shell", "locale", "terminal", "settings", "home"} <= lines(told).keys()

    def test_is_left_as_it_is_without_a_home(self, cli: Cli, home: Path, tmp_path: Path) -> None:
        before = files_in(tmp_path)
        assert lines(cli("doctor"))["home"] == ("ok", f"{home} is not there yet: the first job makes it")
        assert files_in(tmp_path) == before

    def test_is_left_as_it_is_with_a_home_that_lacks_parts(
        self, cli: Cli, home: Path, tmp_path: Path
    ) -> None:
        job_with(home)
        (home / "newest").unlink()
        (home / "trash").rmdir()
        before = files_in(tmp_path)
        told = lines(cli("doctor"))
        assert told["home"] == ("ok", f"{home}, yours alone")
        assert told["jobs"][1].startswith("1, of which 0 run")
        assert files_in(tmp_path) == before

    def test_is_told_as_json_too(self, cli: Cli) -> None:
        rows = json.loads(cli("doctor", "--json").stdout)["checks"]
        assert {row["state"] for row in rows} <= STATES
        assert [row["check"] for row in rows] == list(lines(cli("doctor")))


class TestSettings:
    @pytest.mark.parametrize(
        ("text", "state", "code"),
        [
            ("keep_jobs = 4", "ok", 0),
            ("keep_job = 4", "degraded", 0),
            ("keep_jobs = -4", "broken", 1),
            ("x", "broken", 1),
        ],
    )
    def test_of_the_file_are_checked(
        self, cli: Cli, tmp_path: Path, text: str, state: str, code: int
    ) -> None:
        (tmp_path / "bgjob").mkdir()
        (tmp_path / "bgjob" / "config.toml").write_text(text)
        told = cli("doctor", env={"XDG_CONFIG_HOME": str(tmp_path)})
        assert (lines(told)["settings"][0], told.returncode) == (state, code)
        assert str(tmp_path / "bgjob" / "config.toml") in lines(told)["settings"][1]

    def test_of_the_environment_are_checked(self, cli: Cli) -> None:
        told = cli("doctor", env={"MCP_BG_MAX_JOBS": "lots"})
        assert told.returncode == 1
        assert lines(told)["settings"][0] == "broken"
        assert "MCP_BG_MAX_JOBS='lots'" in lines(told)["settings"][1]


class TestTheEnvironment:
    def test_without_bash_jobs_run_by_sh(self, cli: Cli, tmp_path: Path) -> None:
        (tmp_path / "bin" / "bash").unlink()
        assert lines(cli("doctor"))["shell"][0] == "degraded"

    @pytest.mark.parametrize(
        ("name", "state"), [("POSIX", "degraded"), ("de_DE.UTF-8", "ok"), ("en_US.utf8", "ok")]
    )
    def test_a_locale_is_to_be_utf_8(self, cli: Cli, name: str, state: str) -> None:
        assert lines(cli("doctor", env={"LC_ALL": name}))["locale"][0] == state

    @needs("tmux")
    @pytest.mark.parametrize(("name", "state"), [("xterm", "ok"), ("no-such-terminal", "degraded")])
    def test_a_terminal_is_to_be_known(self, cli: Cli, tmp_path: Path, name: str, state: str) -> None:
        command = ["/bin/sh", "-c", f"{BGJOB} doctor; echo the end; read _"]
        with terminal(command, tmp_path, {**cli.environment, "TERM": name}, columns=200) as opened:
            opened.wait_for("the end")
            (line,) = [line for line in opened.screen.splitlines() if " terminal: " in line]
        assert line.split()[0] == state
        assert name in line


class TestTheHome:
    def test_that_others_can_read_is_broken(self, cli: Cli, home: Path, ended: Ended) -> None:
        ended(cli.run("true"))
        home.chmod(0o755)
        told = cli("doctor")
        home.chmod(0o700)
        assert told.returncode == 1
        assert lines(told)["home"][0] == "broken"
        assert "chmod 700" in lines(told)["home"][1]

    @linux_only
    def test_with_a_lost_job_tells_of_it_and_of_what_is_left_of_it(self, cli: Cli, jobs: Jobs) -> None:
        job_id = cli.run("--name", "left", "--", "/bin/sleep", "1000")
        kill_both(jobs, job_id)
        told = lines(cli("doctor"))
        assert told["lost jobs"][0] == told["processes of lost jobs"][0] == "degraded"
        assert job_id[:8] in told["lost jobs"][1]
        assert told["processes of lost jobs"][1].startswith(f"1 still run, e.g. of {job_id[:8]}. bgjob kill")
        jobs.kill(job_id, grace_s=0)
        assert lines(cli("doctor"))["processes of lost jobs"][0] == "ok"

    def test_that_lacks_a_watcher_or_a_dispatcher_says_how_it_gets_one(
        self, cli: Cli, home: Path, ended: Ended
    ) -> None:
        ended(cli.run("true"))
        assert lines(cli("doctor"))["watcher"] == ("ok", "not needed")
        watch_registry.add(str(home), str(uuid.uuid4()))
        entry = queue_dir.entry_for(str(uuid.uuid4()), 0, 1)
        queue_dir.enter(str(home), entry)
        told = lines(cli("doctor"))
        queue_dir.leave(str(home), entry)
        for about in ("watcher", "dispatcher"):
            assert told[about][0] == "degraded"
            assert told[about][1].startswith("none, and 1 jobs ")
            assert "bgjob run" in told[about][1]

    def test_with_a_rule_that_cannot_work_is_broken(self, cli: Cli) -> None:
        assert cli("notify", "add", "desktop").returncode == 0  # no notify-send is on PATH
        told = cli("doctor")
        assert told.returncode == 1
        assert lines(told)["notify desktop"][0] == "broken"
        assert "bgjob notify remove desktop" in lines(told)["notify desktop"][1]


class TestClients:
    def test_that_are_not_there_are_missing(self, cli: Cli) -> None:
        assert lines(cli("doctor"))["clients"][0] == "missing"

    def test_that_are_installed_without_bgjob_can_have_it(self, cli: Cli, tmp_path: Path) -> None:
        (tmp_path / "bin" / "codex").symlink_to("/bin/true")
        state, what = lines(cli("doctor"))["Codex"]
        assert state == "missing"
        assert what.endswith("Run bgjob client add codex.")

    def test_that_have_it_say_where(self, cli: Cli, tmp_path: Path) -> None:
        (tmp_path / ".cursor").mkdir()
        (tmp_path / ".cursor" / "mcp.json").write_text('{"mcpServers": {"bgjob": {"command": "bgjob"}}}')
        assert lines(cli("doctor"))["Cursor"] == ("ok", f"has bgjob, in {tmp_path}/.cursor/mcp.json")


def test_what_a_directory_is_called_cannot_steer_the_terminal(cli: Cli, tmp_path: Path) -> None:
    home = tmp_path / "\x1b[31mred\nline"
    told = cli("doctor", env={"BGJOB_HOME": os.fspath(home)})
    assert "\x1b" not in told.stdout
    assert all(line.split()[0] in STATES for line in told.stdout.splitlines())

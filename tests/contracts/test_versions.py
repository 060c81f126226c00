"""What one version has started, the next one steers, and so does the one before: they meet on disk and at the socket.

releases/ has the package of every release whose jobs may still run when this one comes. Each is run as its users
run it, from a directory of its own; only its dependencies are those of the tests.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal

import bgjob
from bgjob.api import open_jobs
from bgjob.core.job import Ended
from bgjob.home import event_log
from bgjob.store.job_names import MOST_UNWRITTEN
from bgjob.store.store import Store
from bgjob.system import processes
from tests.support.homes import end_all_jobs
from tests.support.searching import matches
from tests.support.server import Server, ToolError
from tests.support.shims import run_of
from tests.support.stores import job_with
from tests.support.waiting import wait_until

RELEASES = sorted(Path(__file__).with_name("releases").glob("*.zip"))
WITH_LIMITS_AND_EVENTS = [path for path in RELEASES if path.stem != "bgjob-0.1.0"]
PRESENT = Path(bgjob.__file__).parents[1]
ECHO = "echo ready; while read line; do echo got $line; echo not $line >&2; done; echo end; exit 3"
ON_A_TERMINAL = "stty -echo; echo ready; while read line; do stty size; done"
WAIT_S = 30
# A server of 0.1 says it by a word.
WAITS = ("yes", True)
ANOTHER = "00000000-0000-4000-8000-000000000000"


class Version:
    """A package of bgjob in some directory."""

    def __init__(self, portal: BlockingPortal, root: Path) -> None:
        self._portal, self.root = portal, root

    @property
    def has_events(self) -> bool:
        return (self.root / "bgjob" / "event_log.py").exists()

    def server(self, home: Path, **environment: str) -> Server:
        return Server(self._portal, home, {"PYTHONPATH": str(self.root), **environment}, "auto")

    def cli(self, home: Path, *arguments: str, **environment: str) -> str:
        own = {"PYTHONPATH": str(self.root), "BGJOB_HOME": str(home), **environment}
        return subprocess.run(
            [sys.executable, "-m", "bgjob", *arguments],
            env={**os.environ, **own},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()


class Pair:
    """Two versions on one home: one that starts jobs, and the other."""

    def __init__(self, home: Path, starter: Version, other: Version, servers: dict[Version, Server]) -> None:
        self.home, self.starter_version, self.other_version = home, starter, other
        self.starter, self.other = servers[starter], servers[other]

    def start(self, command: str, **options: Any) -> str:
        job_id = self.starter.execute(command, **options)
        self.other.wait_until_printed(job_id, "ready")
        return job_id

    def wait(self, job_id: str) -> dict[str, Any]:
        answer = self.other.call("wait_for_job", job_ids=[job_id], timeout_s=WAIT_S)
        assert answer["met"]
        return dict(answer["jobs"][0])

    def told_by_both(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Both tell the same, but for what only one of them can tell."""
        ours, theirs = self.starter.call(tool, **arguments), self.other.call(tool, **arguments)
        common = ours.keys() & theirs.keys()
        assert {key: ours[key] for key in common} == {key: theirs[key] for key in common}
        return ours


@pytest.fixture(scope="module", params=RELEASES, ids=lambda path: path.stem)
def release(
    request: pytest.FixtureRequest, portal: BlockingPortal, tmp_path_factory: pytest.TempPathFactory
) -> Version:
    root = tmp_path_factory.mktemp("release")
    zipfile.ZipFile(request.param).extractall(root)
    return Version(portal, root)


@pytest.fixture(scope="module")
def present(portal: BlockingPortal) -> Version:
    return Version(portal, PRESENT)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("versions") / "home"
    yield home
    end_all_jobs(home)


@pytest.fixture(scope="module")
def servers(release: Version, present: Version, shared: Path) -> Iterator[dict[Version, Server]]:
    with contextlib.ExitStack() as started:

        def start(version: Version) -> Server:
            server = version.server(shared, MCP_BG_MAX_JOBS="100")
            started.callback(server.close)
            return server

        yield {version: start(version) for version in (release, present)}


@pytest.fixture(params=["the release starts", "this one starts"])
def order(request: pytest.FixtureRequest, release: Version, present: Version) -> tuple[Version, Version]:
    """(who starts, who steers)"""
    return (release, present) if request.param == "the release starts" else (present, release)


@pytest.fixture
def pair(order: tuple[Version, Version], servers: dict[Version, Server], shared: Path) -> Pair:
    return Pair(shared, *order, servers)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "home"
    end_all_jobs(tmp_path / "home")


@pytest.mark.skipif(not processes.LINUX, reason="asks /proc which package a shim is of")
def test_each_server_runs_its_own_version(pair: Pair) -> None:
    """Else the rest of this file would prove nothing."""
    job_id = pair.start("echo ready; read x")
    run = run_of(open_jobs({"BGJOB_HOME": str(pair.home)}, many=False), job_id)
    arguments = Path(f"/proc/{run.shim_pid}/cmdline").read_bytes().split(b"\0")
    assert str(pair.starter_version.root).encode() in arguments
    assert str(pair.other_version.root).encode() not in arguments
    pair.other.call("kill_job", job_id=job_id)


def test_a_job_is_seen_and_typed_into_by_the_other_version(pair: Pair) -> None:
    job_id = pair.start(ECHO, name="seen by both")
    wait_until(lambda: pair.other.status(job_id)["waits_for_input"] in WAITS)
    status = pair.other.status(job_id)
    assert (status["status"], status["name"]) == ("running", "seen by both")
    assert status["waits_for_input"] in WAITS
    assert status["descendants"] == 1
    assert job_id in [job["job_id"] for job in pair.other.call("list_jobs", status="running")["jobs"]]

    assert pair.other.call("interact_with_job", job_id=job_id, input="one")["accepted_bytes"] == 4
    pair.other.wait_until_printed(job_id, "not one")
    more = pair.other.call("wait_for_job", job_ids=[job_id], pattern="got one", timeout_s=WAIT_S)
    assert more["jobs"][0]["match"] == "got one"
    pair.other.call("interact_with_job", job_id=job_id, input="two", close_stdin=True)

    ended = pair.wait(job_id)
    assert (ended["condition"], ended["exit_code"]) == ("exit", 3)
    assert pair.told_by_both("get_job_status", job_id=job_id)["cause"] == "exited"
    assert pair.told_by_both("get_job_status", job_id=job_id)["status"] == "failed"
    output = pair.told_by_both("get_job_output", job_id=job_id)
    assert (output["stdout"], output["stderr"]) == ("ready\ngot one\ngot two\nend\n", "not one\nnot two\n")
    assert pair.told_by_both("tail_job_output", job_id=job_id, lines=1)["stdout"] == "end\n"
    assert pair.told_by_both("get_job_output", job_id=job_id, view="interleaved")["interleaved"]
    pair.told_by_both("search_job_output", pattern="^not", job_ids=[job_id])
    for server in (pair.starter, pair.other):
        found = server.call("search_job_output", pattern="^not", job_ids=[job_id])
        lines = found["matches"] if "matches" in found else matches(found)
        assert sorted(match["line"] for match in lines) == ["not one", "not two"]


def test_a_terminal_is_resized_by_the_other_version(pair: Pair) -> None:
    job_id = pair.start(ON_A_TERMINAL, pty=True)
    for rows, cols in ((30, 100), (10, 40)):
        pair.other.call("interact_with_job", job_id=job_id, input="go", rows=rows, cols=cols)
        pair.other.wait_until_printed(job_id, f"{rows} {cols}")
    assert pair.told_by_both("get_job_output", job_id=job_id, view="screen")["screen"].split() == (
        ["ready", "30", "100", "10", "40"]
    )
    pair.other.call("interact_with_job", job_id=job_id, input="", keys=["ctrl-d"])
    assert pair.wait(job_id)["exit_code"] == 0


def test_a_job_is_killed_by_the_other_version_with_all_it_started(pair: Pair) -> None:
    job_id = pair.start("setsid sleep 1000 & trap '' TERM; sleep 1000 & echo ready; wait; sleep 1000")
    killed = pair.other.call("kill_job", job_id=job_id, grace_s=0.2)
    assert (killed["status"], killed["processes"] >= 3, killed["signal"]) == ("killed", True, "SIGKILL")
    assert processes.marked(job_id) == []
    assert pair.told_by_both("get_job_status", job_id=job_id)["cause"] == "killed"
    assert pair.told_by_both("kill_job", job_id=job_id)["status"] == "already_terminated"


def test_a_job_whose_starter_is_gone_is_steered_by_the_other_version(pair: Pair) -> None:
    job_id = pair.starter_version.cli(pair.home, "run", ECHO)
    pair.other.wait_until_printed(job_id, "ready")
    pair.other.talk(job_id, "you", "got you\n")
    pair.other.call("interact_with_job", job_id=job_id, input="", close_stdin=True)
    assert pair.wait(job_id)["exit_code"] == 3
    assert pair.other_version.cli(pair.home, "logs", job_id) == "ready\ngot you\nend"


def test_both_versions_steer_one_job_at_once(pair: Pair) -> None:
    job_id = pair.start(ECHO)

    def wait(server: Server) -> dict[str, Any]:
        """Again, where it was answered early because the job waits for the next input."""
        (job,) = server.call("wait_for_job", job_ids=[job_id], pattern="got 9", timeout_s=WAIT_S)["jobs"]
        return dict(job) if "match" in job else wait(server)

    with ThreadPoolExecutor() as pool:
        waits = [pool.submit(wait, server) for server in (pair.starter, pair.other)]
        for number in range(10):
            server = pair.other if number % 2 else pair.starter
            assert (
                server.call("interact_with_job", job_id=job_id, input=str(number), wait_s=1)["accepted_bytes"]
                == 2
            )
        assert [done.result()["match"] for done in waits] == ["got 9", "got 9"]
    pair.other.wait_until_printed(job_id, "not 9")
    assert pair.told_by_both("get_job_output", job_id=job_id)["stdout"] == (
        "ready\n" + "".join(f"got {number}\n" for number in range(10))
    )
    pair.other.call("kill_job", job_id=job_id)


def test_of_both_versions_one_starts_a_job_of_a_name(pair: Pair) -> None:
    def run(server: Server) -> dict[str, Any]:
        return server.call("execute_command", command="sleep 1000", name="one of these", if_running="reuse")

    with ThreadPoolExecutor() as pool:
        ids = {answer["job_id"] for answer in pool.map(run, [pair.starter, pair.other] * 2)}
    assert len(ids) == 1
    pair.other.call("kill_job", job_id=ids.pop(), grace_s=0)


def test_a_job_of_another_version_is_found_by_its_name_among_many(
    order: tuple[Version, Version], home: Path
) -> None:
    """Only this version keeps the names of jobs in a file; nobody else enters or removes one there."""
    starter, other = order
    for number in range(MOST_UNWRITTEN + 1):
        job_with(home, name=f"ended {number}")
    assert len(Store(str(home)).names()) == MOST_UNWRITTEN + 1
    assert (home / "names").exists()
    starter.cli(home, "run", "--name", "late", "echo hello; sleep 1000")
    wait_until(lambda: other.cli(home, "logs", "late") == "hello")
    starter.cli(home, "kill", "late")
    removed = Store(str(home)).named("late")[0]
    shutil.rmtree(home / "jobs" / removed)
    assert "late" not in other.cli(home, "ps")


def test_the_end_of_a_job_is_told_by_this_version_whoever_started_it(
    release: Version, present: Version, servers: dict[Version, Server], shared: Path
) -> None:
    """Also of a release that knew no events, and of a job that began after this one had looked."""
    server = servers[present]
    cursor = server.call("job_events")["cursor"]
    job_id = servers[release].execute("read x; exit 3")
    asked = {"job_ids": [job_id], "kinds": ["ended"], "since": cursor}
    assert server.call("job_events", **asked)["events"] == []
    servers[release].call("interact_with_job", job_id=job_id, input="x")
    for _ in range(2):
        (told,) = server.call("job_events", **asked, timeout_s=WAIT_S)["events"]
        assert (told["cause"], told["exit_code"]) == ("exited", 3)


def test_the_end_of_a_job_that_nobody_saw_is_told_once_and_is_no_news(
    release: Version, present: Version, home: Path
) -> None:
    """By whoever of this version looks first, though the job had ended before its store knew of events."""
    job_id = release.cli(home, "run", "--name", "unseen", "echo over; exit 5")
    jobs = open_jobs({"BGJOB_HOME": str(home)}, many=False)
    wait_until(lambda: isinstance(jobs.status(job_id).job.state, Ended))
    ended_at = jobs.status(job_id).job.state.ended_at  # type: ignore[union-attr]
    wait_until(lambda: not jobs.has_shim(job_id))
    event_log.append(jobs.events_directory, "started", ANOTHER)  # the log has begun after its end
    assert jobs.news("a session") is None
    (told,) = jobs.events(job_ids=[job_id], kinds=["ended"]).events
    assert (told.kind, told.name, told.details["exit_code"]) == ("ended", "unseen", 5)
    if release.has_events:  # its shim has said it, a moment after the end
        assert told.at >= ended_at - 0.001
    else:
        assert told.at == pytest.approx(ended_at, abs=0.001)
    assert present.cli(home, "events", job_id).count("failed with exit code 5") == 1
    assert jobs.news("a session") is None


def test_slots_are_exact_across_versions(order: tuple[Version, Version], home: Path) -> None:
    first, second = order
    limit = {"MCP_BG_MAX_JOBS": "2"}
    ids = [first.cli(home, "run", "sleep 1000", **limit), second.cli(home, "run", "sleep 1000", **limit)]
    for version in order:
        with pytest.raises(subprocess.CalledProcessError) as refusal:
            version.cli(home, "run", "sleep 1000", **limit)
        assert "Job limit reached" in refusal.value.stderr
    assert second.cli(home, "kill", "--grace", "0", ids[0]).startswith("killed ")
    assert first.cli(home, "run", "sleep 1000", **limit)


def test_the_other_version_cleans_up_what_has_ended_and_nothing_else(
    order: tuple[Version, Version], home: Path
) -> None:
    """By what both were told to keep: the longer of two promises counts."""
    starter, other = order
    keep_none = {"MCP_BG_KEEP_JOBS": "0", "MCP_BG_KEEP_DAYS": "0"}
    running = starter.cli(home, "run", "sleep 1000", **keep_none)
    ended = starter.cli(home, "run", "echo over", **keep_none)
    assert starter.cli(home, "logs", "-f", ended) == "over"
    jobs = open_jobs({"BGJOB_HOME": str(home)}, many=False)
    wait_until(lambda: not jobs.has_shim(ended))
    (home / "cleaned").unlink(missing_ok=True)
    last = other.cli(home, "run", "sleep 1000", **keep_none)
    shown = other.cli(home, "ps")
    assert running[:8] in shown
    assert ended[:8] not in shown
    assert {path.name for path in (home / "jobs").iterdir()} == {running, last}


@pytest.fixture
def upgraded(
    release: Version, present: Version, portal: BlockingPortal, tmp_path: Path, home: Path
) -> Iterator[Server]:
    """A server of the release, with its zygote, whose package was replaced by this version while it ran."""
    package = tmp_path / "installed" / "bgjob"
    copy_package(release.root / "bgjob", package)
    server = Version(portal, package.parent).server(home)
    try:
        assert ended_in(server, server.execute("exit 3"))["exit_code"] == 3
        shutil.rmtree(package)
        copy_package(present.root / "bgjob", package)
        yield server
    finally:
        server.close()


def test_a_package_may_be_upgraded_under_a_running_server(upgraded: Server) -> None:
    """An upgrade asks for no restart: what the server imports from then on is of this version."""
    job_id = upgraded.execute(ON_A_TERMINAL, pty=True)
    upgraded.wait_until_printed(job_id, "ready")
    upgraded.call("interact_with_job", job_id=job_id, input="go", rows=30, cols=100)
    upgraded.wait_until_printed(job_id, "30 100")
    assert upgraded.output(job_id, view="screen")["screen"].split() == ["ready", "30", "100"]
    assert upgraded.call("kill_job", job_id=job_id)["status"] == "killed"
    assert upgraded.status(job_id)["cause"] == "killed"
    with pytest.raises(ToolError, match="not running"):
        upgraded.call("interact_with_job", job_id=job_id, input="x")


for_later_releases = pytest.mark.parametrize(
    "release", WITH_LIMITS_AND_EVENTS, indirect=True, ids=lambda path: path.stem
)
OVER = {
    "output": ("yes", {"output": "64KB", "on_output": "stop"}, "over_limit"),
    "file_size": ("head -c 3M /dev/zero > large; exit $?", {"file_size": "1MB"}, "over_limit"),
    "silence": ("sleep 1000", {"silence_s": 1}, "over_limit"),
    "memory": ("head -c 300M /dev/zero | tail", {"memory": "60MB", "cgroup": "off"}, "out_of_memory"),
}


@for_later_releases
@pytest.mark.parametrize("limit", OVER)
def test_limits_hold_in_a_server_that_was_upgraded(upgraded: Server, limit: str, tmp_path: Path) -> None:
    """Its zygote is of the release, and imports the limits from this version when the first job has some."""
    command, options, cause = OVER[limit]
    ended = ended_in(upgraded, upgraded.execute(command, options=options, cwd=str(tmp_path)))
    assert (ended["cause"], ended["limit"]) == (cause, limit)


@for_later_releases
def test_a_job_with_a_limit_is_restarted_in_a_server_that_was_upgraded(upgraded: Server) -> None:
    options = {"silence_s": 0.5, "restart": "on-failure", "max_restarts": 1, "backoff_s": 0.1}
    job_id = upgraded.execute("echo run; sleep 1000", options=options)
    ended = ended_in(upgraded, job_id)
    assert (ended["cause"], ended["limit"]) == ("over_limit", "silence")
    assert upgraded.output(job_id)["stdout"] == "run\nrun\n"


@for_later_releases
def test_a_guard_of_the_release_takes_over_a_job_with_limits_after_an_upgrade(
    upgraded: Server, home: Path
) -> None:
    job_id = upgraded.execute("echo ready; read x; exec yes", options={"output": "64KB", "on_output": "stop"})
    upgraded.wait_until_printed(job_id, "ready")
    run = run_of(open_jobs({"BGJOB_HOME": str(home)}, many=False), job_id)
    os.kill(run.shim_pid, signal.SIGKILL)
    upgraded.call("interact_with_job", job_id=job_id, input="x")
    assert ended_in(upgraded, job_id)["limit"] == "output"


@for_later_releases
def test_events_are_told_by_a_server_that_was_upgraded(upgraded: Server) -> None:
    """It starts a watcher by its old name, and asks that module for what was missed."""
    job_id = upgraded.execute("echo the needle; exit 3", watch=["needle"])
    asked = {"job_ids": [job_id], "kinds": ["matched"], "timeout_s": WAIT_S}
    (told,) = upgraded.call("job_events", **asked)["events"]
    assert told["line"] == "the needle"


@for_later_releases
def test_the_queue_moves_in_a_server_that_was_upgraded(upgraded: Server) -> None:
    first = upgraded.execute("echo ready; read x")
    second = upgraded.execute("exit 5", after=[first], options={"open_files": 50})
    upgraded.call("interact_with_job", job_id=first, input="x")
    assert ended_in(upgraded, second)["exit_code"] == 5


def ended_in(server: Server, job_id: str) -> dict[str, Any]:
    assert server.call("wait_for_job", job_ids=[job_id], timeout_s=WAIT_S)["met"]
    return server.status(job_id)


def copy_package(source: Path, target: Path) -> None:
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))

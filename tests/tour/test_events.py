"""Events: whoever comes back, after a restart, a compaction or as somebody else, misses nothing."""

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bgjob.api import Cancellation, Jobs, Typed, open_jobs
from bgjob.api.spec import spec_of
from bgjob.api.start import launch
from bgjob.home import event_log, watch_registry
from tests.support.gate import Gate
from tests.support.process_table import parent_of, wait_until_gone
from tests.support.server import Server, StartServer, ToolError
from tests.support.shims import guard_pid, kill_both, shim_pid
from tests.support.waiting import wait_until

Event = dict[str, Any]
PATIENCE_S = 30.0


def events(server: Server, **arguments: Any) -> list[Event]:
    return list(server.call("job_events", **arguments)["events"])


def until(server: Server, kind: str, since: str = "0.0", **arguments: Any) -> list[Event]:
    """All events from a cursor on, to the first of this kind."""
    found: list[Event] = []
    while True:
        answer = server.call("job_events", since=since, timeout_s=PATIENCE_S, **arguments)
        assert answer["events"], f"no {kind} among {found}"
        found += answer["events"]
        since = answer["cursor"]
        if kind in [event["kind"] for event in found]:
            return found


def kinds(found: list[Event]) -> list[str]:
    return [event["kind"] for event in found]


class TestWhatHappened:
    def test_a_jobs_start_and_end_are_told_with_their_cause(self, server: Server) -> None:
        job_id = server.execute("echo hi; exit 3", name="tests")
        started, ended = until(server, "ended", job_ids=[job_id])
        assert (started["kind"], started["job_id"], started["name"]) == ("started", job_id, "tests")
        assert started["pid"] > 0
        assert (ended["kind"], ended["cause"], ended["exit_code"], ended["name"]) == (
            "ended",
            "exited",
            3,
            "tests",
        )
        assert ended["output_bytes"] == 3
        assert started["time"] <= ended["time"]

    def test_how_a_job_was_ended_is_told(self, server: Server) -> None:
        killed, timed_out = server.execute("cat"), server.execute("cat", timeout_s=0.1)
        server.call("kill_job", job_id=killed)
        last = until(server, "ended", job_ids=[killed])[-1]
        assert (last["cause"], last["signal"]) == ("killed", "SIGTERM")
        assert until(server, "ended", job_ids=[timed_out])[-1]["cause"] == "timed_out"

    def test_an_agent_that_restarts_misses_nothing(self, start_server: StartServer, gate: Gate) -> None:
        """Not what happens while no server is alive either."""
        first = start_server()
        job_id = first.execute(f"{gate.pause}; exit 7")
        gate.wait_until_reached()
        cursor = first.call("job_events")["cursor"]
        first.kill()
        gate.open()
        second = start_server()
        (ended,) = until(second, "ended", since=cursor)
        assert (ended["job_id"], ended["exit_code"]) == (job_id, 7)
        after = second.call("job_events", since=second.call("job_events", since=cursor)["cursor"])
        assert after["events"] == []

    def test_a_job_that_prints_a_prompt_and_waits_is_told_once_for_each_question(
        self, server: Server
    ) -> None:
        job_id = server.execute("printf 'name? '; read a; printf 'again? '; read b; echo bye")
        asked = until(server, "input", job_ids=[job_id])[-1]
        assert asked["prompt"] == "name?"
        since = server.call("job_events")["cursor"]
        server.call("interact_with_job", job_id=job_id, input="x")
        found = until(server, "input", since=since, job_ids=[job_id])
        assert [event["prompt"] for event in found] == ["name? again?"]  # a pipe echoes no newline
        server.call("interact_with_job", job_id=job_id, input="y")
        assert kinds(until(server, "ended", job_ids=[job_id])) == ["started", "input", "input", "ended"]

    def test_a_silent_reader_waits_for_input_too_and_one_with_closed_stdin_does_not(
        self, server: Server
    ) -> None:
        reader = server.execute("cat")
        assert until(server, "input", job_ids=[reader])[-1]["kind"] == "input"
        busy = server.execute("exec <&-; sleep 2.5")
        assert kinds(until(server, "ended", job_ids=[busy])) == ["started", "ended"]

    def test_a_command_that_cannot_be_started_is_told_to_have_ended(self, jobs: Jobs, tmp_path: Path) -> None:
        (gone := tmp_path / "gone").mkdir()
        spec = spec_of(jobs.context, "true", cwd=str(gone))
        gone.rmdir()
        job = launch(jobs.context, spec, {})
        found = jobs.events("0.0", job_ids=[job.id], timeout_s=PATIENCE_S)
        assert [(event.kind, event.details["cause"]) for event in found.events] == [
            ("ended", "never_started")
        ]


class TestKilled:
    def test_the_end_is_told_when_the_shim_was_killed(self, jobs: Jobs, gate: Gate) -> None:
        job = jobs.execute(f"{gate.pause}; exit 5")
        gate.wait_until_reached()
        os.kill(shim_pid(jobs, job.id), signal.SIGKILL)
        gate.open()
        (ended,) = jobs.events("0.0", job_ids=[job.id], kinds=["ended"], timeout_s=PATIENCE_S).events
        assert (ended.details["cause"], ended.details["exit_code"]) == ("exited", 5)

    def test_the_end_is_told_when_shim_and_guard_were_killed(self, jobs: Jobs) -> None:
        """By whoever looks: there is nobody else."""
        job = jobs.execute("exec sleep 1000")
        kill_both(jobs, job.id)
        (ended,) = jobs.events("0.0", job_ids=[job.id], kinds=["ended"]).events
        assert ended.details["cause"] == "lost"
        again = jobs.events("0.0", job_ids=[job.id], kinds=["ended"])
        assert len(again.events) == 1

    def test_a_wait_for_events_notices_that_too(self, jobs: Jobs) -> None:
        job = jobs.execute("exec sleep 1000")
        cursor = jobs.events().cursor
        threading.Thread(target=kill_both, args=(jobs, job.id)).start()
        found = jobs.events(cursor, kinds=["ended"], timeout_s=PATIENCE_S)
        assert [event.job_id for event in found.events] == [job.id]

    @pytest.mark.parametrize(
        ("command", "terms"), [("exit 4", {}), ("kill -9 $$", {}), ("exec sleep 1000", {"silence_s": 0.1})]
    )
    def test_an_end_whose_event_was_lost_is_told_as_it_was(
        self, jobs: Jobs, home: Path, command: str, terms: dict[str, Any]
    ) -> None:
        """As after a power cut: the outcome is on disk, the end of the log is not."""
        job = jobs.execute(command, name="it", terms=terms)
        (told,) = jobs.events("0.0", kinds=["ended"], timeout_s=PATIENCE_S).events
        log = home / "events" / "1"
        log.write_bytes(log.read_bytes().partition(b'{"at"')[0])
        event_log.append(str(log.parent), "started", job.id)
        wait_until(lambda: not jobs.has_shim(job.id))
        reader = open_jobs({"BGJOB_HOME": str(home)}, many=False)
        (ended,) = reader.events("0.0", job_ids=[job.id], kinds=["ended"]).events
        assert (ended.name, ended.details) == (told.name, told.details)

    def test_of_several_that_find_an_end_untold_one_tells_it(self, jobs: Jobs, home: Path) -> None:
        job = jobs.execute("exec sleep 1000")
        kill_both(jobs, job.id)
        answers: list[int] = []

        def look() -> None:
            answers.append(len(jobs.events("0.0", job_ids=[job.id], kinds=["ended"]).events))

        threads = [threading.Thread(target=look) for _ in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert answers == [1] * 8


class TestWaiting:
    def test_a_waiting_call_is_woken(self, server: Server, gate: Gate) -> None:
        job_id = server.execute(gate.pause)
        gate.wait_until_reached()
        cursor = server.call("job_events")["cursor"]
        threading.Timer(0.2, gate.open).start()
        began = time.monotonic()
        found = events(server, since=cursor, job_ids=[job_id], timeout_s=PATIENCE_S)
        assert kinds(found) == ["ended"]
        assert time.monotonic() - began < PATIENCE_S / 2

    def test_a_call_that_is_called_off_ends(self, jobs: Jobs) -> None:
        cancellation = Cancellation()
        threading.Timer(0.1, cancellation.cancel).start()
        began = time.monotonic()
        assert jobs.events(timeout_s=PATIENCE_S, cancellation=cancellation).events == []
        assert time.monotonic() - began < PATIENCE_S / 2
        cancellation.close()

    def test_without_events_it_answers_in_time_and_with_the_same_cursor(self, jobs: Jobs) -> None:
        first = jobs.events(timeout_s=0.1)
        assert jobs.events(first.cursor, timeout_s=0.1).cursor == first.cursor


class TestTheBudget:
    def test_without_a_cursor_the_newest_fit_and_the_others_can_be_read(self, jobs: Jobs) -> None:
        job = jobs.execute("sleep 1000")
        for number in range(100):
            event_log.append(jobs.events_directory, "limit_near", job.id, limit="memory", number=number)
        newest = jobs.events(max_tokens=200)
        assert newest.events[-1].details["number"] == 99
        assert newest.left_out + len(newest.events) == 101
        assert not newest.more
        assert newest.earlier is not None
        oldest = jobs.events(newest.earlier, max_tokens=200)
        assert oldest.events[0].kind == "started"
        assert oldest.more

    def test_by_the_cursor_every_event_is_read_once_and_in_order(self, jobs: Jobs) -> None:
        job = jobs.execute("cat")
        for number in range(100):
            event_log.append(jobs.events_directory, "limit_near", job.id, number=number)
        cursor, numbers = "0.0", []
        while True:
            found = jobs.events(cursor, kinds=["limit_near"], max_tokens=300)
            numbers += [event.details["number"] for event in found.events]
            cursor = found.cursor
            if not found.more:
                break
        assert numbers == list(range(100))

    def test_an_answer_is_as_small_as_was_asked_for(self, server: Server) -> None:
        for number in range(20):
            server.call("execute_command", command=f"exit {number}", wait_s=20)
        answer = server.call("job_events", since="0.0", max_tokens=300)
        assert len(json.dumps(answer["events"])) / 4 < 400
        assert answer["more"]

    def test_what_retention_has_taken_is_said(self, jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(event_log, "SEGMENT_BYTES", 2000)
        job = jobs.execute("sleep 1000")
        for number in range(600):
            event_log.append(jobs.events_directory, "limit_near", job.id, number=number)
        found = jobs.events("1.0", max_tokens=100_000)
        assert found.gone_bytes > 0
        assert found.events[-1].details["number"] == 599
        assert jobs.events(found.cursor).gone_bytes == 0


class TestArguments:
    def test_a_cursor_that_is_none_is_an_error_that_says_so(self, server: Server) -> None:
        with pytest.raises(ToolError, match="'12-x' is not a cursor of events"):
            server.call("job_events", since="12-x")

    def test_an_unknown_job_is_not_found(self, server: Server) -> None:
        with pytest.raises(ToolError, match="not found"):
            server.call("job_events", job_ids=["00000000-0000-4000-8000-000000000000"])

    def test_a_job_that_was_cleaned_up_still_has_its_events(self, jobs: Jobs) -> None:
        job = jobs.execute("exit 1", name="gone")
        jobs.events("0.0", kinds=["ended"], timeout_s=PATIENCE_S)
        wait_until(lambda: not jobs.has_shim(job.id))
        ((place, _),) = jobs.store.ids()
        jobs.store.remove(place, job.id)
        found = jobs.events("0.0", job_ids=[job.id])
        assert [event.kind for event in found.events] == ["started", "ended"]
        assert found.events[-1].name == "gone"


def watchers(home: Path) -> list[int]:
    """Keeper and watcher of this home."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            with contextlib.suppress(OSError):
                command = (process / "cmdline").read_bytes().split(b"\0")
                if b"from bgjob.watch.watcher import" in b" ".join(command) and str(home).encode() in command:
                    found.append(int(process.name))
    return sorted(found)


def keeper_and_watcher(home: Path) -> tuple[int, int]:
    """Once there are these two and nobody else: a second keeper, started before the first had its lock, ends."""
    found: list[tuple[int, int]] = []

    def are_alone() -> bool:
        with contextlib.suppress(OSError):  # gone meanwhile
            pids = watchers(home)
            found[:] = [(parent_of(pid), pid) for pid in pids if parent_of(pid) in pids]
            return (len(pids), len(found)) == (2, 1)
        return False

    wait_until(are_alone, "there are a keeper and its watcher", lambda: str(watchers(home)))
    return found[0]


@pytest.fixture
def no_watcher_left(home: Path) -> Iterator[None]:
    """Whatever a test does: without jobs there is none."""
    yield
    for path in (home / watch_registry.WATCHES).glob("*"):
        path.unlink(missing_ok=True)  # its watcher may strike it out just now
    wait_until(lambda: not watchers(home))


@pytest.mark.usefixtures("no_watcher_left")
class TestWatches:
    def test_each_line_that_matches_is_told_with_its_pattern_and_place(self, jobs: Jobs) -> None:
        job = jobs.execute(
            "echo fine; echo 'an ERROR here' >&2; echo warning: x; cat", watch=["ERROR", "^warn.*x$"]
        )
        found: list[Any] = []
        cursor = "0.0"
        while len(found) < 2:
            answer = jobs.events(cursor, job_ids=[job.id], kinds=["matched"], timeout_s=PATIENCE_S)
            assert answer.events
            found, cursor = found + answer.events, answer.cursor
        told = {event.details["pattern"]: event.details for event in found}
        assert (told["ERROR"]["line"], told["ERROR"]["stream"]) == ("an ERROR here", "stderr")
        assert (told["^warn.*x$"]["line"], told["^warn.*x$"]["stream"]) == ("warning: x", "stdout")
        assert jobs.output(job.id, told["ERROR"]["cursor"]).stderr == "an ERROR here\n"

    def test_it_goes_on_without_any_server(self, start_server: StartServer, gate: Gate, home: Path) -> None:
        first = start_server()
        job_id = first.execute(f"{gate.pause}; echo the needle", watch=["needle"])
        gate.wait_until_reached()
        first.kill()
        gate.open()
        wait_until(lambda: b'"matched"' in (home / "events" / "1").read_bytes())
        found = until(start_server(), "matched", job_ids=[job_id])
        assert [event["line"] for event in found if event["kind"] == "matched"] == ["the needle"]

    def test_the_last_line_of_a_job_is_looked_at_though_it_has_no_end(self, jobs: Jobs) -> None:
        job = jobs.execute("printf 'no newline: needle'", watch=["needle"])
        (event,) = jobs.events("0.0", job_ids=[job.id], kinds=["matched"], timeout_s=PATIENCE_S).events
        assert event.details["line"] == "no newline: needle"

    def test_a_prompt_is_told_once_before_its_line_has_an_end(self, jobs: Jobs) -> None:
        job = jobs.execute("printf 'password: '; read x; echo; echo done", watch=["password", "done"])
        found = jobs.events("0.0", job_ids=[job.id], kinds=["matched"], timeout_s=PATIENCE_S)
        assert [event.details["line"] for event in found.events] == ["password:"]
        jobs.interact(job.id, Typed("x"))
        after = jobs.events(found.cursor, job_ids=[job.id], kinds=["matched"], timeout_s=PATIENCE_S)
        assert [event.details["pattern"] for event in after.events] == ["done"]

    def test_a_flood_is_told_by_some_of_its_lines_and_their_number(self, jobs: Jobs) -> None:
        job = jobs.execute("yes flood | head -n 50000; echo rare", watch=["flood", "rare"])
        jobs.events("0.0", job_ids=[job.id], kinds=["ended"], timeout_s=PATIENCE_S)
        wait_until(lambda: not watch_registry.registered(jobs.home))
        found = jobs.events("0.0", job_ids=[job.id], kinds=["matched"], max_tokens=100_000).events
        floods = [event.details for event in found if event.details["pattern"] == "flood"]
        assert (
            sum("line" in each for each in floods) + sum(each.get("suppressed", 0) for each in floods)
            == 50000
        )
        assert len(floods) < 60
        assert [event.details["line"] for event in found if event.details["pattern"] == "rare"] == ["rare"]

    def test_output_that_was_dropped_before_it_was_read_is_said(self, jobs: Jobs) -> None:
        """The watcher is stopped while the log's limit takes what it has not read."""
        job = jobs.execute(
            "echo begin; read x; yes 0123456789 | head -c 3000000; echo end; read x",
            watch=["begin", "end"],
            terms={"output": 100_000},
        )
        jobs.events("0.0", job_ids=[job.id], kinds=["matched"], timeout_s=PATIENCE_S)
        home = Path(jobs.home)
        stopped = keeper_and_watcher(home)
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        jobs.interact(job.id, Typed("x"))
        (waited,) = jobs.wait_for([job.id], pattern="end$", timeout_s=PATIENCE_S)
        assert waited.met
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        (unwatched,) = jobs.events("0.0", kinds=["unwatched"], timeout_s=PATIENCE_S).events
        assert 2_000_000 < unwatched.details["bytes"] < 3_000_100
        patterns = [
            event.details["pattern"]
            for event in jobs.events("0.0", kinds=["matched"], timeout_s=PATIENCE_S).events
        ]
        assert patterns == ["begin", "end"]

    def test_a_pattern_that_is_none_is_an_error_before_anything_runs(self, server: Server) -> None:
        with pytest.raises(ToolError, match="pattern '\\(' is not valid"):
            server.execute("true", watch=["("])

    @pytest.mark.parametrize("which", ["watcher", "keeper", "both"])
    def test_killed_at_any_time_it_misses_nothing(
        self, jobs: Jobs, home: Path, gate: Gate, which: str
    ) -> None:
        job = jobs.execute(f"echo needle 1; {gate.pause}; echo needle 2; cat", watch=["needle"])
        gate.wait_until_reached()
        cursor = jobs.events("0.0", kinds=["matched"], timeout_s=PATIENCE_S).cursor
        keeper, watcher = keeper_and_watcher(home)
        doomed = {"watcher": [watcher], "keeper": [keeper], "both": [keeper, watcher]}[which]
        for pid in doomed:
            os.kill(pid, signal.SIGKILL)
        for pid in doomed:
            wait_until_gone(pid)
        gate.open()
        found = jobs.events(cursor, job_ids=[job.id], kinds=["matched"], timeout_s=PATIENCE_S)
        assert [event.details["line"] for event in found.events][-1] == "needle 2"

    def test_nobody_on_the_lookout_is_made_up_for_by_whoever_asks(
        self, jobs: Jobs, home: Path, gate: Gate
    ) -> None:
        """At once, and not only when a new watcher has started."""
        job = jobs.execute(f"{gate.pause}; echo needle; {gate.reach}; cat", watch=["needle"])
        gate.wait_until_reached()
        for pid in keeper_and_watcher(home):
            os.kill(pid, signal.SIGKILL)
            wait_until_gone(pid)
        gate.open()
        gate.wait_until_reached()
        jobs.wait_for([job.id], pattern="needle", timeout_s=PATIENCE_S)
        found = jobs.events("0.0", job_ids=[job.id], kinds=["matched"])
        assert [event.details["line"] for event in found.events] == ["needle"]

    def test_it_is_no_child_of_the_server_and_not_of_its_group(self, jobs: Jobs, home: Path) -> None:
        jobs.execute("cat", watch=["x"])
        for pid in keeper_and_watcher(home):
            assert os.getpgid(pid) != os.getpgid(0)
            assert os.getsid(pid) != os.getsid(0)
            assert parent_of(pid) != os.getpid()

    def test_it_ends_with_the_last_job_that_it_looks_after(self, jobs: Jobs, home: Path) -> None:
        job = jobs.execute("cat", watch=["x"])
        keeper_and_watcher(home)
        jobs.kill(job.id)
        wait_until(lambda: not watchers(home))
        assert watch_registry.registered(str(home)) == []


@pytest.mark.usefixtures("no_watcher_left")
class TestOnEvent:
    def test_a_command_is_run_for_each_event_with_the_event_on_its_stdin(
        self, start_server: StartServer, tmp_path: Path
    ) -> None:
        out = tmp_path / "told"
        server = start_server(
            MCP_BG_ON_EVENT=f'echo "$BGJOB_EVENT $BGJOB_JOB_ID $BGJOB_JOB_NAME $(cat)" >> {out}'
        )
        job_id = server.execute("echo needle; exit 2", name="mine", watch=["needle"])
        wait_until(lambda: out.exists() and "ended" in out.read_text() and "matched" in out.read_text())
        lines = [line.split(" ", 3) for line in out.read_text().splitlines()]
        assert {line[0] for line in lines} == {"started", "matched", "ended"}
        assert {(line[1], line[2]) for line in lines} == {(job_id, "mine")}
        ended = next(json.loads(line[3]) for line in lines if line[0] == "ended")
        assert (ended["kind"], ended["exit_code"]) == ("ended", 2)

    def test_one_that_fails_is_not_run_again_and_says_why(
        self, start_server: StartServer, tmp_path: Path, home: Path
    ) -> None:
        out = tmp_path / "told"
        server = start_server(MCP_BG_ON_EVENT=f"echo $BGJOB_EVENT >> {out}; echo no such host >&2; exit 7")
        server.execute("true")
        wait_until(lambda: not watch_registry.registered(str(home)))
        assert out.read_text().split() == ["started", "ended"]
        assert "ended with 7" in (home / "on_event.err").read_text()
        assert "no such host" in (home / "on_event.err").read_text()

    def test_one_that_hangs_is_killed_with_what_it_started_and_holds_up_no_job(
        self, start_server: StartServer, tmp_path: Path, home: Path
    ) -> None:
        out = tmp_path / "told"
        hangs = f"echo $BGJOB_EVENT >> {out}; [ $BGJOB_EVENT = ended ] || {{ sleep 1000 & wait; }}"
        server = start_server(MCP_BG_ON_EVENT=hangs)
        answer = server.call("execute_command", command="echo quick", wait_s=5)
        assert answer["status"] == "completed"
        wait_until(lambda: not watch_registry.registered(str(home)))
        assert out.read_text().split() == ["started", "ended"]
        assert "took more than" in (home / "on_event.err").read_text()

    def test_killed_in_the_middle_of_a_command_it_runs_it_again(
        self, start_server: StartServer, tmp_path: Path, home: Path
    ) -> None:
        out = tmp_path / "told"
        stay = f"echo $$ > {out}.new; mv {out}.new {out}.pid; exec sleep 1000"
        once = f"echo $BGJOB_EVENT >> {out}; [ -e {out}.pid ] || {{ {stay}; }}"
        server = start_server(MCP_BG_ON_EVENT=once)
        server.execute("true")
        wait_until((tmp_path / "told.pid").exists)
        for pid in watchers(home):
            os.kill(pid, signal.SIGKILL)
            wait_until_gone(pid)
        server.call("list_jobs")  # whoever comes by starts another
        wait_until(lambda: not watch_registry.registered(str(home)))
        assert out.read_text().split() == ["started", "started", "ended"]
        wait_until_gone(int((tmp_path / "told.pid").read_text()))  # with the one that had started it

    def test_the_end_of_a_lost_job_is_handed_over_too(
        self, start_server: StartServer, jobs: Jobs, tmp_path: Path
    ) -> None:
        out = tmp_path / "told"
        server = start_server(MCP_BG_ON_EVENT=f"cat >> {out}")
        job_id = server.execute("exec sleep 1000")
        kill_both(jobs, job_id)
        wait_until(lambda: out.exists() and '"lost"' in out.read_text())

    def test_it_has_the_environment_of_the_server_that_started_the_job_and_of_nobody_else(
        self, start_server: StartServer, tmp_path: Path, home: Path
    ) -> None:
        """Of that what any program wants, and what the command names; the watcher itself has nobody's secrets."""
        out = tmp_path / "told"
        other = start_server(TOKEN="of another", ANOTHER_TOKEN="of another", MCP_BG_ON_EVENT="true")
        own = start_server(
            TOKEN="of its own",
            UNNAMED_TOKEN="of its own",
            DISPLAY=":7",
            MCP_BG_ON_EVENT=f'echo "token ${{TOKEN}}" >> {out}; env >> {out}',
        )
        other.execute("cat", watch=["x"])  # its server starts the watcher
        pids = keeper_and_watcher(home)
        job_id = own.execute("cat")
        entry = home / watch_registry.WATCHES / job_id
        assert entry.stat().st_mode & 0o777 == 0o600
        wait_until(lambda: out.exists() and "BGJOB_EVENT=started" in out.read_text())
        own.call("kill_job", job_id=job_id)
        wait_until(lambda: "BGJOB_EVENT=ended" in out.read_text())
        told = out.read_text()
        assert (told.count("token of its own\n"), told.count("DISPLAY=:7\n")) == (2, 2)
        assert f"\nPATH={os.environ['PATH']}\n" in told
        assert "of another" not in told
        assert "UNNAMED_TOKEN" not in told
        for pid in pids:
            assert b"TOKEN" not in Path(f"/proc/{pid}/environ").read_bytes()
        wait_until(lambda: not entry.exists(), "what the command needs of its environment rests no longer")

    def test_jobs_of_a_server_without_the_setting_have_none(
        self, start_server: StartServer, tmp_path: Path, home: Path
    ) -> None:
        out = tmp_path / "told"
        quiet, loud = start_server(), start_server(MCP_BG_ON_EVENT=f"echo $BGJOB_JOB_ID >> {out}")
        quiet.call("execute_command", command="true", wait_s=20)
        job_id = loud.execute("true")
        wait_until(lambda: not watch_registry.registered(str(home)))
        assert set(out.read_text().split()) == {job_id}


def test_a_guard_that_takes_over_tells_the_end_at_least_once(jobs: Jobs, gate: Gate) -> None:
    job = jobs.execute(f"sleep 1000 & {gate.pause}; exit 6")
    gate.wait_until_reached()
    guard = guard_pid(jobs, job.id)
    gate.open()
    jobs.events("0.0", job_ids=[job.id], kinds=["ended"], timeout_s=PATIENCE_S)
    os.kill(shim_pid(jobs, job.id), signal.SIGKILL)
    run = Path(jobs.directory(job.id), "run.json")
    wait_until(lambda: json.loads(run.read_text())["shim_pid"] == guard)
    found = jobs.events("0.0", job_ids=[job.id], kinds=["ended"]).events
    assert found
    assert {event.details["exit_code"] for event in found} == {6}

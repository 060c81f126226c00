"""What a job is watched for, and what is run for it: by a process of its own, that may be killed."""

import os
import signal
from pathlib import Path

import pytest

from bgjob.api import Jobs, Typed
from bgjob.home import watch_registry
from tests.support.gate import Gate
from tests.support.process_table import parent_of, wait_until_gone
from tests.support.server import Server, StartServer, ToolError
from tests.support.shims import kill_both
from tests.support.telling import keeper_and_watcher, until, watchers
from tests.support.waiting import PATIENCE_S, wait_until


@pytest.mark.usefixtures("no_watcher_left")
class TestWatches:
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
            options={"output": 100_000},
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
        answer = server.call("execute_command", command="echo quick", wait_s=30)
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
        # on a busy machine also of the event `input`: a job that waits for its stdin is taken to be at a prompt
        assert told.count("token of its own\n") == told.count("DISPLAY=:7\n") == told.count("\nBGJOB_EVENT=")
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

"""A page in a job: what the job prints comes live, what is typed goes in, one types at a time."""

import os
import signal
from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial

import pytest

from bgjob.api import Jobs, Typed
from bgjob.core.errors import HeldByPerson, NotRunning
from bgjob.core.job import Job
from bgjob.web.page.event_queue import MOST_WAITING_BYTES
from bgjob.web.page.viewer import Viewer, Wanted
from tests.faces.page_server import home, logged_in, login, server
from tests.support.gate import Gate
from tests.support.http_server import HttpServer
from tests.support.page_login import PageLogin
from tests.support.page_stream import PageStream
from tests.support.shims import guard_pid, shim_pid
from tests.support.waiting import wait_until

__all__ = ["home", "login", "server"]
OpenPage = Callable[..., PageStream]
# More than the kernel keeps for a reader that does not read.
MANY_LINES = 2_000_000
PIECE_BYTES = 60_000


@pytest.fixture
def look(login: PageLogin) -> Iterator[OpenPage]:
    """look(job_id, "terminal"): a page in a job, of this login or another."""
    with ExitStack() as opened:

        def look_at(job_id: str, view: str, viewer: str = "v", **more: object) -> PageStream:
            of = more.pop("of", login)
            assert isinstance(of, PageLogin)
            return opened.enter_context(PageStream(of, job=job_id, view=view, viewer=viewer, **more))

        yield look_at


def echoing(jobs: Jobs, *, pty: bool = False) -> Job:
    """Prints each line that it reads, on a terminal or not."""
    return jobs.execute("echo ready; exec cat", pty=pty)


def size_of(jobs: Jobs, job_id: str) -> tuple[int, int]:
    rows, cols = jobs.store.terminal_sizes(jobs.status(job_id).job)[-1][1:]
    return rows, cols


def is_held(jobs: Jobs, job_id: str) -> bool:
    try:
        jobs.interact(job_id, Typed("", add_newline=False), resize=(24, 80), wait_s=0)
    except HeldByPerson:
        return True
    return False


class TestATerminal:
    def test_it_begins_with_the_screen_and_goes_on_with_what_is_printed(
        self, jobs: Jobs, look: OpenPage, gate: Gate
    ) -> None:
        job = jobs.execute(
            rf"printf '\033[1;31mred\033[0m\033[6n'; {gate.pause}; printf 'more\033[6n'", pty=True
        )
        gate.wait_until_reached()
        page = look(job.id, "terminal", size="30x100")
        screen = page.wait_for("screen")
        assert (screen["rows"], screen["cols"]) == (30, 100)
        assert b"red" in page.output
        gate.open()
        page.wait_for("over")
        assert page.output.endswith(b"more")
        assert b"[6n" not in page.output  # what a terminal would answer
        assert list(dict.fromkeys(page.kinds())) == ["view", "screen", "bytes", "over"]

    def test_what_is_typed_arrives_in_order(self, jobs: Jobs, look: OpenPage) -> None:
        page = look(echoing(jobs, pty=True).id, "terminal", size="24x500")
        page.wait_for_output(b"ready")
        keys = b"".join(b"%03d." % number for number in range(250))
        for at in range(0, len(keys), 4):
            assert page.type(keys[at : at + 4]).status == 204
        assert page.type(b"\r").status == 204
        page.wait_until(lambda: page.output.replace(b"\r", b"").replace(b"\n", b"").count(keys) == 2)

    def test_who_comes_back_is_told_what_was_printed_meanwhile(self, jobs: Jobs, look: OpenPage) -> None:
        job = echoing(jobs, pty=True)
        page = look(job.id, "terminal", size="24x80")
        page.wait_for_output(b"ready")
        page.type(b"first\r")
        page.wait_for_output(b"first\r\nfirst\r\n")
        page.close()
        wait_until(lambda: not is_held(jobs, job.id))
        jobs.interact(job.id, Typed("second"))
        page = look(job.id, "terminal", size="24x80", at=page.at)
        page.wait_for_output(b"second\r\nsecond\r\n")
        assert page.output == b"second\r\nsecond\r\n"
        assert "screen" not in page.kinds()

    def test_after_a_resize_who_comes_back_begins_anew(self, jobs: Jobs, look: OpenPage) -> None:
        job = echoing(jobs, pty=True)
        page = look(job.id, "terminal", size="24x80")
        page.wait_for_output(b"ready")
        page.close()
        page = look(job.id, "terminal", size="30x90", at=page.at)
        assert (page.wait_for("screen")["rows"], size_of(jobs, job.id)) == (30, (30, 90))

    def test_its_size_is_that_of_the_page(self, jobs: Jobs, look: OpenPage) -> None:
        job = echoing(jobs, pty=True)
        page = look(job.id, "terminal", size="24x80")
        page.wait_for("screen")
        assert page.resize(40, 120).status == 204
        assert page.wait_for("screen", lambda data: data["rows"] == 40)["cols"] == 120
        assert size_of(jobs, job.id) == (40, 120)
        assert page.resize(65000, 65000).status == 204
        page.wait_for("screen", lambda data: data["rows"] == 500)

    def test_of_a_job_that_has_ended_it_is_the_last_screen(
        self, jobs: Jobs, look: OpenPage, login: PageLogin
    ) -> None:
        job = jobs.execute("echo last words", pty=True)
        jobs.wait_for([job.id])
        page = look(job.id, "terminal", size="24x80")
        page.wait_for("over")
        assert page.kinds() == ["screen", "over"]
        assert b"last words" in page.output
        answer = page.type(b"x")
        assert (answer.status, "is not running" in answer.json["error"]) == (409, True)

    def test_a_flood_fills_no_memory_and_is_interrupted(self, jobs: Jobs, look: OpenPage) -> None:
        job = jobs.execute("exec yes 'a line that comes again and again'", pty=True)
        page = look(job.id, "terminal", size="24x80")
        for _ in range(3):
            page.wait_for("screen")
        assert page.type(b"\x03").status == 204
        page.wait_for("over")


class TestASlowReader:
    def test_it_gets_a_new_screen_and_not_all_that_it_has_missed(
        self, jobs: Jobs, look: OpenPage, gate: Gate
    ) -> None:
        job = jobs.execute(f"seq 1 {MANY_LINES}; {gate.pause}", pty=True)
        page = look(job.id, "terminal", size="24x80")
        gate.wait_until_reached()  # all is printed, and nothing of it was read
        page.wait_for_output(b"%d" % MANY_LINES)
        assert page.kinds().count("screen") > 1
        sent = sum(len(data["data"]) for kind, data in page.seen if kind in ("screen", "bytes"))
        assert sent < jobs.status(job.id).output_bytes

    def test_what_waits_for_it_is_bounded_and_keys_pass(self, jobs: Jobs) -> None:
        """In this process: of a server only the kernel's buffers would be seen."""
        job = jobs.execute(f"while read x; do head -c {PIECE_BYTES} /dev/zero | tr '\\0' x; done", pty=True)
        viewer = Viewer(jobs.context, Wanted(job.id, "terminal", size=(24, 80)), lambda: None, lambda: None)
        viewer.start()
        for number in range(1, 20):
            before = viewer._events._waiting_bytes
            viewer.type(b"\r")
            wait_until(partial(has_printed, jobs, job, number * PIECE_BYTES))
            wait_until(partial(has_more_or_is_full, viewer, before))
        assert viewer._events._waiting_bytes < 2 * MOST_WAITING_BYTES
        assert viewer.take().startswith(b"event: view\n")
        wait_until(lambda: b"event: screen\n" in viewer.take())  # it was far behind
        viewer.close()
        wait_until(lambda: viewer._is_done)


def has_printed(jobs: Jobs, job: Job, size_bytes: int) -> bool:
    return jobs.status(job.id).output_bytes >= size_bytes


def has_more_or_is_full(viewer: Viewer, before_bytes: int) -> bool:
    return viewer._events._waiting_bytes > before_bytes or not viewer._events.has_room


class TestALog:
    @pytest.mark.parametrize("pty", [False, True])
    def test_it_is_told_that_there_is_more(self, jobs: Jobs, look: OpenPage, gate: Gate, pty: bool) -> None:
        job = jobs.execute(f"printf 12345; {gate.pause}; printf 678", pty=pty)
        gate.wait_until_reached()
        page = look(job.id, "log")
        page.wait_for("grown", lambda data: data["end"] == 5)
        gate.open()
        page.wait_for("over")
        assert page.of_job()[-2] == ("grown", {"end": 8})

    def test_of_a_job_that_has_ended_its_end_is_told_once(self, jobs: Jobs, look: OpenPage) -> None:
        job = jobs.execute("printf 12345")
        jobs.wait_for([job.id])
        page = look(job.id, "log")
        page.wait_for("over")
        assert page.kinds() == ["grown", "over"]

    def test_what_was_left_running_adds_to_it(self, jobs: Jobs, look: OpenPage, gate: Gate) -> None:
        job = jobs.execute(f"({gate.pause}; printf left) & exit 0")
        gate.wait_until_reached()
        wait_until(lambda: jobs.status(job.id).left_running == 1)
        page = look(job.id, "log")
        assert page.wait_for("grown") == {"end": 0}
        gate.open()
        page.wait_for("over")
        assert page.of_job()[-2] == ("grown", {"end": 4})

    def test_lines_are_typed_into_a_job_without_a_terminal(self, jobs: Jobs, look: OpenPage) -> None:
        job = echoing(jobs)
        page = look(job.id, "log")
        page.wait_for("grown")
        assert page.type(b"hello\n").status == 204
        page.wait_for("view", lambda data: data["holds"])
        page.wait_for("grown", lambda data: data["end"] == len("ready\nhello\n"))
        row = page.wait_for_row(job.id, lambda row: "held" in row)
        assert row["held"]["by"] == "ann in a browser"

    def test_that_of_a_terminal_only_looks(self, jobs: Jobs, look: OpenPage) -> None:
        job = echoing(jobs, pty=True)
        page = look(job.id, "log", size="50x50")
        assert page.wait_for("view")["only_looks"]
        answer = page.type(b"x")
        assert (answer.status, "open its terminal" in answer.json["error"]) == (409, True)
        assert page.hold(True).status == 409
        assert page.resize(10, 10).status == 204
        assert size_of(jobs, job.id) == (24, 80)


class TestWhoTypes:
    def test_an_agent_is_refused_until_the_job_is_given_back(
        self, jobs: Jobs, look: OpenPage, login: PageLogin
    ) -> None:
        job = echoing(jobs, pty=True)
        page = look(job.id, "terminal", size="24x80")
        page.wait_for_output(b"ready")
        jobs.interact(job.id, Typed("agent"))  # the page only looks so far
        assert page.hold(True).status == 204
        page.wait_for("view", lambda data: data["holds"])
        page.wait_for_row(job.id, lambda row: "held" in row)
        with pytest.raises(HeldByPerson, match="ann in a browser"):
            jobs.interact(job.id, Typed("agent"))
        answer = login.post("/api/answer", {"job": job.id, "text": "not by this way"})
        assert (answer.status, "take it over" in answer.json["error"]) == (409, True)
        assert page.hold(False).status == 204
        page.wait_for("view", lambda data: not data["holds"])
        wait_until(lambda: not is_held(jobs, job.id))
        assert "again" in jobs.interact(job.id, Typed("again")).output.stdout
        page.wait_for_row(job.id, lambda row: "held" not in row)

    def test_of_two_pages_the_one_that_took_over_is_in_control(
        self, jobs: Jobs, server: HttpServer, look: OpenPage
    ) -> None:
        job = echoing(jobs, pty=True)
        ann, ben = look(job.id, "terminal", size="30x90"), look(job.id, "terminal", "w", size="20x60")
        for page in (ann, ben):
            page.wait_for("screen")
        ann.type(b"hers\r")
        ann.wait_for_output(b"hers\r\nhers\r\n")
        ben.hold(True)
        ben.wait_until(lambda: bool(ben.view["holds"] and ben.view["in_control"]))
        ann.wait_until(lambda: not ann.view["holds"] and ann.view["rows"] == 20)
        assert size_of(jobs, job.id) == (20, 60)
        ben.hold(False)
        ann.wait_until(lambda: bool(ann.view["holds"] and ann.view["in_control"]))
        ben.wait_until(lambda: not ben.view["holds"])
        assert size_of(jobs, job.id) == (30, 90)

    def test_what_was_typed_is_told_once_and_how_much(self, jobs: Jobs, look: OpenPage) -> None:
        job = echoing(jobs, pty=True)
        page = look(job.id, "terminal", size="24x80")
        page.wait_for_output(b"ready")
        page.type(b"four\r")
        page.wait_for_output(b"four\r\nfour\r\n")
        page.hold(False)
        page.type(b"seven\r")
        page.wait_for_output(b"seven\r\nseven\r\n")
        page.close()
        wait_until(lambda: len(typed(jobs, job)) == 2)
        assert typed(jobs, job) == [("ann in a browser", 5), ("ann in a browser", 6)]

    def test_the_job_is_free_when_the_page_is_gone(self, jobs: Jobs, look: OpenPage) -> None:
        job = echoing(jobs, pty=True)
        page = look(job.id, "terminal", size="24x80")
        page.wait_for_output(b"ready")
        page.type(b"x\r")
        page.wait_for_output(b"x\r\nx\r\n")
        assert is_held(jobs, job.id)
        page.close()
        wait_until(lambda: not is_held(jobs, job.id))

    def test_a_login_that_may_only_look_types_nothing(
        self, jobs: Jobs, server: HttpServer, look: OpenPage
    ) -> None:
        job = echoing(jobs, pty=True)
        page = look(job.id, "terminal", size="50x50", of=logged_in(server, "read"))
        assert page.wait_for("view")["only_looks"]
        page.wait_for_output(b"ready")
        assert [page.type(b"x").status, page.hold(True).status] == [403, 403]
        assert size_of(jobs, job.id) == (24, 80)


def typed(jobs: Jobs, job: Job) -> list[tuple[str, int]]:
    events = jobs.events(kinds=["typed"], job_ids=[job.id]).events
    return [(event.details["by"], event.details["bytes"]) for event in events]


class TestTheJob:
    def test_its_shim_is_killed_and_the_guard_goes_on(self, jobs: Jobs, look: OpenPage) -> None:
        job = echoing(jobs, pty=True)
        page = look(job.id, "terminal", size="24x80")
        page.wait_for_output(b"ready")
        page.type(b"before\r")
        page.wait_for_output(b"before\r\nbefore\r\n")
        shim, guard = shim_pid(jobs, job.id), guard_pid(jobs, job.id)
        os.kill(shim, signal.SIGKILL)
        wait_until(lambda: shim_pid(jobs, job.id) == guard, "the guard has taken over")
        wait_until(lambda: is_held(jobs, job.id), "the page holds the job again")
        page.type(b"after\r")
        page.wait_for_output(b"after\r\nafter\r\n")
        assert page.view["holds"]

    def test_a_queued_one_is_shown_from_its_start_on(self, jobs: Jobs, look: OpenPage, gate: Gate) -> None:
        first = jobs.execute(gate.pause)
        gate.wait_until_reached()
        job = jobs.execute("echo begun; read x", pty=True, queue=True, after=[first.id])
        page = look(job.id, "terminal", size="24x80")
        page.wait_for_row(job.id, lambda row: row["status"] == "queued")
        answer = page.type(b"x")
        assert (answer.status, "has not started yet" in answer.json["error"]) == (409, True)
        gate.open()
        page.wait_for_output(b"begun")
        assert page.view["in_control"]

    def test_what_is_typed_before_its_state_is_known_is_not_taken(self, jobs: Jobs) -> None:
        """It waits for the answer of a job that is queued: later it would be typed into the job."""
        job = jobs.execute("true", queue=True, options={"delay_s": 1000})
        viewer = Viewer(jobs.context, Wanted(job.id, "terminal"), lambda: None, lambda: None)
        with ThreadPoolExecutor() as page, closing(viewer):
            typing = page.submit(viewer.type, b"x")
            wait_until(lambda: typing.running() or typing.done(), "it is being typed")
            viewer.start()
            with pytest.raises(NotRunning, match="has not started yet"):
                typing.result()

    def test_one_that_there_is_not_is_gone(self, look: OpenPage) -> None:
        page = look("../../etc/passwd", "log")
        assert "not found" in page.wait_for("gone")["error"]

    def test_a_closed_stdin_is_told(self, jobs: Jobs, look: OpenPage) -> None:
        job = jobs.execute("exec <&-; echo closed; exec sleep 1000")
        jobs.wait_for([job.id], pattern="closed")
        page = look(job.id, "log")
        page.wait_for("view")
        page.type(b"x" * 10)
        page.wait_for("view", lambda data: data["stdin_closed"])


class TestRequests:
    @pytest.mark.parametrize("act", [{"data": "eA=="}, {"rows": 1, "cols": 1}, {"hold": True}])
    def test_a_viewer_that_is_not_there_is_said(self, login: PageLogin, act: dict[str, object]) -> None:
        path = {"data": "type", "rows": "resize", "hold": "hold"}[next(iter(act))]
        answer = login.post(f"/api/{path}", {"viewer": "nobody", **act})
        assert (answer.status, "does not look at the job" in answer.json["error"]) == (409, True)

    def test_that_of_another_login_is_not_there(self, jobs: Jobs, look: OpenPage, server: HttpServer) -> None:
        look(echoing(jobs, pty=True).id, "terminal").wait_for("screen")
        data = b64encode(b"x").decode()
        assert logged_in(server).post("/api/type", {"viewer": "v", "data": data}).status == 409

    @pytest.mark.parametrize("data", ["x", "\u00e4===", 5, None])
    def test_data_that_is_no_base64_is_said(self, login: PageLogin, data: object) -> None:
        assert login.post("/api/type", {"viewer": "v", "data": data}).status == 400

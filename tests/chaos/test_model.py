"""Whatever is done and whatever is killed, in any order: a simple model says what every door must tell.

    BGJOB_MODEL_EXAMPLES=500 pytest tests/chaos/test_model.py      a longer run, other steps each time

The servers are real, and after each step all of them are asked, and the door itself. Jobs are puppets: they do
nothing but what they are told, so the model knows every byte, every process and every end.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule, run_state_machine_as_test

from bgjob.link import sweep
from bgjob.output.tail import LINE_BYTES
from bgjob.store import retention
from bgjob.system import processes
from tests.chaos.model_jobs import LOST, TIMED_OUT, End, Life, Stream, strike
from tests.chaos.model_servers import Refused, Server, ServerRoom
from tests.chaos.model_world import MODES, World, pick
from tests.support.searching import matches
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

EXAMPLES = int(os.environ.get("BGJOB_MODEL_EXAMPLES", "0"))
SETTINGS = settings(
    max_examples=EXAMPLES or 15,
    stateful_step_count=30,
    derandomize=not EXAMPLES,
    phases=[Phase.generate, Phase.shrink][: 1 + bool(EXAMPLES)],  # no minutes of shrinking in CI
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
MOST_SERVERS = 3
SOON_S, NEVER_S = 0.3, 1000.0
ANSWER_S = 0.05

WHICH = st.integers(0, 5)  # of those that there are
MOMENT = st.integers(0, 40).map(lambda ticks: ticks / 10_000)  # until a killer strikes: up to 4 ms
PARTS = st.sampled_from(["shim", "guard"])
SPARE_PARTS = st.sampled_from(["zygote", "guard", "shim"])
GRACES = st.sampled_from([0.0, 0.1])


class LifeOfJobs(World):
    # -- servers ------------------------------------------------------------------------------------

    @initialize(executed=st.sampled_from([False] * 11 + [True]))
    def begin(self, executed: bool) -> None:
        self.open_server(executed)

    @rule()
    def one_more_server(self) -> None:
        if len(self.servers) < MOST_SERVERS:
            self.open_server()

    @rule(whom=WHICH, kill=st.booleans())
    def a_server_ends(self, whom: int, kill: bool) -> None:
        self.end_server(whom, kill=kill)

    @rule(whom=WHICH, part=SPARE_PARTS)
    def zygote_or_spare_is_killed(self, whom: int, part: str) -> None:
        mark, _ = pick(self.servers, whom)
        self.has_struck_spares = True
        strike(self.spare_parts(mark)[part], mark)

    # -- starting -----------------------------------------------------------------------------------

    @rule(
        whom=WHICH,
        pty=st.booleans(),
        mode=st.sampled_from(MODES),
        timeout_s=st.sampled_from([None, NEVER_S]),
    )
    def somebody_starts_a_job(self, whom: int, pty: bool, mode: str, timeout_s: float | None) -> None:
        server, puppet = self.server(whom), self.puppet(mode)
        request = server.ask("execute_command", command=puppet.command, pty=pty, timeout_s=timeout_s)
        self.is_answered(lambda: server.answer(request), puppet, pty=pty)

    @rule(whom=WHICH, pty=st.booleans())
    def somebody_starts_a_job_that_soon_times_out(self, whom: int, pty: bool) -> None:
        server, puppet = self.server(whom), self.puppet("plain")
        request = server.ask("execute_command", command=puppet.command, pty=pty, timeout_s=SOON_S)
        self.is_answered(lambda: server.answer(request), puppet, pty=pty, doomed=True)

    @rule(
        whom=WHICH,
        name=st.sampled_from(["web", "db"]),
        if_running=st.sampled_from(["new", "reuse", "refuse", "restart"]),
    )
    def somebody_starts_a_job_by_its_name(self, whom: int, name: str, if_running: str) -> None:
        server, puppet = self.server(whom), self.puppet("plain")
        same = self.some(lambda life: life.counts_as_running and life.name == name)
        request = server.ask("execute_command", command=puppet.command, name=name, if_running=if_running)
        if same and if_running == "reuse":
            answer = server.answer(request)
            assert (answer["job_id"], answer["reused"]) == (same[-1].id, True)
        elif same and if_running == "refuse":
            with pytest.raises(Refused, match=f"is running already: {same[-1].id}"):
                server.answer(request)
        else:
            for life in reversed(same if if_running == "restart" else []):
                self.is_killed(life, "TERM", grace_s=5)
            self.is_answered(lambda: server.answer(request), puppet, name=name)

    @rule(whom=WHICH, part=SPARE_PARTS, moment=MOMENT, pty=st.booleans())
    def zygote_or_spare_is_killed_while_a_job_starts(
        self, whom: int, part: str, moment: float, pty: bool
    ) -> None:
        """It runs all the same, and once."""
        mark, server = pick(self.servers, whom)
        pids, puppet = self.spare_parts(mark)[part], self.puppet("plain")
        self.has_struck_spares = True
        request = server.ask("execute_command", command=puppet.command, pty=pty)
        time.sleep(moment)
        strike(pids, mark)
        self.is_answered(lambda: server.answer(request), puppet, pty=pty)

    @rule(whom=WHICH, moment=MOMENT, pty=st.booleans())
    def a_server_is_killed_while_it_starts_a_job(self, whom: int, moment: float, pty: bool) -> None:
        """Then there is a job that runs, or one that is known never to have run, or none."""
        puppet, known = self.puppet("plain"), {life.id for life in self.lives}
        self.server(whom).ask("execute_command", command=puppet.command, pty=pty)
        time.sleep(moment)
        self.end_server(whom, kill=True)
        self.abandoned_drafts += 1
        wait_until(lambda: not self.in_the_making(known), "the job runs, or is lost")
        for job in self.fresh_door().list(limit=1000).jobs:
            if job.id not in known:
                life = Life(job.id, puppet, pty=pty, name=None, doomed=False)
                if self.record(life, "run.json"):
                    return self.is_started(life)
                life.end(LOST)
                self.lives.append(life)

    def in_the_making(self, known: set[str]) -> bool:
        store = self.fresh_door().store
        new = {path.name for path in self.home.glob("jobs/*")} - known
        return any(store.has_shim(job_id) and not store.load(job_id).run for job_id in new)

    # -- living -------------------------------------------------------------------------------------

    @rule(which=WHICH, stream=st.sampled_from(["stdout", "stderr"]))
    def a_job_prints(self, which: int, stream: Stream) -> None:
        if life := self.one_or_new(which, lambda life: life.listens):
            word = self.word()
            life.puppet.do("print" if stream == "stdout" else "complain", word)
            life.print(word, stream)

    @rule(which=WHICH, part=PARTS, moment=MOMENT)
    def shim_or_guard_is_killed_while_a_job_prints_much(self, which: int, part: str, moment: float) -> None:
        if life := self.one_or_new(which, lambda life: life.listens and life.guard):
            size = 9_000 if life.pty else 300_000
            life.puppet.tell("flood", size)
            time.sleep(moment)
            self.strike_part(life, part)
            life.puppet.wait_until_done()
            life.print("x" * size)

    @rule(which=WHICH, whom=WHICH)
    def a_job_reads_a_line(self, which: int, whom: int) -> None:
        """One that was typed; or it waits for one, and is seen to."""
        if life := self.one_or_new(which, lambda life: life.listens):
            life.puppet.tell("read")
            if life.stdin or life.stdin_closed:
                life.puppet.wait_until_done()
                return life.read_line()
            life.waits = True
            seen = self.server(whom).call("wait_for_job", job_ids=[life.id], for_input=True, timeout_s=40)
            assert seen["met"], "it is seen to wait"

    @rule(which=WHICH, whom=WHICH, close=st.sampled_from([False, False, True]))
    def somebody_types(self, which: int, whom: int, close: bool) -> None:
        if life := self.one_or_new(which, lambda life: life.runs):
            word, server = self.word(), self.server(whom)
            if life.stdin_closed:
                with pytest.raises(Refused, match="has no open stdin"):
                    typed(server, life, f"{word}\n", close)
                return
            said = typed(server, life, f"{word}\n", close)
            life.is_typed(word, close)
            assert not said["stderr"]
            assert self.what_it_says_to_that(life).startswith(said["stdout"])

    @rule(which=WHICH, whom=WHICH)
    def somebody_closes_stdin(self, which: int, whom: int) -> None:
        if life := self.one_or_new(which, lambda life: life.runs and not life.stdin_closed):
            typed(self.server(whom), life, "", close=True)
            life.is_typed(None, close=True)
            self.what_it_says_to_that(life)

    def what_it_says_to_that(self, life: Life) -> str:
        if not life.waits:
            return ""
        before = len(life.printed["stdout"])
        life.puppet.wait_until_done()
        life.read_line()
        return life.printed["stdout"][before:]

    @rule(which=WHICH, whom=WHICH, rows=st.integers(1, 500), cols=st.integers(1, 1000))
    def somebody_resizes_a_terminal(self, which: int, whom: int, rows: int, cols: int) -> None:
        if life := self.one_or_new(which, lambda life: life.listens):
            server = self.server(whom)
            request = server.ask(
                "interact_with_job", job_id=life.id, input="", rows=rows, cols=cols, wait_s=ANSWER_S
            )
            if not life.pty:
                with pytest.raises(Refused, match="no terminal to resize"):
                    server.answer(request)
                return
            server.answer(request)
            life.puppet.do("size")
            life.print(f"{rows} {cols}")
            life.sizes.append([rows, cols])
            assert [size for _, *size in self.record(life, "terminal.json")["resizes"]] == life.sizes

    @rule(which=WHICH, flees=st.booleans())
    def a_job_starts_a_child(self, which: int, flees: bool) -> None:
        if life := self.one_or_new(which, lambda life: life.listens):
            order = "flee" if flees or life.pty else "leave"  # a terminal's session ends with its leader
            life.children.append(life.puppet.leave_child(order))

    @rule(which=WHICH)
    def a_child_says_a_word_and_ends(self, which: int) -> None:
        if life := self.one(which, lambda life: life.children):
            child, word = life.children.pop(0), self.word()
            child.speak(word)
            wait_until(lambda: not processes.alive([child.pid]), "the child ends")
            if life.shim:
                life.print(word)
                wait_until(lambda: self.has_all(life), "its word is kept")
            if life.ends and not life.children:
                life.shim = life.guard = 0

    # -- ending -------------------------------------------------------------------------------------

    @rule(
        which=WHICH,
        whom=WHICH,
        leaves=st.booleans(),
        how=st.sampled_from(["0", "1", "7", "255", "USR1", "KILL", "by a stranger"]),
        part=st.sampled_from([None, None, "shim", "guard"]),
        moment=MOMENT,
    )
    def a_job_ends(
        self, which: int, whom: int, leaves: bool, how: str, part: str | None, moment: float
    ) -> None:
        """While somebody waits for it, and perhaps while shim or guard is killed; it may leave a child behind."""
        if life := self.one_or_new(which, lambda life: life.runs):
            server, both = self.server(whom), [life.shim, life.guard]
            if leaves and life.listens:
                life.children.append(life.puppet.leave_child("flee"))
            waiting = {"job_ids": [life.id], "timeout_s": 40, "raw": True, "max_tokens": 100_000}
            asks, request = life.waits, server.ask("wait_for_job", **waiting)
            end = ended(life, how, self.word())
            if part and life.guard:
                time.sleep(moment)
                strike([both[part == "guard"]], self.mark)
            [waited] = server.answer(request)["jobs"]
            if asks and waited["condition"] == "input":  # the server saw it before it ended
                [waited] = server.call("wait_for_job", **waiting)["jobs"]
            life.end(end)
            assert waited["condition"] == "exit"
            life.check_state(waited["status"], waited.get("cause", "exited"), waited.get("exit_code"))
            assert {stream: waited[stream] for stream in life.printed} == life.printed
            if part and life.guard:
                self.find_parts(life)
                assert [life.shim, life.guard] == [both[part == "shim"], 0]

    @rule(which=WHICH, whom=WHICH, part=st.sampled_from([None, "shim", "guard"]))
    def a_job_times_out(self, which: int, whom: int, part: str | None) -> None:
        """Whichever of shim and guard lives sees to it."""
        if life := self.one(which, lambda life: life.doomed):
            if part and life.guard:
                strike([life.shim if part == "shim" else life.guard], self.mark)
            [waited] = self.server(whom).call("wait_for_job", job_ids=[life.id], timeout_s=40)["jobs"]
            assert waited["condition"] == "exit"
            if life.doomed:
                life.end(TIMED_OUT)

    @rule(which=WHICH, whom=WHICH, signal=st.sampled_from(["TERM", "INT", "KILL"]), grace_s=GRACES)
    def somebody_kills_a_job(self, which: int, whom: int, signal: str, grace_s: float) -> None:
        """One that runs, that has ended and left children behind, or that is lost: nothing of it stays.

        Not one that had ended when shim and guard were killed: whose its children are nobody tells any more.
        """
        if life := self.one(which, lambda life: not life.doomed and (life.is_lost or not life.abandoned)):
            ran, alive = life.runs, life.alive
            if life.puppet.mode == "polite" and signal == "TERM":
                grace_s = 5  # it takes its leave
            answer = self.server(whom).call("kill_job", job_id=life.id, signal=signal, grace_s=grace_s)
            word = "killed" if ran or alive else "already_terminated"
            assert (answer["status"], answer["processes"]) == (word, alive)
            self.is_killed(life, signal, grace_s)
            assert not processes.marked(life.id)

    @rule(
        which=WHICH,
        whom=WHICH,
        grace_s=GRACES,
        part=st.sampled_from(["shim", "guard", "server"]),
        moment=MOMENT,
    )
    def somebody_kills_a_job_while_a_part_of_ours_is_killed(
        self, which: int, whom: int, grace_s: float, part: str, moment: float
    ) -> None:
        if life := self.one_or_new(
            which, lambda life: life.runs and life.guard and life.puppet.mode != "polite"
        ):
            server, alive = self.server(whom), life.alive
            request = server.ask("kill_job", job_id=life.id, grace_s=grace_s)
            time.sleep(moment)
            if part == "server":  # perhaps before it has heard of it: another has to say it again
                self.end_server(whom, kill=True)
                self.server(0).call("kill_job", job_id=life.id, grace_s=grace_s)
            else:
                strike([life.shim if part == "shim" else life.guard], self.mark)
                answer = server.answer(request)
                assert answer["status"] == "killed"
                assert answer["processes"] <= alive  # who was asked first may not have lived to tell
            self.is_killed(life, "TERM", grace_s)
            assert not processes.marked(life.id)

    def is_killed(self, life: Life, signal: str, grace_s: float) -> None:
        if life.runs:
            life.end(*ends_by_kill(life, signal, grace_s))
        life.children.clear()
        life.pid = life.shim = life.guard = 0

    # -- shim and guard -----------------------------------------------------------------------------

    @rule(which=WHICH, part=PARTS)
    def shim_or_guard_is_killed(self, which: int, part: str) -> None:
        """The other one goes on: with a job that runs, or with the children of one that has ended."""
        if life := self.one_or_new(which, lambda life: life.guard and not life.doomed):
            self.strike_part(life, part)

    @rule(which=WHICH, shim_first=st.booleans())
    def shim_and_guard_are_killed(self, which: int, shim_first: bool) -> None:
        """Nobody knows any more how the job ends, and nobody guesses. An end that is on record stays."""
        if life := self.one_or_new(which, lambda life: life.shim and not life.doomed):
            parts = [pid for pid in (life.guard, life.shim) if pid]
            strike(parts[::-1] if shim_first else parts, self.mark)
            self.lose(life)

    # -- reading ------------------------------------------------------------------------------------

    @rule(which=WHICH, whom=WHICH)
    def somebody_reads_all(self, which: int, whom: int) -> None:
        if life := self.one(which, lambda _: True):
            read = self.server(whom).call("get_job_output", job_id=life.id, raw=True)
            assert all(text.startswith(read[stream]) for stream, text in life.printed.items())
            wait_until(lambda: self.has_all(life), "all is in the log")
            read = self.server(whom).call("get_job_output", job_id=life.id, raw=True)
            assert {stream: read[stream] for stream in life.printed} == life.printed

    @rule(which=WHICH, whom=WHICH)
    def somebody_reads_on(self, which: int, whom: int) -> None:
        """From the cursor of whoever read before."""
        if life := self.one(which, lambda _: True):
            read = self.server(whom).call("get_job_output", job_id=life.id, since=life.cursor, raw=True)
            life.cursor = read["cursor"]
            for stream, text in life.printed.items():
                life.read_so_far[stream] += read[stream]
                assert text.startswith(life.read_so_far[stream])

    @rule(which=WHICH, whom=WHICH, lines=st.integers(1, 4))
    def somebody_reads_the_tail(self, which: int, whom: int, lines: int) -> None:
        if life := self.one(which, lambda _: True):
            wait_until(lambda: self.has_all(life), "all is in the log")
            tail = self.server(whom).call("tail_job_output", job_id=life.id, lines=lines, raw=True)
            for stream, text in life.printed.items():
                last = text.splitlines(keepends=True)[-lines:]
                if all(len(line) <= LINE_BYTES for line in last):
                    assert tail[stream] == "".join(last)
                else:  # of a long line its two ends
                    assert tail[stream].endswith(last[-1][-LINE_BYTES // 4 :])

    @rule(which=WHICH, whom=WHICH, back=WHICH)
    def somebody_searches(self, which: int, whom: int, back: int) -> None:
        if life := self.one(which, lambda life: life.words):
            word = pick(life.words[::-1], back)
            wait_until(lambda: all(map(self.has_all, self.some(lambda _: True))), "all is in the logs")
            found = self.server(whom).call("search_job_output", pattern=word, literal=True, limit=500)
            lines = [(life.id, line) for life in self.some(lambda _: True) for line in life.lines_with(word)]
            assert found["count"] == len(lines)
            assert sorted((match["job_id"], match["line"]) for match in matches(found)) == sorted(lines)

    @rule(whom=WHICH, limit=st.integers(1, 4))
    def somebody_pages_through_the_list(self, whom: int, limit: int) -> None:
        ids: list[str] = []
        page = self.server(whom).call("list_jobs", limit=limit)
        while True:
            assert len(page["jobs"]) <= limit
            ids += [job["job_id"] for job in page["jobs"]]
            if "next_cursor" not in page:
                break
            page = self.server(whom).call("list_jobs", limit=limit, cursor=page["next_cursor"])
        assert ids == self.listed_ids()

    # -- cleaning up --------------------------------------------------------------------------------

    @rule(keep_jobs=st.integers(0, 3), keep_days=st.sampled_from([7, 7, 0]))
    def somebody_cleans_up(self, keep_jobs: int, keep_days: int) -> None:
        """What is too old or too many goes; what runs stays, and what has processes and a shim."""
        while self.some(lambda life: life.doomed):
            self.a_job_times_out(which=0, whom=0, part=None)
        ended, store = self.some(lambda life: life.ends and not life.shim), self.fresh_door().store
        wait_until(lambda: not any(store.has_shim(life.id) for life in ended), "their shims have left")
        retention.clean(store, keep_jobs, keep_days, interval_s=0)
        kept = min(len(ended), keep_jobs) if keep_days else 0
        for life in ended[: len(ended) - kept]:
            life.removed = True
            self.unwatched += [pid for pid in (life.pid, *(child.pid for child in life.children)) if pid]

    @rule(which=WHICH, whom=WHICH)
    def somebody_asks_for_a_removed_job(self, which: int, whom: int) -> None:
        if removed := [life for life in self.lives if life.removed]:
            job_id, server = pick(removed, which).id, self.server(whom)
            has_processes = bool(sweep.members(job_id))  # it was lost, and they live on
            answer = server.call("kill_job", job_id=job_id)
            assert answer["status"] == ("killed" if has_processes else "not_found")
            for tool in ("get_job_status", "get_job_output", "tail_job_output"):
                with pytest.raises(Refused, match="not found"):
                    server.call(tool, job_id=job_id)


def typed(server: Server, life: Life, text: str, close: bool) -> dict[str, Any]:
    """Until all of it is taken: a busy machine may need a second call."""
    while True:
        answer = server.call(
            "interact_with_job",
            job_id=life.id,
            input=text,
            add_newline=False,
            close_stdin=close,
            wait_s=ANSWER_S,
            raw=True,
        )
        text = text[answer["accepted_bytes"] :]
        if not text:
            return answer


def ended(life: Life, how: str, last_word: str) -> End:
    """What it is told, and what must come of it."""
    if life.waits or how == "by a stranger":
        processes.send(life.pid, 9)
        return End("signaled", signal="SIGKILL")
    life.print(last_word)
    if how.isdigit():
        life.puppet.tell("exit", f"{how} {last_word}")
        return End("exited", int(how))
    life.puppet.tell("die", f"{how} {last_word}")
    return End("signaled", signal=f"SIG{how}")


def ends_by_kill(life: Life, signal: str, grace_s: float) -> set[End]:
    if life.puppet.mode == "polite" and signal == "TERM":
        life.print("bye")
        return {End("killed", 9)}
    is_deaf = life.puppet.mode == "stubborn" and signal == "TERM"
    first = "KILL" if is_deaf else signal
    return {End("killed", signal=f"SIG{name}") for name in ((first, "KILL") if grace_s == 0 else (first,))}


Step = tuple[Callable[..., None], dict[str, Any]]
FIRST = {"which": 0, "whom": 0}

STORIES: dict[str, list[Step]] = {
    "a child outlives its job, and then the shim": [
        (LifeOfJobs.a_job_ends, {**FIRST, "leaves": True, "how": "7", "part": None, "moment": 0.0}),
        (LifeOfJobs.shim_or_guard_is_killed, {"which": 0, "part": "shim"}),
        (LifeOfJobs.somebody_cleans_up, {"keep_jobs": 0, "keep_days": 0}),
        (LifeOfJobs.a_child_says_a_word_and_ends, {"which": 0}),
        (LifeOfJobs.somebody_cleans_up, {"keep_jobs": 0, "keep_days": 7}),
        (LifeOfJobs.somebody_asks_for_a_removed_job, FIRST),
    ],
    "stdin is closed, and stays closed when the guard takes over": [
        (LifeOfJobs.somebody_types, {**FIRST, "close": True}),
        (LifeOfJobs.shim_or_guard_is_killed, {"which": 0, "part": "shim"}),
        (LifeOfJobs.somebody_types, {**FIRST, "close": False}),
        (LifeOfJobs.a_job_reads_a_line, FIRST),
        (LifeOfJobs.a_job_reads_a_line, FIRST),
        (LifeOfJobs.a_job_ends, {**FIRST, "leaves": False, "how": "0", "part": None, "moment": 0.0}),
    ],
    "an end stays, though its child is killed later": [
        (LifeOfJobs.a_job_ends, {**FIRST, "leaves": True, "how": "0", "part": "shim", "moment": 0.0}),
        (LifeOfJobs.somebody_kills_a_job, {**FIRST, "signal": "TERM", "grace_s": 0.0}),
        (LifeOfJobs.somebody_kills_a_job, {**FIRST, "signal": "TERM", "grace_s": 0.0}),
    ],
    "many visitors come, and go": [
        *[(LifeOfJobs.somebody_types, {**FIRST, "close": False})] * 6,
        (LifeOfJobs.a_job_reads_a_line, FIRST),
        (LifeOfJobs.somebody_reads_on, FIRST),
    ],
    "a terminal goes on with its guard": [
        (LifeOfJobs.somebody_resizes_a_terminal, {"which": 1, "whom": 0, "rows": 40, "cols": 100}),
        (LifeOfJobs.a_job_reads_a_line, FIRST),
        (LifeOfJobs.shim_or_guard_is_killed, {"which": 0, "part": "shim"}),
        (LifeOfJobs.somebody_types, {**FIRST, "close": True}),
        (LifeOfJobs.somebody_resizes_a_terminal, {**FIRST, "rows": 3, "cols": 7}),
        (LifeOfJobs.somebody_kills_a_job, {**FIRST, "signal": "TERM", "grace_s": 0.1}),
    ],
    "a kill is a kill, though the shim is killed over it": [
        (LifeOfJobs.somebody_starts_a_job, {"whom": 0, "pty": False, "mode": "stubborn", "timeout_s": None}),
        (
            LifeOfJobs.somebody_kills_a_job_while_a_part_of_ours_is_killed,
            {**FIRST, "grace_s": 0.5, "part": "shim", "moment": 0.1},
        ),
    ],
    "what is lost is listed, and swept": [
        (LifeOfJobs.a_job_starts_a_child, {"which": 0, "flees": False}),
        (LifeOfJobs.a_job_prints, {"which": 0, "stream": "stderr"}),
        (LifeOfJobs.shim_and_guard_are_killed, {"which": 0, "shim_first": True}),
        (LifeOfJobs.somebody_kills_a_job, {**FIRST, "signal": "TERM", "grace_s": 0.0}),
        (LifeOfJobs.somebody_reads_all, FIRST),
    ],
    "a job that only starts is checked like any other": [  # 2 is a polite one, which this step does not want
        (
            LifeOfJobs.somebody_kills_a_job_while_a_part_of_ours_is_killed,
            {"which": 2, "whom": 0, "grace_s": 0.1, "part": "shim", "moment": 0.0},
        ),
    ],
    "a timeout comes true without the shim": [
        (LifeOfJobs.somebody_starts_a_job_that_soon_times_out, {"whom": 0, "pty": False}),
        (LifeOfJobs.a_job_times_out, {**FIRST, "part": "shim"}),
    ],
    "a slot is free when its job has ended, and not before": [
        (LifeOfJobs.somebody_starts_a_job_by_its_name, {"whom": 0, "name": "web", "if_running": "new"}),
        (LifeOfJobs.somebody_starts_a_job_by_its_name, {"whom": 0, "name": "web", "if_running": "new"}),
        (LifeOfJobs.one_more_server, {}),
        (LifeOfJobs.somebody_starts_a_job_by_its_name, {"whom": 1, "name": "db", "if_running": "new"}),
        (LifeOfJobs.somebody_starts_a_job_by_its_name, {"whom": 0, "name": "db", "if_running": "new"}),
        (LifeOfJobs.somebody_starts_a_job_by_its_name, {"whom": 1, "name": "db", "if_running": "reuse"}),
        (LifeOfJobs.somebody_starts_a_job_by_its_name, {"whom": 0, "name": "web", "if_running": "refuse"}),
        (LifeOfJobs.somebody_starts_a_job_by_its_name, {"whom": 1, "name": "web", "if_running": "restart"}),
        (LifeOfJobs.a_job_ends, {**FIRST, "leaves": True, "how": "KILL", "part": "shim", "moment": 0.0}),
        (LifeOfJobs.somebody_starts_a_job_by_its_name, {"whom": 0, "name": "db", "if_running": "new"}),
        (LifeOfJobs.somebody_pages_through_the_list, {"whom": 1, "limit": 2}),
    ],
}


@pytest.fixture(scope="module")
def room() -> Iterator[ServerRoom]:
    with ServerRoom() as room:
        yield room


@pytest.mark.parametrize("story", STORIES)
def test_a_story_goes_as_the_model_says(story: str, room: ServerRoom) -> None:
    """The steps that are most worth it, for sure and in this order; Hypothesis makes up its own below."""
    LifeOfJobs.room = room
    life = LifeOfJobs()
    try:
        life.begin(executed=False)
        for step, arguments in STORIES[story]:
            step(life, **arguments)
            life.every_door_tells_what_the_model_says()
    finally:
        life.teardown()


@pytest.mark.timeout(300 + 60 * EXAMPLES)
def test_every_door_tells_what_the_model_says_whatever_is_killed(room: ServerRoom) -> None:
    LifeOfJobs.room = room
    run_state_machine_as_test(LifeOfJobs, settings=SETTINGS)

"""Where the model test takes place: a home, its servers and jobs, what always holds, and an end without leaks."""

import contextlib
import os
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from hypothesis.errors import StopTest
from hypothesis.stateful import RuleBasedStateMachine, invariant

from bgjob.api import Jobs, Shown, open_jobs
from bgjob.core.errors import JobNotFound
from bgjob.home import jobdir
from bgjob.mcp.answers import plain
from bgjob.mcp.tools import get_job_status
from bgjob.system import processes
from tests.chaos.model_jobs import (
    Life,
    carriers,
    described,
    locked_slots,
    name_of,
    open_descriptors,
    parent_of,
    strike,
)
from tests.chaos.model_puppet import Puppet
from tests.chaos.model_servers import Refused, Server, ServerRoom
from tests.support.waiting import wait_until

SLOTS = 3
SETTINGS = {
    "MCP_BG_MAX_JOBS": str(SLOTS),
    "MCP_BG_MAX_RESPONSE": "10MB",
    "MCP_BG_KEEP_JOBS": "0",  # they promise nothing, and do not clean: the model does, by what it likes to keep
    "MCP_BG_KEEP_DAYS": "0",
    "MCP_BG_CLEANUP_INTERVAL": "86400",
}
DESCRIPTORS_TO_COME = 4  # of a shim that has just begun: the log, its runs, a pidfd, and a file for a moment
MODES = ["plain", "stubborn", "polite"]
Thing = TypeVar("Thing")


def pick(things: list[Thing], which: int) -> Thing:
    return things[which % len(things)]


class World(RuleBasedStateMachine):
    room: ServerRoom

    def __init__(self) -> None:
        super().__init__()
        self.descriptors_before = open_descriptors()
        self.scratch = Path(tempfile.mkdtemp(prefix="bgjob-model-"))
        self.home = self.scratch / "home"
        self.mark = f"BGJOB_HOME={self.home}"  # all our processes and all jobs carry it
        self.environment = {**os.environ, **SETTINGS, "BGJOB_HOME": str(self.home)}
        self.door = self.fresh_door()
        self.servers: list[tuple[str, Server]] = []  # with the mark that their zygotes carry
        self.lives: list[Life] = []  # in the order of their start
        self.puppets: list[Puppet] = []
        self.unwatched: list[int] = []  # processes of jobs that nobody can find any more
        self.has_struck_spares = self.idle = False
        self.abandoned_drafts = self.count = 0

    # -- who there is -------------------------------------------------------------------------------

    def some(self, is_so: Callable[[Life], object]) -> list[Life]:
        return [life for life in self.lives if not life.removed and is_so(life)]

    def one(self, which: int, is_so: Callable[[Life], object]) -> Life | None:
        """If there is none, the step is a step on the spot.

        And no precondition: who there is may depend on a race, and what Hypothesis draws next must not.
        """
        lives = self.some(is_so)
        self.idle = not lives
        return pick(lives, which) if lives else None

    def running(self) -> int:
        return len(self.some(lambda life: life.runs))

    def about_to_end(self) -> int:
        """Those whose time is up soon, or is by now."""
        return len(self.some(lambda life: life.doomed))

    def word(self) -> str:
        """One that nobody has said yet."""
        self.count += 1
        return f"w{self.count}w"

    def puppet(self, mode: str) -> Puppet:
        self.puppets.append(puppet := Puppet(self.scratch / f"puppet-{len(self.puppets)}", mode))
        return puppet

    def record(self, life: Life, name: str) -> dict[str, Any]:
        return jobdir.read_record(str(self.home / "jobs" / life.id / name)) or {}

    def fresh_door(self) -> Jobs:
        """One that remembers nothing."""
        return open_jobs(self.environment, many=False)

    # -- servers ------------------------------------------------------------------------------------

    def server(self, which: int) -> Server:
        return pick(self.servers, which)[1]

    def open_server(self, executed: bool = False) -> None:
        name, value = "BGJOB_MODEL_SERVER", f"{self.scratch.name}-{self.word()}"
        server = self.room.server(
            {**self.environment, name: value}, self.scratch / "stderr", executed=executed
        )
        self.servers.append((f"{name}={value}", server))

    def end_server(self, which: int, *, kill: bool) -> None:
        """Another comes where it was the last."""
        mark, server = pick(self.servers, which)
        self.servers.remove((mark, server))
        if kill:
            server.kill()
        else:
            self.close_server(server)
        if not self.servers:
            self.open_server()

    def close_server(self, server: Server) -> None:
        wait_until(
            lambda: server.descriptors() <= server.most_descriptors,
            "a server has let go of all",
            then=lambda: ", ".join(server.held()),
        )
        server.close()

    def spare_parts(self, mark: str) -> dict[str, list[int]]:
        """Of a server: its zygote, and the guard and the shim that are there for the next job.

        Not a shim whose guard was struck before: both dead is more than a job survives.
        """
        named = [pid for pid in carriers(mark) if name_of(pid) == "bgjob-zygote"]
        zygotes = [pid for pid in named if parent_of(pid) not in named]  # and not a guard that it just forked
        shims: list[int] = []

        def look() -> bool:
            shims[:] = [pid for pid in carriers(mark) if parent_of(pid) not in zygotes and self.is_spare(pid)]
            return bool(shims)

        if zygotes:
            wait_until(look, "the zygote has a spare", lambda: described(carriers(mark)))
        pairs = {pid: parent_of(pid) for pid in shims if name_of(parent_of(pid)) == "bgjob-guard"}
        return {"zygote": zygotes, "guard": list(pairs.values()), "shim": list(pairs)}

    def is_spare(self, pid: int) -> bool:
        """A shim that has a job is in the job's directory, and a guard has a shim."""
        if name_of(pid) not in ("bgjob-guard", "bgjob-shim") or processes.children(pid):
            return False
        with contextlib.suppress(OSError):
            return not Path(f"/proc/{pid}/cwd").readlink().is_relative_to(self.home)
        return False

    # -- starting -----------------------------------------------------------------------------------

    def one_or_new(self, which: int, is_so: Callable[[Life], object]) -> Life | None:
        """For what only a living job can do. Else most steps would be on the spot.

        A new job is a step even if it is none of those that are wanted: its start is checked like any other.
        """
        must_start = not self.some(is_so) and self.running() + self.about_to_end() < SLOTS
        if must_start:
            server, puppet, pty = self.server(which), self.puppet(pick(MODES, which)), bool(which % 2)
            request = server.ask("execute_command", command=puppet.command, pty=pty)
            self.is_answered(lambda: server.answer(request), puppet, pty=pty)
        life = self.one(which, is_so)
        self.idle = self.idle and not must_start
        return life

    def is_answered(
        self,
        answer: Callable[[], dict[str, Any]],
        puppet: Puppet,
        *,
        pty: bool = False,
        name: str | None = None,
        doomed: bool = False,
    ) -> None:
        """It starts exactly if there is a free slot."""
        running, about_to_end = self.running(), self.about_to_end()
        try:
            job_id = answer()["job_id"]
        except Refused as refusal:
            if "Job limit reached" in str(refusal) and running + about_to_end >= SLOTS:
                return
            raise
        assert running < SLOTS, "there was no free slot"
        self.is_started(Life(job_id, puppet, pty=pty, name=name, doomed=doomed))

    # -- shim and guard of a job --------------------------------------------------------------------

    def is_started(self, life: Life) -> None:
        self.lives.append(life)
        if life.doomed:
            life.puppet.may_be_born = True
            wait_until(lambda: bool(self.record(life, "run.json")), f"the run of {life.id} is recorded")
            life.shim = self.record(life, "run.json")["shim_pid"]
            life.guard = parent_of(life.shim)  # or whoever took it in, whom we do not harm
            return
        pid = life.puppet.born()
        self.find_parts(life)
        assert life.pid == pid
        assert life.guard or self.has_struck_spares, "a job without a guard"

    def find_parts(self, life: Life) -> None:
        def look() -> bool:
            life.shim = self.record(life, "run.json").get("shim_pid", 0)
            return bool(processes.alive([life.shim]))

        wait_until(look, f"{life.id} has a shim")
        life.pid = 0 if life.ends else self.record(life, "run.json")["pid"]
        above = parent_of(life.shim)
        is_guard = processes._carries(above, self.mark.encode()) and name_of(above) != "bgjob-zygote"
        life.guard = above if is_guard else 0
        life.most_descriptors = open_descriptors(life.shim) + DESCRIPTORS_TO_COME

    def strike_part(self, life: Life, part: str) -> None:
        """Of a job that has both: the other goes on."""
        left = life.guard if part == "shim" else life.shim
        strike([life.shim if part == "shim" else life.guard], self.mark)
        self.find_parts(life)
        assert (life.shim, life.guard) == (left, 0)

    def lose(self, life: Life) -> None:
        """Shim and guard are dead."""
        life.lose()
        if not life.is_lost:
            self.unwatched += [child.pid for child in life.children]
            return life.children.clear()
        door = self.fresh_door()  # a process that is about to end may have lost its environment already
        wait_until(lambda: len(door.processes(life.id)) == life.alive, "who minds a hang-up is gone")
        read = self.fresh_door().output(life.id, shown=Shown(raw=True))
        life.keep_only({"stdout": read.stdout, "stderr": read.stderr})

    def has_all(self, life: Life) -> bool:
        """Its log; what a running job has printed may be in its pipe for another moment."""
        return life.doomed or self.fresh_door().status(life.id).output_bytes >= life.size

    # -- what always holds --------------------------------------------------------------------------

    @invariant()
    def every_door_tells_what_the_model_says(self) -> None:
        if self.idle or not self.servers:
            self.idle = False
            return
        self.check_slots()
        wait_until(
            lambda: all(map(self.has_let_go, self.some(lambda life: life.runs))), "no shim holds visitors"
        )
        for door in (self.door, self.fresh_door()):
            for life in self.lives:
                self.check_at(door, life)
        for _, server in self.servers:
            self.check_list(server)
        self.count += 1
        for life in self.some(lambda life: True):
            life.check(self.server(self.count).call("get_job_status", job_id=life.id))
        self.check_slots()  # again: who was about to end may have, and the next start counts on its slot

    def has_let_go(self, life: Life) -> bool:
        return open_descriptors(life.shim) <= life.most_descriptors

    def check_slots(self) -> None:
        """Every running job has one, and nobody else: an end is on disk a moment before its slot is free."""
        running, doomed = self.running(), self.about_to_end()
        assert running <= locked_slots(self.home) <= SLOTS
        wait_until(lambda: locked_slots(self.home) <= running + doomed, "who has ended has no slot")

    def check_at(self, door: Jobs, life: Life) -> None:
        try:
            told = plain(get_job_status(door, life.id))
        except JobNotFound:
            assert life.removed, f"{life.id} has vanished"
        else:
            life.check(told)

    def check_list(self, server: Server) -> None:
        told = server.call("list_jobs", limit=1000)["jobs"]
        assert [job["job_id"] for job in told] == self.listed_ids()
        for job, life in zip(told, reversed(self.some(lambda life: True)), strict=True):
            life.check_state(job["status"], job.get("cause", "exited"), job.get("exit_code"))

    def listed_ids(self) -> list[str]:
        return [life.id for life in reversed(self.lives) if not life.removed]

    # -- the end ------------------------------------------------------------------------------------

    def teardown(self) -> None:
        has_failed = sys.exc_info()[0] not in (None, StopTest)
        if has_failed:  # at once: a race may not repeat itself, and then Hypothesis would tell of that alone
            traceback.print_exc()
            print(*self.lives, sep="\n", file=sys.stderr)
        try:
            if not has_failed:
                self.end_all()
                self.check_that_nothing_is_left()
        finally:
            self.sweep()
        if not has_failed:
            assert open_descriptors() == self.descriptors_before, "a descriptor of ours has leaked"

    def end_all(self) -> None:
        strike(self.unwatched, self.mark)
        for life in self.some(lambda life: True):
            self.fresh_door().kill(life.id, grace_s=0)
        while self.servers:
            self.close_server(self.servers.pop()[1])
        wait_until(lambda: not carriers(self.mark), "every process of this home is gone")

    def check_that_nothing_is_left(self) -> None:
        assert locked_slots(self.home) == 0
        for puppet in self.puppets:
            assert puppet.births() <= puppet.may_be_born, "a job was started twice, or unasked"
        assert not list(self.home.glob("trash/*"))
        assert len(list(self.home.glob("drafts/*"))) <= self.abandoned_drafts
        assert not list(self.home.glob("jobs/*/shim-error.txt"))
        for life in self.some(lambda life: not life.abandoned and not life.is_lost):
            directory = self.home / "jobs" / life.id
            left = [path.name for path in directory.iterdir() if path.suffix == ".new" or path.name == "ctl"]
            assert not left, f"{life.id} has left {left}"
        assert (self.scratch / "stderr").read_text() == "", "a server has complained"

    def sweep(self) -> None:
        """Whatever happened: nothing of ours stays."""
        for _, server in self.servers:
            with contextlib.suppress(OSError, AssertionError):
                server.kill()
        while pids := carriers(self.mark):
            strike(pids, self.mark)
        for puppet in self.puppets:
            puppet.close()
        self.door.close()
        shutil.rmtree(self.scratch)

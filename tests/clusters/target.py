"""Where the jobs of a test run: on this machine or on a target; and the home from which they are steered."""

import contextlib
import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bgjob.api import Conditions, Jobs, JobStatus, Waited, open_jobs
from bgjob.core.frozen import NOTHING
from bgjob.core.job import Job, Queued, State
from bgjob.system import processes
from tests.clusters.engine import Engine
from tests.support.homes import end_all_jobs
from tests.support.process_table import every_pid, wait_until_gone
from tests.support.server import Server
from tests.support.waiting import PATIENCE_S, wait_until

NAME = "there"
"""What the target is called, if it is one."""
MOST_JOBS = 100
RELAY = "bgjob-relay"


class Target(contextlib.AbstractContextManager["Target"]):
    """A home with one target at most, and the verbs on it."""

    def __init__(
        self,
        engine: Engine,
        directory: Path,
        max_jobs: int = MOST_JOBS,
        far_home: Path | None = None,
        keys: Mapping[str, object] = NOTHING,
        **settings: str,
    ) -> None:
        """`keys`: further ones of the target's entry in targets.toml."""
        self.engine, self.kind, self.directory = engine, engine.kind, directory
        self.home, self.far_home = directory / "home", far_home or directory / "far"
        table = {**engine.table(self.far_home, max_jobs), **keys}
        self.name = NAME if table else None
        write_targets(directory / "config", {NAME: table} if table else {})
        self.settings = {
            "XDG_CONFIG_HOME": str(directory / "config"),
            **engine.environ,
            "MCP_BG_MAX_JOBS": str(MOST_JOBS if table else max_jobs),
            **settings,
        }
        self.environ = {**os.environ, "BGJOB_HOME": str(self.home), **self.settings}
        self._opened = contextlib.ExitStack()
        self.jobs = self.open()

    def __exit__(self, *_: object) -> None:
        self.end_jobs()
        self._opened.close()
        end_relays(self.home)
        end_far_processes(self.far_home)

    def open(self, **settings: str) -> Jobs:
        """The verbs once more, as another process would have them."""
        return self._opened.enter_context(contextlib.closing(open_jobs({**self.environ, **settings})))

    def end_jobs(self) -> None:
        end_all_jobs(self.home, self.environ)

    @property
    def where(self) -> dict[str, Any]:
        """What a caller adds to a start."""
        return {"target": self.name} if self.name else {}

    # -- jobs ---------------------------------------------------------------------------------------

    def begin(self, command: str, **asked: Any) -> Job:
        return self.jobs.execute(command, **self.where, **asked)

    def start(self, command: str, **asked: Any) -> str:
        """Its id. A cluster takes a moment until it starts a job for which it has room."""
        job_id = self.begin(command, **asked).id
        if not asked.get("queue"):
            self.wait_until_started(job_id)
        return job_id

    def wait_until_started(self, job_id: str) -> None:
        """Here, too: a cluster is asked from time to time."""
        wait_until(lambda: not self._is_queued(job_id), "it has started", every_s=0.02)

    def _is_queued(self, job_id: str) -> bool:
        return isinstance(self.jobs.store.load(job_id).state, Queued)

    def wait(self, job_id: str, **until: Any) -> Waited:
        """Until it has ended, or `until`, as wait_for_job words it."""
        (waited,) = self.jobs.wait_for([job_id], **{"timeout_s": PATIENCE_S, **until})
        return waited

    def ended(self, job_id: str) -> JobStatus:
        """Once it has ended."""
        (waited,) = self.jobs.wait([job_id], Conditions(past_prompts=True), timeout_s=PATIENCE_S)
        assert waited.came
        assert waited.came.condition == "exit"
        return waited.status

    def state(self, job_id: str) -> State:
        """How it has ended, once it has."""
        return self.ended(job_id).job.state

    def printed(self, job_id: str) -> bytes:
        """All of it, to its end."""
        return b"".join(chunk.data for chunk in self.jobs.follow(job_id, wait=True))

    def wait_until_printed(self, job_id: str, text: str) -> None:
        waited = self.wait(job_id, pattern=text, literal=True)
        assert waited.came
        assert waited.came.condition == "pattern", waited

    # -- as an MCP client would ---------------------------------------------------------------------

    def executed(self, server: Server, command: str, **arguments: Any) -> dict[str, Any]:
        return server.call("execute_command", command=command, **self.where, **arguments)

    # -- the line -----------------------------------------------------------------------------------

    def cut_line(self) -> None:
        self.engine.cut_line()

    def unreachable(self) -> contextlib.AbstractContextManager[None]:
        return self.engine.unreachable()

    def pid_here(self, job_id: str, pid_there: int) -> int:
        return self.engine.pid_here(job_id, pid_there)


def write_targets(config_home: Path, tables: Mapping[str, Mapping[str, object]]) -> None:
    """The file targets.toml, beside the config file; none where there are no targets."""
    directory = config_home / "bgjob"
    directory.mkdir(parents=True, exist_ok=True)
    text = "".join(f"[{name}]\n{_toml(table)}\n" for name, table in tables.items())
    if text:
        (directory / "targets.toml").write_text(text)


def _toml(table: Mapping[str, object]) -> str:
    return "".join(f"{key} = {_value(value)}\n" for key, value in table.items())


def _value(value: object) -> str:
    """Texts, numbers and lists of them are written as in JSON."""
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{key} = {_value(each)}' for key, each in value.items())} }}"
    return json.dumps(value, ensure_ascii=False)


# -- what must not be left --------------------------------------------------------------------------


def relays(home: Path) -> list[int]:
    """Keeper and worker of the relays of this home."""
    return [pid for pid in every_pid() if processes.name_of(pid) == RELAY and _works_for(pid, home)]


def _works_for(pid: int, home: Path) -> bool:
    command = (processes.read_if_there(f"/proc/{pid}/cmdline") or b"").split(b"\0")
    return str(home).encode() in command or Path(processes.link_target(f"/proc/{pid}/cwd")) == home


def end_relays(home: Path) -> None:
    """Without jobs they would end by themselves, when they have been idle for a while."""
    for pid in relays(home):
        processes.send(pid, signal.SIGKILL)
    for pid in relays(home):
        wait_until_gone(pid)


def end_far_processes(home: Path) -> None:
    """Of the jobs in the home over there, which are not to be left after a test that failed."""
    ids = [path.name for jobs in ("jobs/*", "*/jobs/*") for path in home.glob(jobs)]

    def are_gone() -> bool:
        left = [pid for job_id in ids for pid in processes.marked(job_id)]
        for pid in left:
            processes.send(pid, signal.SIGKILL)
        return not left

    if ids:
        wait_until(are_gone, "no process of a job is left")

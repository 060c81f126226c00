"""Everything that reads a home, let loose on one that was mutated: python -m tests.chaos.state_readers PART PARTS

Each mutation has a copy of the home, and a process of its own with little memory and little time. What goes wrong in
it is printed, a line of JSON each; then {"tried": how many mutations there were}.
"""

import contextlib
import ctypes
import faulthandler
import fcntl
import gc
import io
import json
import os
import re
import resource
import select
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyte  # noqa: F401 - before the process becomes a user who may not read the interpreter's files

from bgjob.api import Jobs, connect, context, interact, kill
from bgjob.api import signal as signal_job
from bgjob.core.config import settings_from
from bgjob.core.errors import BgjobError
from bgjob.core.job import status_word
from bgjob.home import sessions, target_dir, watch_registry
from bgjob.link.spawn import Spawner
from bgjob.mcp import tasks
from bgjob.mcp.server import SERVER
from bgjob.protocol.jsonrpc import RpcError
from bgjob.protocol.request import Client, Request
from bgjob.protocol.revisions import STATELESS
from bgjob.remote import client
from bgjob.shim.dispatcher import Dispatcher
from bgjob.store import quota, retention
from bgjob.store.store import Store
from bgjob.watch import watcher
from bgjob.watch.ends import tell_ends
from tests.chaos.state_mutations import (
    BYSTANDER,
    CLIENT,
    PLAIN,
    QUEUED,
    RUNNING,
    SESSION,
    Mutation,
    all_mutations,
    apply,
    make_home,
    outside,
)
from tests.support.foreign import VERBS
from tests.support.tools import call_tool, text_of

READER_S, READER_CPU_S, MUTATION_S = 240.0, 12.0, 900.0
MEMORY_BYTES, RESIDENT_BYTES = 1280 << 20, 640 << 20  # beyond what the process has when it begins
NOBODY = 65534
REFUSED = ("screen", "interact", "resize", "find by name", "start one of a name")  # of a job that has ended
SETTINGS = {"MCP_BG_KEEP_DAYS": "1000", "MCP_BG_GROUPS": "ci=2"}


class World:
    """What a reader is given."""

    def __init__(self, home: Path, spawner: Spawner) -> None:
        self.home, self.spawner = str(home), spawner
        self.jobs = opened(self.home, spawner)


Reader = Callable[[World], object]


class TooLong(BaseException):
    """Nothing that a reader may catch."""


# -- what reads ---------------------------------------------------------------------------------------------


def lookers(mutation: Mutation) -> Iterator[tuple[str, Reader]]:
    """They leave what they find."""
    for verb, (tool, arguments) in VERBS.items():
        if verb != "kill":
            yield verb, _tool(tool, **_with_id(tool, arguments, mutation.job_id))
    yield "list", _tool("list_jobs")
    yield "list the running ones", _tool("list_jobs", status="running", limit=2)
    yield "search all", _tool("search_job_output", pattern="out")
    yield "events", _tool("job_events")
    yield "events, from the beginning", _tool("job_events", since="1.0")
    yield "events of one", _tool("job_events", job_ids=[mutation.job_id], kinds=["ended"])
    for job_id in (RUNNING, PLAIN):
        yield f"the task of {job_id[:8]}", partial(_look_at_task, job_id)
    yield "what hooks look at", _look_as_hook
    yield "find", lambda world: world.jobs.find_typed(mutation.job_id[:9])
    yield "find by name", lambda world: world.jobs.find("no such name")
    yield "follow", lambda world: deque(islice(world.jobs.follow(mutation.job_id, wait=False), 1000), 0)
    yield "prioritize", lambda world: world.jobs.prioritize(QUEUED, 7)
    if mutation.is_of_one_job:
        yield "the bystander", _look_at_bystander


def doers(mutation: Mutation) -> Iterator[tuple[str, Reader]]:
    yield "the queue's drainer", _drain
    yield "the watcher", _watch
    if not mutation.is_of_one_job:
        yield "start", _tool("execute_command", command="echo hello", wait_s=10)
        yield "start one of a name", _tool("execute_command", command=":", name="a", if_running="reuse")
    yield "kill", _tool("kill_job", job_id=mutation.job_id, grace_s=0.1)
    yield "clean", lambda world: retention.clean(Store(world.home), keep_jobs=3, keep_days=99, interval_s=0)
    yield "list what is left", _tool("list_jobs")
    yield "start in a store that is full", _start_where_full


def _with_id(tool: str, arguments: dict[str, Any], job_id: str) -> dict[str, Any]:
    takes_many = tool in ("wait_for_job", "search_job_output")
    return arguments | ({"job_ids": [job_id]} if takes_many else {"job_id": job_id})


def _tool(tool: str, **arguments: Any) -> Reader:
    """As the server calls it, with the news of its answer."""
    return lambda world: call_tool(world.jobs, tool, arguments, SESSION)


def _look_at_task(task_id: str, world: World) -> None:
    """A task is there, or is said not to be."""
    request = Request(1, "tasks/get", {"taskId": task_id}, STATELESS[-1], Client(), SERVER)
    try:
        assert tasks.seen(world.jobs, tasks.found(world.jobs, request), request).id == task_id
    except RpcError as answer:
        raise BgjobError(answer.message) from None


def _look_as_hook(world: World) -> None:
    """By what a hook stands on: it is silent if anything goes wrong."""
    with contextlib.suppress(OSError):
        for name in filter(None, (SESSION, sessions.known_to_server(world.home, CLIENT))):
            ends = dict.fromkeys(sessions.ended(world.home, name), name)
            tell_ends(Store(world.home), ends, lambda text: None)
            sessions.claim_prompt(world.home, name, RUNNING, 7)


def _look_at_bystander(world: World) -> None:
    """What happens to one job does not happen to another."""
    assert status_word(world.jobs.status(BYSTANDER).job.state) == "completed"
    assert world.jobs.output(BYSTANDER).stdout == "out\n"


def _start_where_full(world: World) -> None:
    """Its oldest jobs make room, or nothing is started."""
    jobs = opened(world.home, world.spawner, MCP_BG_MAX_STORE_SIZE="1MB")
    jobs.execute("true", name="the last")


def _drain(world: World) -> None:
    """One look of it; what it would start it only counts. Where it cannot even begin, its keeper tries again."""
    with _inside(world.home) as lock, contextlib.suppress(OSError):
        Dispatcher(world.home, lock, lambda *_: None)._start_all()


def _watch(world: World) -> None:
    """One turn of it."""
    with _inside(world.home) as lock:
        watcher.Watcher(Store(world.home), lock)._turn()


@contextlib.contextmanager
def _inside(home: str) -> Iterator[int]:
    """As those who look after a home: they work in it, and hold a lock."""
    lock = os.open(os.devnull, os.O_RDONLY)
    os.chdir(home)
    try:
        yield lock
    finally:
        os.chdir("/")
        os.close(lock)


# -- a home of its own --------------------------------------------------------------------------------------


def copy_home(template: Path, home: Path) -> None:
    shutil.copytree(template, home, ignore=shutil.ignore_patterns("kick"))
    os.mkfifo(home / "queue" / "kick", 0o600)


@contextlib.contextmanager
def shim_of(home: Path, job_id: str) -> Iterator[None]:
    """Somebody who holds a job and answers for it."""
    directory = home / "jobs" / job_id
    with (directory / "spec.json").open() as spec, socket.socket(socket.AF_UNIX) as desk:
        fcntl.flock(spec, fcntl.LOCK_EX)
        os.chdir(directory)  # its path may be too long for a socket's
        desk.bind("ctl")
        os.chdir("/")
        desk.listen(100)
        threading.Thread(target=_serve, args=(desk,), daemon=True).start()
        yield


@contextlib.contextmanager
def drainer_of(home: Path) -> Iterator[None]:
    """Else the first job that ends starts one."""
    with (home / "queue" / "drainer").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _serve(desk: socket.socket) -> None:
    said = {
        "ok": True,
        "waits": "no",
        "end": 5,
        "at": 5,
        "accepted": 1,
        "unread": 0,
        "pid": 1,
        "outcome": None,
    }
    while True:
        visitor, _ = desk.accept()
        with visitor, contextlib.suppress(OSError):
            visitor.settimeout(1.0)
            while visitor.recv(1 << 16):
                answer = json.dumps({**said, "processes": 1, "was_running": True})
                visitor.sendall(answer.encode() + b"\n")


class Fence:
    """Around what is outside of the home: whoever opens, changes or lists anything there is heard."""

    def __init__(self, directory: Path) -> None:
        libc = ctypes.CDLL(None)
        self._fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        for each in (directory, *(path for path in directory.rglob("*") if path.is_dir())):
            assert libc.inotify_add_watch(self._fd, os.fsencode(each), 0xFFF) >= 0  # IN_ALL_EVENTS

    def was_crossed(self) -> bool:
        try:
            return bool(os.read(self._fd, 1 << 16))
        except BlockingIOError:
            return False


# -- one mutation, in a process of its own --------------------------------------------------------------------


class Trial:
    def __init__(
        self, mutation: Mutation, home: Path, spawner: Spawner, say: Callable[[dict[str, str]], None]
    ) -> None:
        self._mutation, self._home, self._spawner, self._say = mutation, home, spawner, say
        self._reader = ""
        self._log = Log()

    def run(self) -> None:
        mutation = self._mutation
        with shim_of(self._home, RUNNING), drainer_of(self._home):
            before = self._world()
            apply(mutation, self._home)
            self._fence = Fence(outside(self._home))
            resident = _resident_bytes()
            if before and not mutation.is_of_one_job:
                self._read(before, lookers(mutation))
            if world := self._world():
                self._read(world, chain(lookers(mutation), doers(mutation)))
            if _resident_bytes() > resident + RESIDENT_BYTES:
                self._complain("it took much memory")

    def _world(self) -> World | None:
        found: list[World] = []
        self._try("open", lambda: found.append(World(self._home, self._spawner)))
        return found[0] if found else None

    def _read(self, world: World, readers: Iterable[tuple[str, Reader]]) -> None:
        for name, reader in readers:
            self._try(name, partial(reader, world))
            if self._fence.was_crossed():
                self._complain("it was outside")

    def _try(self, name: str, read: Callable[[], object]) -> None:
        self._reader = name
        began = time.process_time()
        signal.setitimer(signal.ITIMER_REAL, READER_S)
        try:
            with contextlib.redirect_stderr(self._log):
                self._judge(read())
        except BgjobError as answer:
            self._judge_text(str(answer))
        except BaseException as bug:  # noqa: BLE001  # that is what we are here for
            self._complain(_last_of(bug))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if bug_text := self._log.taken():
            self._complain(bug_text)
        if time.process_time() - began > READER_CPU_S:
            self._complain(f"it took {time.process_time() - began:.1f} s")

    def _judge(self, answer: object) -> None:
        if isinstance(answer, dict) and answer.get("isError"):
            self._judge_text(text_of(answer))

    def _judge_text(self, text: str) -> None:
        """A refusal says what and why, in a few words; and where nothing has happened there are few."""
        if not 20 < len(text) < 2500:
            self._complain(f"it says {text[:100]!r}")
        if not self._mutation.place and self._reader not in REFUSED:
            self._complain(f"nothing has happened, and it says {text[:200]!r}")

    def _complain(self, what: str) -> None:
        self._say({"mutation": str(self._mutation), "reader": self._reader, "what": what})


class Log(io.StringIO):
    """Where the server writes what it did not expect."""

    def taken(self) -> str:
        text = self.getvalue()
        self.seek(0)
        self.truncate()
        return text


def opened(home: str, spawner: Spawner, **settings: str) -> Jobs:
    environ = {"PATH": os.defpath, **SETTINGS, **settings}
    return Jobs(context.Context.of(Store(home), settings_from(environ), environ, spawner))


def _last_of(bug: BaseException | None) -> str:
    if bug is None:
        return ""
    frames = [frame for frame in traceback.extract_tb(bug.__traceback__) if "bgjob" in frame.filename]
    where = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames[-5:]))
    return f"{type(bug).__name__}: {str(bug)[:150]} at {where}"


def _resident_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _time_is_up(*_: object) -> None:
    raise TooLong(f"no answer in {READER_S:.0f} s")


def attempt(mutation: Mutation, template: Path, spawner: Spawner) -> Iterator[dict[str, str]]:
    """What was wrong."""
    place = Path(tempfile.mkdtemp(dir=template.parent))
    place.chmod(0o700)
    copy_home(template, place / "home")
    said, saying = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(said)
            if mutation.is_unprivileged:
                _give_up_root(place)
                spawner = Spawner(zygote=False)
            signal.signal(signal.SIGALRM, _time_is_up)
            _limit_memory()
            Trial(mutation, place / "home", spawner, lambda words: _write(saying, words)).run()
            status = 0
        except BaseException:  # noqa: BLE001
            _write(saying, {"mutation": str(mutation), "reader": "the test", "what": traceback.format_exc()})
        finally:
            os._exit(status)
    os.close(saying)
    with os.fdopen(said, "rb") as lines:
        if not _ends_in_time(lines.fileno(), child):
            os.kill(child, signal.SIGKILL)
        yield from map(json.loads, lines)
    status = os.waitpid(child, 0)[1]
    if status:
        yield {"mutation": str(mutation), "reader": "all", "what": f"ended with {status}"}
    _remove(place)


def _write(fd: int, words: dict[str, str]) -> None:
    os.write(fd, json.dumps(words).encode() + b"\n")


def _ends_in_time(said: int, child: int) -> bool:
    pid = os.pidfd_open(child)
    try:
        return bool(select.select([pid], [], [], MUTATION_S)[0])
    finally:
        os.close(pid)


def _give_up_root(place: Path) -> None:
    if os.geteuid() == 0:
        for path in [place, *place.rglob("*")]:
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def _remove(place: Path) -> None:
    for path in [place, *place.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o700)
    shutil.rmtree(place, ignore_errors=True)


def warmed() -> Spawner:
    """What is imported late is imported; what waits for a shim does not wait for long; nobody is started twice."""
    from bgjob.core.patterns import compile_pattern
    from bgjob.mcp.tools import TOOLS
    from bgjob.terminal import screen  # noqa: F401

    compile_pattern("x")  # nobody, as whom some readers run, may not reach our packages
    assert TOOLS.schemas
    for module in (interact, kill, signal_job):
        setattr(module, "SHIM_PATIENCE_S", 0.1)  # noqa: B010  # each has its own copy
    connect.SHIM_PATIENCE_S = connect.SETTLED_S = 0.1
    client.START_PATIENCE_S = 0.1
    kill.CONNECT_PATIENCE_S = kill.LATE_S = quota.LEAVING_S = 0.1
    setattr(target_dir, "start_relay", lambda *_: None)  # noqa: B010
    setattr(watch_registry, "_start", lambda *_: None)  # noqa: B010  # what they would do, two of our readers do
    setattr(context, "start_dispatcher", lambda *_: True)  # noqa: B010
    return Spawner(zygote=True)


def main(part: int, parts: int, only: str) -> None:
    faulthandler.enable()
    spawner = warmed()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as place:
        template = Path(place) / "home"
        Path(place).chmod(0o711)
        make_home(template)
        warm = Path(place) / "warm"
        copy_home(template, warm)
        opened(str(warm), spawner).run(":", wait_s=10)
        gc.freeze()  # what is shared with the forks stays shared
        tried = 0
        for number, mutation in enumerate(all_mutations(template)):
            if number % parts == part and re.search(only, str(mutation)):
                tried += 1
                for wrong in attempt(mutation, template, spawner):
                    print(json.dumps(wrong), flush=True)
        print(json.dumps({"tried": tried}))
    spawner.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "")

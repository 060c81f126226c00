"""Run by the tests as a program of its own, perhaps as another user: jobs that attack what supervises them.

    python attacks.py PACKAGE_ROOT SCRATCH

Needs nothing but the package. For each attack it starts the job, waits until it has struck, then looks, reads, lists
and kills, and writes down what came of that: one JSON object on stdout.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

PATIENCE_S = 120.0
AT_ONCE = 15
GRACE_S = 0.2

# What each finds: SHIM, GUARD, DIR (the job's directory), STRUCK (to be made when it has struck), INNOCENT (a pid that
# has nothing to do with it), PYTHON. All of them ignore what a polite end would be. No process is started before they
# strike: some are faster than their shim, which has to tell its starter.
PRELUDE = """
trap '' TERM HUP PIPE
read -r _ _ _ GUARD _ < /proc/$PPID/stat; SHIM=$PPID; DIR="${JOBS:?}/${BGJOB_ID:?}"; export SHIM GUARD DIR
struck() { : > "$STRUCK"; }
python() { "$PYTHON" -c "import json, os, signal, socket, time
def struck(): open(os.environ['STRUCK'], 'w').close()
shim, guard, ctl = int(os.environ['SHIM']), int(os.environ['GUARD']), os.environ['DIR'] + '/ctl'
$1"; }
recorded() { while ! [ -s "$DIR/run.json" ]; do sleep 0.01; done; }
rest() { while :; do sleep 1000; done; }
"""

ATTACKS = {
    "stops its shim": "kill -STOP $SHIM; struck; rest",
    "stops its guard": "kill -STOP $GUARD; struck; rest",
    "stops both": "kill -STOP $GUARD $SHIM; struck; rest",
    "stops its shim in a loop": """python "
struck()
while True: os.kill(shim, signal.SIGSTOP)"
""",
    "stops both in a loop": """python "
struck()
while True:
    os.kill(guard, signal.SIGSTOP)
    os.kill(shim, signal.SIGSTOP)"
""",
    "stops its guard and kills its shim": "kill -STOP $GUARD; kill -9 $SHIM; struck; rest",
    "kills its shim": "kill -9 $SHIM; struck; rest",
    "kills its guard": "kill -9 $GUARD; struck; rest",
    "kills both": "kill -STOP $GUARD $SHIM; kill -9 $GUARD $SHIM; struck; rest",
    "kills both and drops its environment": "recorded; kill -STOP $GUARD $SHIM; kill -9 $GUARD $SHIM; struck; "
    'exec env -i "$PYTHON" -c "import time; time.sleep(1000)" "$STRUCK"',
    "removes its socket": 'rm "$DIR/ctl"; struck; rest',
    "removes its socket and stops both": 'rm "$DIR/ctl"; kill -STOP $GUARD $SHIM; struck; rest',
    "has a directory in place of its socket": 'rm "$DIR/ctl"; mkdir "$DIR/ctl"; struck; rest',
    "answers for its shim": """python "
os.unlink(ctl)
fake = socket.socket(socket.AF_UNIX); os.chdir(os.path.dirname(ctl)); fake.bind('ctl'); fake.listen()
struck()
while True:
    caller, _ = fake.accept()
    caller.recv(1000)
    lie = json.dumps(dict(ok=True, was_running=True, processes=1, waits='no', end=0))
    caller.send(lie.encode() + bytes([10]))"
""",
    "takes all calls and says nothing": """python "
os.unlink(ctl)
fake = socket.socket(socket.AF_UNIX); os.chdir(os.path.dirname(ctl)); fake.bind('ctl'); fake.listen(0)
struck()
time.sleep(1000)"
""",
    "talks nonsense to its shim": """python "
os.chdir(os.path.dirname(ctl))
callers = [socket.socket(socket.AF_UNIX) for _ in range(50)]
for caller in callers: caller.connect('ctl'); caller.send(b'{' * 60000)
struck()
time.sleep(1000)"
""",
    "removes its directory": 'rm -rf "$DIR"; struck; rest',
    "removes its directory and kills its shim": 'rm -rf "$DIR"; struck; kill -9 $SHIM; rest',
    "moves its directory away": 'mv "$DIR" "$DIR.away"; struck; rest',
    "locks its directory": 'chmod 000 "$DIR"; struck; rest',
    "locks its directory and kills its shim": 'chmod 000 "$DIR"; kill -9 $SHIM; struck; rest',
    "replaces its spec": 'cp "$DIR/spec.json" "$DIR/x"; mv "$DIR/x" "$DIR/spec.json"; struck; rest',
    "garbles its records": 'for f in "$DIR"/*.json; do echo "[[[" > "$f"; done; struck; rest',
    "garbles its records and kills its shim": 'for f in "$DIR"/*.json; do echo "[[[" > "$f"; done; kill -9 $SHIM; '
    "struck; rest",
    "forges its spec and kills its shim": 'echo "{}" > "$DIR/spec.json"; kill -9 $SHIM; struck; rest',
    "says that its shim is somebody else": "recorded; "
    'sed "s/shim_pid.: [0-9]*/shim_pid\\": $INNOCENT/" "$DIR/run.json" > "$DIR/x"; mv "$DIR/x" "$DIR/run.json"; '
    'kill -STOP $GUARD $SHIM; rm "$DIR/ctl"; struck; rest',
    "garbles its log": "echo some words; sleep 0.1; "
    'for f in "$DIR"/log/*; do head -c 5000 /dev/urandom > "$f"; done; struck; rest',
    "floods its shim with signals": """python "
for _ in range(5000):
    for number in (signal.SIGHUP, signal.SIGCHLD, signal.SIGINT, signal.SIGCONT): os.kill(shim, number)
struck()
time.sleep(1000)"
""",
    "floods both with stops and continues": """python "
struck()
while True:
    for number in (signal.SIGSTOP, signal.SIGCONT, signal.SIGHUP): os.kill(guard, number); os.kill(shim, number)"
""",
    "holds a thousand pipes": """python "
held = []
try:
    while len(held) < 1000: held.append(os.pipe())
except OSError: pass
struck()
time.sleep(1000)"
""",
}
HIDDEN = """
while ! grep -q bgjob- /proc/self/cgroup; do sleep 0.02; done
(setsid env -i "$PYTHON" -c 'import time; time.sleep(1000)' "$STRUCK" &)
kill -STOP $GUARD $SHIM; kill -9 $GUARD $SHIM; struck; exit
"""
IN_A_GROUP = {"kills both and leaves environment, session and parent": HIDDEN}


class Victim:
    """One attack, and what became of it."""

    def __init__(self, api: Any, home: Path, scratch: Path, name: str, command: str) -> None:
        self._home, self._name, self._command = home, name, command
        self._struck = scratch / f"struck-{name.replace(' ', '-')}"
        self._job_id = ""
        environment = {**os.environ, "BGJOB_HOME": str(home), "MCP_BG_MAX_JOBS": "100"}
        self._jobs = api.open_jobs(environment)
        self.report: dict[str, Any] = {"took_s": {}, "said": {}}

    def suffer(self) -> None:
        innocent = subprocess.Popen(["sleep", "1000"])
        try:
            self._act("execute", lambda: self._start(innocent.pid))
            self._wait(self._struck.exists)
            self.report["struck"] = self._struck.exists()
            self._act("status", lambda: type(self._jobs.status(self._job_id).job.state).__name__)
            self._act("list", lambda: len(self._jobs.list().jobs) > 0)
            self._act("output", lambda: self._jobs.output(self._job_id) is not None)
            self._act("kill", lambda: self._jobs.kill(self._job_id, grace_s=GRACE_S).status)
            self._act("status after it", lambda: type(self._jobs.status(self._job_id).job.state).__name__)
            self._wait(lambda: not list(self._left()))  # a shim that has answered is about to leave
            self.report["left"] = list(self._left())
            self.report["innocent"] = state_of(innocent.pid)
        finally:
            innocent.kill()
            innocent.wait()
            self._jobs.close()
            for pid in self._left():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _start(self, innocent: int) -> str:
        own = {
            "STRUCK": str(self._struck),
            "PYTHON": sys.executable,
            "INNOCENT": str(innocent),
            "JOBS": str(self._home / "jobs"),
        }
        job = self._jobs.execute(PRELUDE + self._command, env=own, name=self._name)
        self._job_id = job.id
        return type(job.state).__name__

    def _wait(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_so() and time.monotonic() < deadline:
            time.sleep(0.005)

    def _act(self, word: str, act: Callable[[], object]) -> None:
        began = time.monotonic()
        try:
            self.report["said"][word] = act()
        except Exception as error:  # noqa: BLE001 # whatever it says, is what it said
            self.report["said"][word] = f"{type(error).__name__}: {error}"
        self.report["took_s"][word] = round(time.monotonic() - began, 2)

    def _left(self) -> Iterator[int]:
        """By its environment or an argument that no other has; its supervisors by where they work."""
        for pid in (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()):
            words = [read(f"/proc/{pid}/{name}") for name in ("environ", "cmdline")]
            if state_of(pid) not in ("Z", "") and (
                f"STRUCK={self._struck}".encode() in words[0].split(b"\0")
                or bytes(self._struck) in words[1].split(b"\0")
                or (self._job_id and self._job_id in link(f"/proc/{pid}/cwd"))
            ):
                yield pid


def state_of(pid: int) -> str:
    return read(f"/proc/{pid}/stat").rpartition(b") ")[2][:1].decode()


def read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def link(path: str) -> str:
    try:
        return str(Path(path).readlink())
    except OSError:
        return ""


def main(package_root: str, scratch: Path, *names: str) -> None:
    sys.path.insert(0, package_root)
    api = importlib.import_module("bgjob.api")
    has_groups = importlib.import_module("bgjob.system.cgroup").place_without_limits() is not None
    attacks = {**ATTACKS, **(IN_A_GROUP if has_groups else {})}
    victims = {
        name: Victim(api, scratch / "home", scratch, name, command)
        for name, command in attacks.items()
        if not names or name in names
    }
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for done in [pool.submit(victim.suffer) for victim in victims.values()]:
            done.result()
    print(json.dumps({name: victim.report for name, victim in victims.items()}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])

"""`bgjob hook` as a client runs it: a process of its own, with the client's JSON on stdin."""

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bgjob.home import sessions, waits
from bgjob.system.processes import START_TICKS, boot_id, stat_of
from tests.support.waiting import PATIENCE_S

BGJOB = str(Path(sys.executable).with_name("bgjob"))
PATIENT = [
    sys.executable,
    "-c",
    "from bgjob.cli import hook_prompts; hook_prompts.PATIENCE_S = 30.0; from bgjob.cli import main; main()",
]
"""For what a hook says of a prompt: on a busy machine the shim does not answer in the fifth of a second it has."""
OF_A_CLIENT = ("CLAUDE", "CODEX", "GEMINI")
ATTENDED = {"CLAUDE_CODE_SESSION_ATTENDED": "1"}
FORMS = {
    "claude": {"context": "UserPromptSubmit", "stop": "Stop"},
    "codex": {"context": "UserPromptSubmit", "stop": "Stop"},
    "gemini": {"context": "BeforeAgent", "stop": "AfterAgent"},
}


def own_process() -> str:
    """The session of a client that does not name it: for a hook that the test runs, the test."""
    return f"process {os.getpid()} of {stat_of(os.getpid())[START_TICKS]} in boot {boot_id()}"


class Hooks:
    """The hooks of one client, on one home."""

    def __init__(self, home: Path, client: str, session: str | None = None, **environment: str) -> None:
        self.client, self.session, self.program = client, session, [BGJOB]
        ours = {name: value for name, value in os.environ.items() if not name.startswith(OF_A_CLIENT)}
        self.environment = {**ours, "BGJOB_HOME": str(home), **environment}

    def given(self, event: str, **more: Any) -> bytes:
        own = {"session_id": self.session} if self.session else {}
        return json.dumps({"hook_event_name": event, "cwd": "/", **own, **more}).encode()

    def run(
        self, event: str, arguments: tuple[str, ...] | None = None, **given: Any
    ) -> subprocess.CompletedProcess[bytes]:
        return self.run_with(self.given(event, **given), *(arguments or (self.client,)))

    def run_with(self, stdin: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*self.program, "hook", *arguments],
            input=stdin,
            env=self.environment,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def start(self, event: str, **given: Any) -> subprocess.Popen[bytes]:
        """For one that waits."""
        hook = subprocess.Popen(
            [*self.program, "hook", self.client],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment,
        )
        assert hook.stdin
        hook.stdin.write(self.given(event, **given))
        hook.stdin.close()
        hook.stdin = None
        return hook

    def context(self, event: str | None = None, **given: Any) -> str:
        """What the model reads; empty if nothing was told."""
        event = event or FORMS[self.client]["context"]
        done = self.run(event, **given)
        assert (done.returncode, done.stderr) == (0, b"")
        if not done.stdout:
            return ""
        answer = json.loads(done.stdout)
        told = answer["hookSpecificOutput"]
        assert answer == {
            "hookSpecificOutput": {"hookEventName": event, "additionalContext": told["additionalContext"]}
        }
        return str(told["additionalContext"])


@contextlib.contextmanager
def asking(home: Path, wait_id: str) -> Iterator[None]:
    """A client asks for its task, again and again."""
    is_over = threading.Event()

    def ask() -> None:
        while not is_over.wait(0.1):
            waits.note_asked(str(home), wait_id)

    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask)
        try:
            yield
        finally:
            is_over.set()
        asked.result()


def is_silent(done: subprocess.CompletedProcess[bytes]) -> bool:
    return (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def is_held(home: str, session: str, job_id: str) -> bool:
    """A call waits for the job: its end is there to be told, and others must not.

    The kernel is asked: a lock that we took to try it could be in the way of the call.
    """
    inode = Path(sessions._entry(home, session, job_id)).stat().st_ino
    locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return any(
        (words[1], words[3]) == ("FLOCK", "READ") and words[5].endswith(f":{inode}") for words in locks
    )


def is_untold(home: str, session: str, job_id: str) -> bool:
    """Return whether this end has not been reported to the session yet."""
    return Path(sessions._entry(home, session, job_id)).exists()


def is_claimed(home: str, session: str, job_id: str) -> bool:
    """A process is about to report this end, or has reported it."""
    with contextlib.suppress(FileNotFoundError):
        inode = Path(sessions._entry(home, session, job_id)).stat().st_ino
        return f":{inode} " in Path("/proc/locks").read_text()
    return True

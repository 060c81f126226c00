"""Another machine without a network: a program `ssh` that runs its command here, in a home of its own.

The pipe, the agent, its jobs and the relay are real. tests/clusters has the same with OpenSSH.
"""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from bgjob.api import Jobs, open_jobs
from bgjob.home import target_dir
from bgjob.system import processes
from tests.support.gate import Gate
from tests.support.homes import end_all_jobs
from tests.support.waiting import wait_until

NAME = "far"
SSH = """#!/bin/sh
[ -e {held} ] && {{ {pause}; }}
[ -e {closed} ] && {{ echo "ssh: connect to host far port 22: Connection refused" >&2; exit 255; }}
for last; do :; done
echo $$ >> {pids}
export HOME={home} BGJOB_HOME= XDG_STATE_HOME= XDG_CONFIG_HOME={home}
cd {home} && exec sh -c "$last"
"""


class FarMachine:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.user_home = directory / "far"
        self.home = self.user_home / ".local/state/bgjob"
        self.near_home = directory / "near"
        self._closed, self._pids = directory / "closed", directory / "pids"
        self._held, self.line = directory / "held", Gate(directory / "line")
        programs, config = directory / "bin", directory / "config/bgjob"
        for each in (self.user_home, programs, config):
            each.mkdir(parents=True, mode=0o700)
        files = {"closed": self._closed, "pids": self._pids, "held": self._held, "home": self.user_home}
        script = SSH.format(**files, pause=self.line.pause)
        (programs / "ssh").write_text(script)
        (programs / "ssh").chmod(0o700)
        (config / "targets.toml").write_text(f'[{NAME}]\nkind = "ssh"\nhost = "far"\n')
        (config / "targets.toml").chmod(0o600)
        self.environ = {
            **os.environ,
            "BGJOB_HOME": str(self.near_home),
            "XDG_CONFIG_HOME": str(directory / "config"),
            "PATH": f"{programs}:{os.environ['PATH']}",
        }

    def open(self, **settings: str) -> Jobs:
        return open_jobs(self.environ | settings)

    def refuse_connections(self) -> None:
        self._closed.touch()

    def accept_connections(self) -> None:
        self._closed.unlink()

    @contextlib.contextmanager
    def held_connections(self) -> Iterator[Gate]:
        """Each new connection waits at the gate before it is refused or made."""
        self._held.touch()
        try:
            yield self.line
        finally:
            self._held.unlink()

    def agents(self) -> list[int]:
        """The agents that run: each was exec'd by our `ssh`."""
        known = self._pids.read_text().split() if self._pids.exists() else []
        return [pid for pid in map(int, known) if processes.stat_of(pid)[processes.START_TICKS]]

    def cut_line(self) -> None:
        for pid in self.agents():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def relays(self) -> list[int]:
        """Keeper and relay of the near home."""
        return [
            pid
            for pid in processes.every_pid()
            if processes.name_of(pid) == "bgjob-relay"
            and processes.link_target(f"/proc/{pid}/cwd") == str(self.near_home)
        ]

    def end(self) -> None:
        """No test leaves a process behind."""
        self._closed.unlink(missing_ok=True)
        end_all_jobs(self.near_home, self.environ)
        end_all_jobs(self.home)
        for pid in self.relays():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.cut_line()
        wait_until(lambda: not target_dir.has_relay(str(self.near_home), NAME), "the relay is gone")


@contextlib.contextmanager
def far_machine(directory: Path) -> Iterator[FarMachine]:
    far = FarMachine(directory)
    try:
        yield far
    finally:
        far.end()

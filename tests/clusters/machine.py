"""A machine, in miniature: runs commands that leave daemons behind, and ends all of them with its own stdin.

python -m tests.clusters.machine      one command a line, as a JSON list; answers with a line: its exit status
"""

import contextlib
import json
import os
import signal
import subprocess
import sys

from bgjob.system import processes


class Machine(contextlib.AbstractContextManager["Machine"]):
    """What a command leaves behind stays below this process, also after a double fork, and is ended by pid."""

    def __init__(self, environ: dict[str, str]) -> None:
        """`environ`: of its commands."""
        self._environ = environ
        self._process: subprocess.Popen[str] = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, argv: list[str], output: str) -> int:
        """The exit status of a command, whose words go to the file `output`."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(
            json.dumps({"argv": argv, "environ": self._environ, "output": output}) + "\n"
        )
        self._process.stdin.flush()
        return int(self._process.stdout.readline() or -1)

    def processes(self) -> list[int]:
        """All that runs on this machine."""
        return processes.descendants(self._process.pid)

    def named(self, name: str) -> list[int]:
        return [pid for pid in self.processes() if processes.name_of(pid) == name[:15]]

    def kill_all(self) -> None:
        """The power fails."""
        for pid in iter(lambda: next(iter(self.processes()), 0), 0):
            processes.send(pid, signal.SIGKILL)

    def close(self) -> None:
        self._process.communicate()


ended: dict[int, int] = {}  # wait status by pid


def main() -> None:
    processes.adopt_orphans()
    signal.signal(signal.SIGCHLD, _reap)
    for line in sys.stdin:
        order = json.loads(line)
        print(_status_of(**order), flush=True)
    _end_all()


def _reap(*_: object) -> None:
    with contextlib.suppress(ChildProcessError):
        while (dead := os.waitpid(-1, os.WNOHANG))[0]:
            ended[dead[0]] = dead[1]


def _status_of(argv: list[str], environ: dict[str, str], output: str) -> int:
    writes = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    files = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, output, writes, 0o600),
    ]
    pid = os.posix_spawn(argv[0], argv, environ, file_actions=[*files, (os.POSIX_SPAWN_DUP2, 1, 2)])
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:  # _reap was first
        return os.waitstatus_to_exitcode(ended[pid])


def _end_all() -> None:
    while running := processes.descendants(os.getpid()):
        for pid in running:
            processes.send(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)


if __name__ == "__main__":
    main()

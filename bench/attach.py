"""What a person feels who is attached: from a key to its echo, beside tmux."""

import fcntl
import os
import select
import shutil
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench.lab import BenchError, Lab, execute, take_turns
from bench.report import Result, Row, ours_at_most

Environment = Mapping[str, str]
PATIENCE_S = 30.0
KEYS = "NOQUVWY"
"""No escape sequence ends with one of these that a terminal gets here."""
READY = b"ready"
ECHOES = "stty raw -echo; printf ready; exec cat"
"""The program echoes, not its terminal: a key has come all the way."""


def attach(lab: Lab) -> Result:
    """bgjob attach: from a key to its echo on the person's terminal, beside tmux attach"""
    if shutil.which("tmux") is None:
        raise BenchError("tmux is not installed, which bgjob is measured beside")
    with ExitStack() as opened, lab.server(lab.ours) as server:
        environment = {**os.environ, "BGJOB_HOME": str(server.home), "TERM": "xterm-256color"}
        job_id = execute(server, ECHOES, pty=True)
        ours = [sys.executable, "-m", "bgjob", "attach", job_id]
        socket = Path(server.root) / "tmux"
        tmux = ["tmux", "-S", str(socket), "-f", "/dev/null"]
        opened.callback(subprocess.run, [*tmux, "kill-server"], stderr=subprocess.DEVNULL, check=False)
        subprocess.run([*tmux, "new-session", "-d", "sh", "-c", ECHOES], env=environment, check=True)
        subprocess.run([*tmux, "set", "-g", "status", "off"], env=environment, check=True)
        people = [
            opened.enter_context(_person([*tmux, "attach"], environment)),
            opened.enter_context(_person(ours, environment)),
        ]
        samples = take_turns(people, lab.rounds(400, 40), _key_to_echo_ms)
    return Result(
        [Row("key to echo, bgjob attach", "ms", samples[1], samples[0], "tmux attach", ours_at_most(5, "ms"))]
    )


class _Person:
    """The master of a terminal on which the program of a person runs."""

    def __init__(self, command: Sequence[str], environment: Environment) -> None:
        self._master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
        options: dict[str, Any] = {"stdin": slave, "stdout": slave, "stderr": slave, "env": environment}
        self.process = subprocess.Popen(command, start_new_session=True, **options)
        os.close(slave)
        self._keys = 0

    def next_key(self) -> bytes:
        self._keys += 1
        return KEYS[self._keys % len(KEYS)].encode()

    def type(self, data: bytes) -> None:
        os.write(self._master, data)

    def read_until(self, text: bytes) -> None:
        seen, deadline = b"", time.monotonic() + PATIENCE_S
        while text not in seen:
            if not select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise BenchError(f"{text!r} does not come: {seen[-200:]!r}")
            seen += os.read(self._master, 1 << 16)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)


@contextmanager
def _person(command: Sequence[str], environment: Environment) -> Any:
    person = _Person(command, environment)
    try:
        person.read_until(READY)
        yield person
    finally:
        person.close()


def _key_to_echo_ms(person: _Person) -> float:
    key = person.next_key()
    began = time.perf_counter()
    person.type(key)
    person.read_until(key)
    return (time.perf_counter() - began) * 1000

"""`bgjob` on a terminal of its own, byte by byte."""

import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from tests.faces.command_line import BGJOB, Cli
from tests.support.escapes import SGR, STEERS, UNSEEN

# of whoever runs the tests
COLOUR_VARIABLES = ("NO_COLOR", "CLICOLOR_FORCE", "TERM")


class Terminal:
    """A command on a terminal of its own: stdin, stdout and stderr."""

    def __init__(
        self, cli: Cli, arguments: Sequence[str | bytes], columns: int, variables: Mapping[str, str]
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        others = {name: value for name, value in cli.environment.items() if name not in COLOUR_VARIABLES}
        environment = {**others, "TERM": "xterm-256color", **variables}
        self.process = subprocess.Popen(
            [BGJOB, *arguments], env=environment, stdin=slave, stdout=slave, stderr=slave
        )
        os.close(slave)
        self.seen = b""

    def read_until(self, text: bytes) -> None:
        while text not in self.seen:
            assert self._read(), f"{text!r} does not come: {self.seen!r}"

    def read_to_the_end(self) -> bytes:
        while self._read():
            pass
        self.process.wait()
        return self.seen

    def _read(self) -> bytes:
        try:
            data = os.read(self._master, 1 << 16)
        except OSError:  # nobody has the other end any more
            return b""
        self.seen += data
        return data

    def type(self, data: bytes) -> None:
        os.write(self._master, data)

    def close(self) -> None:
        os.close(self._master)
        self.process.kill()
        self.process.wait()


@contextmanager
def terminal(cli: Cli, *arguments: str | bytes, columns: int = 80, **variables: str) -> Iterator[Terminal]:
    opened = Terminal(cli, arguments, columns, variables)
    try:
        yield opened
    finally:
        opened.close()


def seen(cli: Cli, *arguments: str | bytes, columns: int = 80, **variables: str) -> bytes:
    with terminal(cli, *arguments, columns=columns, **variables) as opened:
        return opened.read_to_the_end()


def assert_only_shown(seen: bytes) -> str:
    """Nothing in it steers a terminal but colours, and nothing hides."""
    plain = SGR.sub("", seen.decode())
    assert (STEERS.findall(plain), UNSEEN.findall(plain)) == ([], [])
    return plain

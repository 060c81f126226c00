"""What a client may have between itself and the stdin and stdout of a server: pipes, a socket, a terminal."""

import os
import pty
import socket
import tty
from collections.abc import Callable
from typing import NamedTuple


class Wire(NamedTuple):
    stdin: int
    """Of the server."""
    stdout: int
    write: int
    """The client's end of it."""
    read: int
    stderr: int | None = None
    """None: a file."""


def pipes() -> Wire:
    stdin, write = os.pipe()
    read, stdout = os.pipe()
    return Wire(stdin, stdout, write, read)


def sockets() -> Wire:
    """One for each direction, as Node makes them."""
    theirs_in, ours_out = socket.socketpair()
    theirs_out, ours_in = socket.socketpair()
    return Wire(theirs_in.detach(), theirs_out.detach(), ours_out.detach(), ours_in.detach())


def one_socket() -> Wire:
    """For both directions."""
    theirs, ours = socket.socketpair()
    return Wire(os.dup(theirs.fileno()), theirs.detach(), os.dup(ours.fileno()), ours.detach())


def terminal() -> Wire:
    """Stdin is a terminal that changes no byte; its end is that the terminal is closed."""
    master, slave = pty.openpty()
    tty.setraw(slave)
    read, stdout = os.pipe()
    return Wire(slave, stdout, master, read)


WIRES: dict[str, Callable[[], Wire]] = {
    "pipes": pipes,
    "sockets": sockets,
    "one socket": one_socket,
    "a terminal": terminal,
}

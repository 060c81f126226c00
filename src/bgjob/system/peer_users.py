"""Which user is at the other end of a connection that was just accepted.

A unix socket knows its peer. Of a TCP connection from this machine the kernel knows both ends: it is asked for
the client's end, by both addresses and ports. Netlink answers in the same time however many sockets there are;
the tables in /proc are read only where netlink is closed. The lookup happens while a connection is accepted, so
the client may be gone already. An end that no process holds any more has inode 0 and shows uid 0: it counts as
unknown, and never as root's.
"""

from __future__ import annotations

import _socket as socket  # `socket` wraps it: 2 ms of each start
import os
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    End = tuple[bytes, int, int]
    """Address, port, scope."""
    Lookup = Callable[[int, End, End], "int | None"]

ROOT = 0
CREDENTIALS = struct.Struct("3i")
"""pid, uid, gid"""
MAPPED = "::ffff:"
# ESTABLISHED, FIN_WAIT1, FIN_WAIT2, CLOSE_WAIT, LAST_ACK, CLOSING: a client may have shut down its side.
CONNECTED = frozenset((1, 4, 5, 8, 9, 11))

# linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h
NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, NLMSG_ERROR, NLM_F_REQUEST = 4, 20, 2, 1
HEADER = struct.Struct("=IHHII")
ERROR_NUMBER = struct.Struct("=i")
# sdiag_family, sdiag_protocol, idiag_ext, idiag_states; then the id: two ports, two addresses, interface, cookie
REQUEST = struct.Struct("=BBBxI2s2s16s16sIQ")
ANY_COOKIE, ALL_STATES = 2**64 - 1, 2**32 - 1
# idiag_family, idiag_state, idiag_timer, idiag_retrans; the id; expires, rqueue, wqueue, uid, inode
ANSWER = struct.Struct("=BBxx2s2s16s16sIQIIIII")


def is_own(user: int | None) -> bool:
    """Return whether this is our own user or root. None is an unknown user, and never ours."""
    return user is not None and user in (os.geteuid(), ROOT)


def unix_peer(connection: socket.socket) -> int | None:
    """Return the uid of the peer: of the process that has connected or, at a client's end, of the one that listens."""
    if not hasattr(socket, "SO_PEERCRED"):
        # The system does not know; the mode of socket and directory keeps other users out.
        return os.geteuid()
    try:
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    except OSError:
        return None
    user: int = CREDENTIALS.unpack(credentials)[1]
    return user


def tcp_lookup() -> Lookup | None:
    """Return a way to look up the user of a client's end, tested on our own connection; None: not possible here."""
    return next(filter(_knows_us, LOOKUPS), None)


def tcp_peer(connection: socket.socket, lookup: Lookup) -> int | None:
    """Return the uid of the process that has connected; None: it is unknown, or on another machine."""
    try:
        family, own = _end(connection.family, connection.getsockname())
        _, peer = _end(connection.family, connection.getpeername())
        return lookup(family, peer, own)
    except OSError:
        return None


def is_from_this_machine(connection: socket.socket) -> bool:
    """Return whether the client is on this machine: its address is one that we could bind ourselves.

    Where the system lets us bind foreign addresses (ip_nonlocal_bind), every client counts as local.
    """
    try:
        family, (packed, _, scope) = _end(connection.family, connection.getpeername())
    except OSError:
        return True  # the client has gone: nothing is left to serve
    address = socket.inet_ntop(family, packed)
    probe = socket.socket(family, socket.SOCK_DGRAM)
    try:
        probe.bind((address, 0, 0, scope) if family == socket.AF_INET6 else (address, 0))
        return True
    except OSError:
        return False
    finally:
        probe.close()


def _end(family: int, name: tuple[str, int, int, int]) -> tuple[int, End]:
    """Return the family and this end. An IPv4 address that an IPv6 socket shows counts as IPv4."""
    address, port = name[0].partition("%")[0], name[1]
    if address.startswith(MAPPED) and "." in address:
        family, address = socket.AF_INET, address[len(MAPPED) :]
    return family, (socket.inet_pton(family, address), port, name[3] if family == socket.AF_INET6 else 0)


def _knows_us(lookup: Lookup) -> bool:
    listening, client = (socket.socket(socket.AF_INET, socket.SOCK_STREAM) for _ in range(2))
    try:
        listening.bind(("127.0.0.1", 0))
        listening.listen(1)
        client.connect(listening.getsockname())
        own, peer = (_end(socket.AF_INET, each.getsockname())[1] for each in (listening, client))
        return lookup(socket.AF_INET, peer, own) == os.geteuid()
    except OSError:
        return False
    finally:
        listening.close()
        client.close()


def ask_kernel(family: int, local: End, remote: End) -> int | None:
    (address, port, scope), (to, to_port, _) = local, remote
    ports = port.to_bytes(2, "big"), to_port.to_bytes(2, "big")
    asked = REQUEST.pack(family, socket.IPPROTO_TCP, 0, ALL_STATES, *ports, address, to, scope, ANY_COOKIE)
    head = HEADER.pack(HEADER.size + len(asked), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 0, 0)
    kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_SOCK_DIAG)
    try:
        kernel.sendto(head + asked, (0, 0))
        answer = kernel.recv(4096)  # the answer is there once the request was sent
    finally:
        kernel.close()
    if HEADER.unpack_from(answer)[1] == NLMSG_ERROR:
        return None
    _, state, *found = ANSWER.unpack_from(answer, HEADER.size)
    user, inode = found[-2:]
    # If the connection does not exist, the kernel answers with a listener of that port.
    is_it = state in CONNECTED and tuple(found[:2]) == ports
    return user if is_it and inode else None


def read_tables(family: int, local: End, remote: End) -> int | None:
    """Look the user up in /proc/net. A client may have connected to an IPv4 address with an IPv6 socket."""
    ends = [_in_table(each) for each in (local, remote)]
    if family == socket.AF_INET6:
        return _user_in("/proc/net/tcp6", ends)
    found = _user_in("/proc/net/tcp", ends)
    mapped = [_words(bytes(10) + b"\xff\xff") + end for end in ends]
    return found if found is not None else _user_in("/proc/net/tcp6", mapped)


def _user_in(path: str, ends: list[str]) -> int | None:
    with open(path) as table:
        for row in table:
            cells = row.split()
            if cells[1:3] == ends:
                is_held = int(cells[3], 16) in CONNECTED and cells[9] != "0"
                return int(cells[7]) if is_held else None
    return None


def _in_table(end: End) -> str:
    return f"{_words(end[0])}:{end[1]:04X}"


def _words(packed: bytes) -> str:
    """Format an address as the kernel prints it: groups of four bytes, each in this machine's byte order."""
    words = (packed[at : at + 4] for at in range(0, len(packed), 4))
    return "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)


LOOKUPS = ask_kernel, read_tables
"""The ways to look up a user, the better one first."""

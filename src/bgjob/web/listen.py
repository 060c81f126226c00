"""Where the server listens, an address or a unix socket that only its owner can open, and which users may connect."""

import contextlib
import errno
import ipaddress
import os
import socket
import stat
from collections.abc import Callable, Sequence
from typing import Any

from bgjob.core.errors import CannotServe
from bgjob.mcp.stderr import warn
from bgjob.system import peer_users

BACKLOG = 1024
MOST_NAMED = 20
"""Maximum number of users whose refusal is logged."""
MOST_HANDSHAKES = 500
"""Maximum number of TLS handshakes at a time."""
OTHER_USER = (
    "Refused a connection of uid {}: only our own user may connect. "
    "bgjob serve --allow-other-users lets others in."
)


class Handshakes:
    """Accepted connections whose TLS handshake has not ended. Beyond a bound the oldest are closed.

    No request and no idle time is counted for them yet: without the bound, silent clients use up all descriptors.
    """

    def __init__(self) -> None:
        self._begun: dict[int, socket.socket] = {}

    def begin(self, connection: socket.socket) -> None:
        number = connection.fileno()
        self._begun.pop(number, None)  # that connection was closed: its number is free again
        self._begun[number] = connection
        if len(self._begun) > MOST_HANDSHAKES:
            oldest = self._begun.pop(next(iter(self._begun)))
            with contextlib.suppress(OSError):
                oldest.shutdown(socket.SHUT_RDWR)  # its transport sees the end, and closes it

    def end(self, number: int) -> None:
        self._begun.pop(number, None)


class Door(socket.socket):
    """A listening socket that decides about connections when it accepts them, before a byte is read.

    Those of other users are closed, and those whose user is unknown. Clients on other machines cannot be checked: on a
    network address, only connections from this machine are.
    """

    def __init__(
        self,
        listening: socket.socket,
        *,
        any_user: bool = False,
        handshakes: Handshakes | None = None,
        on_refused: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`handshakes`: where connections begin, with TLS. `on_refused`: is called with the uid, once for each user."""
        self._user = None if any_user else _how_to_tell(listening)
        self._serves_network = listening.family != socket.AF_UNIX and not _is_loopback(listening)
        self._handshakes, self._on_refused = handshakes, on_refused
        self._named = set[int]()
        super().__init__(listening.family, listening.type, listening.proto, fileno=listening.detach())

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection. A refused one raises ConnectionAbortedError, which servers ignore."""
        connection, address = super().accept()
        if not self._may_enter(connection):
            connection.close()
            raise ConnectionAbortedError("it is another user's")
        if self._handshakes:
            self._handshakes.begin(connection)
        return connection, address

    def _may_enter(self, connection: socket.socket) -> bool:
        if self._user is None or (self._serves_network and not peer_users.is_from_this_machine(connection)):
            return True
        user = self._user(connection)
        if user is not None and not peer_users.is_own(user):
            self._name(user)
        return peer_users.is_own(user)

    def _name(self, user: int) -> None:
        if user not in self._named and len(self._named) < MOST_NAMED:
            self._named.add(user)
            warn(OTHER_USER.format(user))
            self._on_refused(user)


def _how_to_tell(listening: socket.socket) -> Callable[[socket.socket], int | None]:
    """Return a function for the uid at the other end of a connection, which returns None if it is unknown."""
    if listening.family == socket.AF_UNIX:
        return peer_users.unix_peer
    if lookup := peer_users.tcp_lookup():
        return lambda connection: peer_users.tcp_peer(connection, lookup)
    raise CannotServe(
        "This system does not say which user has connected over TCP, so every user of the machine could.",
        "Give --unix PATH, or --allow-other-users if no other user matters.",
    )


def _is_loopback(listening: socket.socket) -> bool:
    return ipaddress.ip_address(listening.getsockname()[0].partition("%")[0]).is_loopback


def bound_address(host: str, port: int, *, network: bool) -> socket.socket:
    """`network`: other machines may connect."""
    family, address = _resolved(host, port)
    if not network and not ipaddress.ip_address(address[0].partition("%")[0]).is_loopback:
        raise CannotServe(
            f"Other machines could connect to {host}, and read what is sent, the tokens too.",
            "Give --tls-cert and --tls-key, or --insecure-network if something else protects the network.",
        )
    try:
        listening = socket.create_server(address, family=family, backlog=BACKLOG)
    except OSError as problem:
        raise CannotServe(*_why_not(problem, host, port)) from None
    # Its connections inherit it. Else the body of an answer waits 40 ms for the client to confirm the head: asyncio
    # sets it only on sockets that name their protocol.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _resolved(host: str, port: int) -> tuple[socket.AddressFamily, tuple[str, int]]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as problem:
        raise CannotServe(f"--host {host} is no address: {problem.strerror}.") from None
    family, *_, address = found[0]
    return family, address  # type: ignore[return-value]  # of IPv6 with two numbers more


def _why_not(problem: OSError, host: str, port: int) -> tuple[str, str]:
    match problem.errno:
        case errno.EADDRINUSE:
            return (
                f"Port {port} of {host} is in use.",
                "Give --port another number, or 0 for any that is free.",
            )
        case errno.EADDRNOTAVAIL:
            return f"{host} is no address of this machine.", "Give --host one that is, e.g. 127.0.0.1."
        case errno.EACCES:
            return f"Port {port} is only for root.", "Give --port a number from 1024 on."
        case _:
            return f"Cannot listen on {host} port {port}: {problem.strerror}.", ""


def bound_unix(path: str) -> socket.socket:
    _remove_left_over(path)
    listening, umask = socket.socket(socket.AF_UNIX), os.umask(0o177)
    try:
        listening.bind(path)
        listening.listen(BACKLOG)
    except OSError as problem:
        listening.close()
        raise CannotServe(f"Cannot listen on {path}: {problem.strerror or problem}.") from None
    finally:
        os.umask(umask)
    return listening


def _remove_left_over(path: str) -> None:
    """The socket of a server that was killed."""
    try:
        is_socket = stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return
    if not is_socket:
        raise CannotServe(f"{path} exists, and is no socket.", "Give --unix another path.")
    if _answers(path):
        raise CannotServe(f"Another server listens on {path}.", "Stop it, or give --unix another path.")
    os.unlink(path)


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return False
        except OSError:
            return True
        return True


def remove_unix(path: str, ours: os.stat_result) -> None:
    """Unless another server has put its own there."""
    with contextlib.suppress(OSError):
        if os.path.samestat(os.lstat(path), ours):
            os.unlink(path)


def shown_address(listening: socket.socket, *, tls: bool) -> str:
    """As a client's configuration has it."""
    if listening.family == socket.AF_UNIX:
        return f"unix:{listening.getsockname()} (http://localhost/mcp)"
    return f"{_address(listening, listening.getsockname()[0], tls=tls)}/mcp"


def browser_address(listening: socket.socket, names: Sequence[str], *, tls: bool) -> str | None:
    """Where a browser of this machine finds the page; None: it cannot open a unix socket."""
    if listening.family == socket.AF_UNIX:
        return None
    host = listening.getsockname()[0]
    if tls and names:
        host = names[0]  # the certificate is for a name
    elif ipaddress.ip_address(host.partition("%")[0]).is_unspecified:
        # Not `localhost`: that may lead to ::1, where another user can listen while we have only IPv4.
        host = "::1" if listening.family == socket.AF_INET6 else "127.0.0.1"
    return _address(listening, host, tls=tls)


def _address(listening: socket.socket, host: str, *, tls: bool) -> str:
    port = listening.getsockname()[1]
    return f"http{'s' if tls else ''}://{f'[{host}]' if ':' in host else host}:{port}"

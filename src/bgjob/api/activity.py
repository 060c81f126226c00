"""What a job is doing, as /proc tells its owner. What the kernel does not tell is None."""

import contextlib
import os
import socket
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

from bgjob.core.frozen import Frozen
from bgjob.system.processes import LINUX, TICKS_PER_S, link_target, pss_bytes, read_if_there

MemoryKind = Literal["pss", "rss"]

COMMAND_LENGTH = 120
# for PSS the kernel walks every page, 10 to 20 ms a gigabyte: above this, RSS has to do
PSS_UP_TO_BYTES = 512 << 20
TCP_LISTEN = 10
NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY = 4, 20
NLM_F_REQUEST, NLM_F_DUMP, NLMSG_DONE = 0x1, 0x300, 3
NETLINK_HEADER = struct.Struct("=IHHII")
STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "waiting for a device",
    "T": "stopped",
    "t": "traced",
    "Z": "dead, not reaped",
    "I": "idle",
}


class Process(Frozen):
    pid: int
    parent_pid: int
    command: str
    """In one line, shortened."""
    state: str


class Listening(Frozen):
    port: int
    address: str
    pid: int
    """The first of the processes that hold the socket."""


class Activity(Frozen):
    process_count: int
    cpu_s: float | None
    """Used by these processes and by those children of theirs that have ended and were waited for."""
    memory_bytes: int | None
    memory_kind: MemoryKind | None
    """pss: pages that are shared count by share. rss: they count in every process, so the sum is too high."""
    read_bytes: int | None
    """Through read() and its like (rchar): files, pipes, terminals, cached or not; not by recv() of sockets."""
    written_bytes: int | None
    """Through write() and its like (wchar)."""
    tree: list[Process] | None
    listening: list[Listening] | None
    """TCP only."""


def activity(pids: Sequence[int]) -> Activity:
    """Of those processes that still exist."""
    if not LINUX:
        return Activity(len(pids), None, None, None, None, None, None, None)
    records = [record for record in map(_Stat.of, pids) if record]
    alive = [record.pid for record in records]
    memory_bytes, memory_kind = _memory(records)
    read_bytes, written_bytes = _transferred(alive)
    return Activity(
        process_count=len(records),
        cpu_s=sum(record.cpu_ticks for record in records) / TICKS_PER_S,
        memory_bytes=memory_bytes,
        memory_kind=memory_kind,
        read_bytes=read_bytes,
        written_bytes=written_bytes,
        tree=[Process(record.pid, record.parent_pid, _command(record), record.state) for record in records],
        listening=listening_ports(alive),
    )


# -- one process ------------------------------------------------------------------------------------


class _Stat(Frozen):
    pid: int
    name: str
    state: str
    parent_pid: int
    cpu_ticks: int
    rss_bytes: int

    @classmethod
    def of(cls, pid: int) -> "_Stat | None":
        if not (line := read_if_there(f"/proc/{pid}/stat")):
            return None
        start, _, rest = line.rpartition(b") ")
        fields = rest.split()  # proc(5) counts from 1 and from the pid: its field n is n - 3 here
        state = fields[0].decode()
        return cls(
            pid=pid,
            name=start.partition(b" (")[2].decode(errors="replace"),
            state=STATES.get(state, state),
            parent_pid=int(fields[1]),
            cpu_ticks=sum(map(int, fields[11:15])),
            rss_bytes=int(fields[21]) * os.sysconf("SC_PAGE_SIZE"),
        )


def _command(record: _Stat) -> str:
    words = (
        (read_if_there(f"/proc/{record.pid}/cmdline") or b"")
        .rstrip(b"\0")
        .decode(errors="replace")
        .split("\0")
    )
    line = " ".join(words) or f"[{record.name}]"
    line = "".join(character if character.isprintable() else " " for character in line[: COMMAND_LENGTH + 1])
    return line if len(line) <= COMMAND_LENGTH else line[: COMMAND_LENGTH - 1] + "…"


def _memory(records: Sequence[_Stat]) -> tuple[int | None, MemoryKind | None]:
    rss_bytes = sum(record.rss_bytes for record in records)
    if rss_bytes > PSS_UP_TO_BYTES:
        return rss_bytes, "rss"
    shares = [_pss_bytes(record) for record in records]
    known = [share for share in shares if share is not None]
    return (sum(known), "pss") if len(known) == len(shares) else (rss_bytes, "rss")


def _pss_bytes(record: _Stat) -> int | None:
    if not record.rss_bytes:
        return 0  # a dead process has no memory
    return pss_bytes(record.pid)


def _transferred(pids: Sequence[int]) -> tuple[int | None, int | None]:
    """None if one of the processes does not tell: a sum without it would look like an answer."""
    read = written = 0
    for pid in pids:
        counts = dict(line.split(b": ") for line in (read_if_there(f"/proc/{pid}/io") or b"").splitlines())
        if not counts and _exists(pid):
            return None, None
        read += int(counts.get(b"rchar", 0))
        written += int(counts.get(b"wchar", 0))
    return read, written


def _exists(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


# -- ports ------------------------------------------------------------------------------------------


def listening_ports(pids: Sequence[int]) -> list[Listening] | None:
    """The TCP ports on which these processes take connections.

    None: none is known, and we may not look at one of the processes (another user's, as with sudo).
    """
    if not LINUX:
        return None
    held = {pid: _sockets(pid) for pid in pids}
    found = {
        Listening(port, address, pid)
        for members in _by_network(pid for pid in pids if held[pid])
        for inode, port, address in _listeners(members[0])
        if (pid := next((pid for pid in members if inode in (held[pid] or ())), None))
    }
    is_all_told = all(sockets is not None for sockets in held.values())
    return sorted(found, key=_by_port) if found or is_all_told else None


def _by_port(held: Listening) -> tuple[int, str, int]:
    return held.port, held.address, held.pid


def port_holder(port: int) -> int | None:
    """The process that listens on this TCP port, if we may see it. Only our own network is looked at."""
    if not LINUX:
        return None
    inodes = {inode for inode, number, _ in _listeners("self") if number == port}
    if not inodes:
        return None
    pids = sorted(map(int, filter(str.isdigit, os.listdir("/proc"))))
    return next((pid for pid in pids if inodes & (_sockets(pid) or set())), None)


def _sockets(pid: int) -> set[int] | None:
    """The inodes of a process's sockets; None: we may not look."""
    directory = f"/proc/{pid}/fd"
    try:
        names = os.listdir(directory)
    except (FileNotFoundError, ProcessLookupError):
        return set()  # gone: it holds nothing
    except OSError:
        return None
    targets = (link_target(f"{directory}/{name}") for name in names)
    return {int(target[8:-1]) for target in targets if target.startswith("socket:[")}


def _by_network(pids: Iterable[int]) -> Iterable[list[int]]:
    """Processes that see the same ports, together."""
    networks: dict[str, list[int]] = {}
    for pid in pids:
        networks.setdefault(link_target(f"/proc/{pid}/ns/net"), []).append(pid)
    return networks.values()


def _listeners(member: int | Literal["self"]) -> Iterator[tuple[int, int, str]]:
    """inode, port and address of the listening sockets in the network that this process is in."""
    families = (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6))
    if link_target(f"/proc/{member}/ns/net") == link_target("/proc/self/ns/net"):
        with contextlib.suppress(OSError):  # a kernel without it
            return iter([found for _, family in families for found in _ask_for_listeners(family)])
    return (found for name, family in families for found in _read_listeners(member, name, family))


def can_ask_for_listeners() -> bool:
    """False: a kernel without sock_diag(7), or a sandbox."""
    try:
        next(_ask_for_listeners(socket.AF_INET), None)
    except OSError:
        return False
    return True


def _ask_for_listeners(family: socket.AddressFamily) -> Iterator[tuple[int, int, str]]:
    """By sock_diag(7): only what listens, where /proc/net/tcp walks the table of all connections: 10 ms."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_SOCK_DIAG) as line:
        question = struct.pack("=BBBxI48x", family, socket.IPPROTO_TCP, 0, 1 << TCP_LISTEN)
        header = NETLINK_HEADER.pack(
            NETLINK_HEADER.size + len(question), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP, 1, 0
        )
        line.sendto(header + question, (0, 0))
        while True:
            for kind, body in _messages(line.recv(1 << 16)):
                if kind == NLMSG_DONE:
                    return
                if kind != SOCK_DIAG_BY_FAMILY:
                    raise OSError("the kernel cannot be asked for sockets")
                size_bytes = 4 if family == socket.AF_INET else 16
                address = socket.inet_ntop(family, body[8 : 8 + size_bytes])
                yield int.from_bytes(body[68:72], sys.byteorder), int.from_bytes(body[4:6], "big"), address


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    while data:
        length, kind, *_ = NETLINK_HEADER.unpack_from(data)
        yield kind, data[NETLINK_HEADER.size : length]
        data = data[(length + 3) & ~3 :]


def _read_listeners(
    member: int | Literal["self"], name: str, family: socket.AddressFamily
) -> Iterator[tuple[int, int, str]]:
    for fields in _lines_while(f"/proc/{member}/net/{name}", lambda fields: int(fields[3], 16) == TCP_LISTEN):
        address, _, port = fields[1].partition(b":")
        yield int(fields[9]), int(port, 16), _address(family, bytes.fromhex(address.decode()))


def _lines_while(path: str, holds: Callable[[list[bytes]], bool]) -> Iterator[list[bytes]]:
    """The kernel lists listening sockets first: what follows may be a hundred thousand connections."""
    try:
        with open(path, "rb") as lines:
            next(lines, None)  # the headings
            for line in lines:
                fields = line.split()
                if not holds(fields):
                    return
                yield fields
    except OSError:
        return  # no IPv6, or the process has just ended


def _address(family: socket.AddressFamily, words: bytes) -> str:
    """The kernel prints an address as 32-bit numbers of the machine's own order."""
    if sys.byteorder == "little":
        words = b"".join(words[at : at + 4][::-1] for at in range(0, len(words), 4))
    return socket.inet_ntop(family, words)

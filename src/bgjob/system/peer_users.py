"""Which user has connected to us, by TCP, from the same machine."""

TABLES = "/proc/net/tcp", "/proc/net/tcp6"
ESTABLISHED = "01"


def peer_users(peer_port: int, own_port: int) -> set[int]:
    """Their uids; empty: of another machine or container, or it cannot be known here.

    By ports alone: if several connections have the same ones, all count.
    """
    return {uid for path in TABLES for uid in _users_in(path, f"{peer_port:04X}", f"{own_port:04X}")}


def _users_in(path: str, peer_port: str, own_port: str) -> set[int]:
    try:
        with open(path) as table:
            rows = [line.split() for line in table]
    except OSError:
        return set()
    return {
        int(row[7])
        for row in rows[1:]
        if row[3] == ESTABLISHED and row[1].endswith(f":{peer_port}") and row[2].endswith(f":{own_port}")
    }

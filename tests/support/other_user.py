"""Another user of this machine, as a real process: it starts as root, and is nobody before its script begins."""

import contextlib
import os
import subprocess
import sys

import pytest

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
# What it imports is below directories that only root may enter, perhaps.
BECOME_NOBODY = f"""
import encodings.idna, os, resource, socket, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192))
os.setgroups([])
os.setresgid({NOBODY}, {NOBODY}, {NOBODY})
os.setresuid({NOBODY}, {NOBODY}, {NOBODY})
os.chdir("/")
def connected(to):
    connection = socket.socket(socket.AF_UNIX if "/" in to else socket.AF_INET)
    connection.settimeout(120)
    connection.connect(to if "/" in to else ("127.0.0.1", int(to)))
    return connection
def all_of(connection):
    received = b""
    try:
        while piece := connection.recv(65536):
            received += piece
    except ConnectionResetError:
        pass
    return received
def told(line):
    print(line, flush=True)
"""
SEND = """
to, request = sys.argv[1], bytes.fromhex(sys.argv[2])
try:
    with connected(to) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR) if "half-closed" in sys.argv else None
        told(all_of(connection).hex())
except TimeoutError:
    raise
except OSError:
    told("")
"""


class OtherUser(contextlib.AbstractContextManager["OtherUser"]):
    """Run a script as the user nobody, with `connected`, `all_of` and `told`; it is ended with the block."""

    def __init__(self, script: str, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", BECOME_NOBODY + script, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        """Return the next line that the script has sent by `told`."""
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line, "it has failed"
        return line.removesuffix("\n")

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def answer_as_nobody(to: object, request: bytes, *how: str) -> bytes:
    """All that a server on a port or at a path answers; nothing if it ends the connection."""
    with OtherUser(SEND, to, request.hex(), *how) as other:
        return bytes.fromhex(other.line())

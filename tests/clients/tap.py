"""What a client and our server say to each other, kept in files: on a pipe by tee, on a socket by a relay."""

import contextlib
import json
import shlex
import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

Message = dict[str, Any]
PROTOCOL_VERSION = "io.modelcontextprotocol/protocolVersion"
RELAYED_BYTES = 1 << 16
MOST_CONNECTIONS = 100
DECODER = json.JSONDecoder()


class Tap:
    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._asked, self._answered = directory / "asked", directory / "answered"

    def around(self, command: Sequence[str]) -> list[str]:
        """A command that does what this one does, with its stdin and stdout kept."""
        asked, answered = shlex.quote(str(self._asked)), shlex.quote(str(self._answered))
        return ["/bin/sh", "-c", f"tee -a {asked} | {shlex.join(command)} | tee -a {answered}"]

    @contextlib.contextmanager
    def relay(self, port: int) -> Iterator[int]:
        """The port of a relay to this port of ours."""
        with (
            contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener,
            ThreadPoolExecutor(MOST_CONNECTIONS) as pool,
        ):
            pool.submit(self._accept, listener, port, pool)
            yield int(listener.getsockname()[1])
            listener.shutdown(socket.SHUT_RDWR)

    def _accept(self, listener: socket.socket, port: int, pool: Executor) -> None:
        """Until the listener is shut down."""
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                pool.submit(self._connect, client, port)

    def _connect(self, client: socket.socket, port: int) -> None:
        with client, socket.create_connection(("127.0.0.1", port)) as server, ThreadPoolExecutor(1) as other:
            other.submit(pass_on, server, client, self._answered)
            pass_on(client, server, self._asked)

    @property
    def asked(self) -> list[Message]:
        return list(messages(self._asked))

    @property
    def answered(self) -> list[Message]:
        return list(messages(self._answered))

    @property
    def methods(self) -> list[str]:
        return [message["method"] for message in self.asked if "method" in message]

    @property
    def protocol(self) -> str:
        """What both agreed on: the version of a request after server/discover, or the answer to initialize."""
        for message in self.asked:
            meta = message.get("params", {}).get("_meta", {})
            if PROTOCOL_VERSION in meta and message["method"] != "server/discover":
                return str(meta[PROTOCOL_VERSION])
        return next(found for found in map(agreed_version, self.answered) if found)


def agreed_version(answer: Message) -> str:
    return str(answer.get("result", {}).get("protocolVersion", ""))


def pass_on(source: socket.socket, sink: socket.socket, kept: Path) -> None:
    """Until either end is closed; then both are."""
    with kept.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while data := source.recv(RELAYED_BYTES):
            file.write(data)
            sink.sendall(data)
    for end in (source, sink):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def messages(kept: Path) -> Iterator[Message]:
    """Each JSON-RPC message in the bytes, whatever stands around it: lines, HTTP headers, events."""
    text, place = kept.read_text(errors="replace") if kept.exists() else "", 0
    while (place := text.find("{", place)) >= 0:
        try:
            found, place = DECODER.raw_decode(text, place)
        except ValueError:
            place += 1
            continue
        if "jsonrpc" in found:
            yield found

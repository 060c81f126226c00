"""The model: an HTTP server on loopback that answers by the script of the prompt, and keeps every request."""

import contextlib
import gzip
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from tests.clients.model.script import Conversation, Step, next_step
from tests.clients.model.wires import WIRES, Body, Wire

PATIENCE_S = 300.0
"""Ends what hangs: a client takes seconds, and a busy machine makes it slower."""


class Asked(NamedTuple):
    """A request of a client to its model."""

    path: str
    headers: dict[str, str]
    body: Body
    conversation: Conversation
    step: Step
    """What the model answers."""

    @property
    def news(self) -> str:
        return self.conversation.news


class Model:
    def __init__(self) -> None:
        self._asked: list[Asked] = []
        self._changed = threading.Condition()
        self._released: set[str] = set()
        self._is_closed = False
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a killed client hangs up
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def asked(self) -> list[Asked]:
        """Those of the conversation: a client asks for titles and the like without tools."""
        with self._changed:
            return [asked for asked in self._asked if asked.conversation.tools]

    def release(self, word: str) -> None:
        """From now on an answer that is held by this word comes at once."""
        with self._changed:
            self._released.add(word)
            self._changed.notify_all()

    def do_while_held(self, word: str, meanwhile: Callable[[], object]) -> None:
        """When the model is asked for the step that is held by this word; then that is answered."""
        self.wait_for(lambda asked: asked.step.held == word, f"the step that is held by {word}")
        meanwhile()
        self.release(word)

    def wait_for(self, is_meant: Callable[[Asked], bool], what: str) -> Asked:
        """The first such request of the conversation; it may have been before."""
        self._wait(lambda: any(map(is_meant, self.asked)), what)
        return next(asked for asked in self.asked if is_meant(asked))

    def wait_for_news(self, text: str, count: int = 1) -> list[Asked]:
        """Requests that tell the model this, which it was not told before: so many at least."""

        def told() -> list[Asked]:
            return [asked for asked in self.asked if text in asked.news]

        self._wait(lambda: len(told()) >= count, f"{count} requests with {text!r}")
        return told()

    def _wait(self, is_so: Callable[[], bool], what: str) -> None:
        with self._changed:
            came = self._changed.wait_for(is_so, PATIENCE_S)
        assert came, f"the model was not asked in {PATIENCE_S:.0f} s: {what}. It was told:\n{self.told()}"

    def told(self) -> str:
        """Everything new of each request, for a test that fails."""
        return "\n".join(
            f"{number}. {asked.news[-1500:]}\n   -> {asked.step}"
            for number, asked in enumerate(self.asked, 1)
        )

    # -- one request --------------------------------------------------------------------------------

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                model._answer(self, json.loads(_content(self) or b"{}"))

            def do_GET(self) -> None:
                one = {"id": "scripted", "type": "model", "object": "model"}
                _reply(self, {"object": "list", "data": [one], "models": []})

            def do_HEAD(self) -> None:
                _reply(self, {})

            def log_message(self, *_: object) -> None:
                pass

        return Handler

    def _answer(self, request: BaseHTTPRequestHandler, body: Body) -> None:
        path = request.path.partition("?")[0]
        wire = next((wire for wire in WIRES if path.endswith(wire.ending)), None)
        if wire is None:
            return _reply(request, {"input_tokens": 100} if path.endswith("count_tokens") else {})
        conversation = wire.read(body)
        step = next_step(conversation)
        asked = Asked(request.path, dict(request.headers.items()), body, conversation, step)
        with self._changed:
            self._asked.append(asked)
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: not step.held or step.held in self._released or self._is_closed, PATIENCE_S
            )
        self._write(request, wire, body, step)

    def _write(self, request: BaseHTTPRequestHandler, wire: Wire, body: Body, step: Step) -> None:
        if not wire.is_streamed(request.path, body):
            return _reply(request, wire.answer(body, step))
        request.send_response(200)
        request.send_header("Content-Type", "text/event-stream")
        request.send_header("Connection", "close")
        request.end_headers()
        request.close_connection = True
        for name, data in wire.stream(body, step):
            text = data if isinstance(data, str) else json.dumps(data)
            heading = f"event: {name}\n" if name else ""
            request.wfile.write(f"{heading}data: {text}\n\n".encode())
        request.wfile.flush()


def _content(request: BaseHTTPRequestHandler) -> bytes:
    length = request.headers.get("Content-Length")
    raw = request.rfile.read(int(length)) if length else b"".join(_chunks(request))
    return gzip.decompress(raw) if request.headers.get("Content-Encoding") == "gzip" else raw


def _chunks(request: BaseHTTPRequestHandler) -> Iterator[bytes]:
    if "chunked" not in request.headers.get("Transfer-Encoding", ""):
        return
    while size := int(request.rfile.readline().strip() or b"0", 16):
        yield request.rfile.read(size)
        request.rfile.readline()
    request.rfile.readline()


def _reply(request: BaseHTTPRequestHandler, answer: Any) -> None:
    raw = json.dumps(answer).encode()
    request.send_response(200)
    request.send_header("Content-Type", "application/json")
    request.send_header("Content-Length", str(len(raw)))
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(raw)


@contextlib.contextmanager
def running_model() -> Iterator[Model]:
    with contextlib.closing(Model()) as model:
        yield model

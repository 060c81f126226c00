"""The server: starts, listens, and stops when it is told to."""

import contextlib
import logging
import os
import signal
import socket
import ssl
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import uvicorn

from bgjob.core.errors import BgjobError, CannotServe
from bgjob.mcp.server import FOLDERS, PACKAGES, read_schemas
from bgjob.mcp.stderr import use_lossy_stderr
from bgjob.system.open_files import raise_limit
from bgjob.system.own_package import import_when_idle
from bgjob.web.access import note_refused_user
from bgjob.web.app import App
from bgjob.web.connection import IDLE_S, MOST_REQUESTS, TimedConnection
from bgjob.web.listen import (
    Door,
    Handshakes,
    bound_address,
    bound_unix,
    browser_address,
    remove_unix,
    shown_address,
)
from bgjob.web.page import files
from bgjob.web.page.logins import Logins, keyed
from bgjob.web.servers import announced
from bgjob.web.services import Services
from bgjob.web.tokens import DEFAULT, Tokens

STOPPING_S = 8
OPEN_FILES = 16384
"""A wait takes five descriptors."""


@dataclass(frozen=True)
class Options:
    host: str
    port: int
    unix: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    insecure_network: bool = False
    allow_other_users: bool = False
    metrics: bool = False
    names: Sequence[str] = ()


def serve(environ: Mapping[str, str], options: Options, tell: Callable[[str], None]) -> None:
    """Until SIGTERM or SIGINT. `tell`: gives the user a line."""
    services = Services(environ)
    tokens = Tokens(services.jobs.home)
    with contextlib.ExitStack() as undo:
        undo.callback(services.close)
        app = App(services, tokens, options.names, metrics=options.metrics)
        handshakes = Handshakes()
        server = Server(_config(app, options, handshakes), app.stop)
        listening = undo.enter_context(
            Door(
                _listening(options, undo),
                any_user=options.allow_other_users,
                handshakes=handshakes if options.tls_cert else None,
                on_refused=partial(note_refused_user, services.jobs.home),
            )
        )
        server.take_signals()  # first: who is told where it listens may stop it
        _tell_token(tokens, tell)
        tls = options.tls_cert is not None
        if page := browser_address(listening, options.names, tls=tls):
            _tell_page(page, app.page.logins, tell)
            _announce(services.jobs.home, page, undo)
        tell(f"Listening on {shown_address(listening, tls=tls)}")
        use_lossy_stderr()
        raise_limit(OPEN_FILES)
        import_when_idle((*FOLDERS, "web", "web.page"), PACKAGES, read_files)
        server.run([listening])


def read_files() -> None:
    read_schemas()
    files.load()


class Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, on_stop: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_stop = on_stop

    def take_signals(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.handle_exit)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """They are taken already. A signal stops the server, and does not end the process as well."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_stop()
        await super().shutdown(sockets)


def _config(app: App, options: Options, handshakes: Handshakes) -> uvicorn.Config:
    logging.getLogger("uvicorn").setLevel(logging.ERROR)  # what clients do wrong is answered, not logged
    config = uvicorn.Config(
        app,
        http=partial(TimedConnection, handshakes),  # type: ignore[arg-type]  # uvicorn only calls it
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_REQUESTS + 1,  # uvicorn refuses from this number on
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=STOPPING_S,
        ssl_certfile=options.tls_cert,
        ssl_keyfile=options.tls_key,
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as problem:
        files = f"{options.tls_cert} and {options.tls_key}"
        raise CannotServe(
            f"TLS cannot be used with {files}: {problem}.", "Give a certificate and its key, both PEM."
        ) from None
    return config


def _listening(options: Options, undo: contextlib.ExitStack) -> socket.socket:
    if options.unix is None:
        network = options.insecure_network or options.tls_cert is not None
        return undo.enter_context(bound_address(options.host, options.port, network=network))
    listening = undo.enter_context(bound_unix(options.unix))
    undo.callback(remove_unix, options.unix, os.lstat(options.unix))
    return listening


def _tell_token(tokens: Tokens, tell: Callable[[str], None]) -> None:
    if plain := tokens.add_first():
        try:
            tell(f"Token (shown only this once): {plain}")
        except Exception:
            tokens.remove(DEFAULT)  # never seen: the next start makes another
            raise
    else:
        tell(f"Tokens are in {tokens.path}, hashed; bgjob token add NAME makes another.")


def _tell_page(address: str, logins: Logins, tell: Callable[[str], None]) -> None:
    try:
        tell(f"Page (opens once): {keyed(f'{address}/', logins.add_key())}")
    except (OSError, BgjobError) as problem:
        tell(f"Page: {address}/, to which no browser can log in now: {problem}")


def _announce(home: str, address: str, undo: contextlib.ExitStack) -> None:
    """MCP clients need it not: the server also runs where it cannot be written down."""
    with contextlib.suppress(OSError):
        undo.enter_context(announced(home, address))

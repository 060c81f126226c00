"""A real `bgjob serve` with its page, which can be killed and started again where it was."""

import contextlib
import signal
from collections.abc import Collection
from pathlib import Path

from bgjob.core.scopes import SCOPES
from bgjob.web.page.logins import Logins
from tests.support.http_server import HttpServer


class Site(contextlib.AbstractContextManager["Site"]):
    def __init__(self, home: Path, **environment: str) -> None:
        self.home, self._environment = home, environment
        self.server = HttpServer(home, **environment)
        self.port = self.server.port

    def __exit__(self, *_: object) -> None:
        self.server.__exit__()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def new_address(self, path: str = "/", scopes: Collection[str] = tuple(SCOPES)) -> str:
        """With a key that logs one browser in, once."""
        return f"{self.origin}{path}#key={Logins(str(self.home)).add_key(scopes)}"

    def kill(self) -> None:
        self.server.process.send_signal(signal.SIGKILL)
        self.server.process.wait()

    def start_again(self) -> None:
        self.server.__exit__()
        self.server = HttpServer(self.home, "--port", str(self.port), **self._environment)

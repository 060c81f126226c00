"""Where a client finds our server: a command that it starts, or an address and a token. What both say is kept."""

import contextlib
import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.clients.tap import Tap
from tests.support.http_server import HttpServer

BGJOB = Path(sys.executable).with_name("bgjob")


@dataclasses.dataclass(frozen=True)
class Endpoint:
    transport: str
    tap: Tap
    command: tuple[str, ...] = ()
    url: str = ""
    token: str = ""

    @property
    def authorization(self) -> str:
        return f"Bearer {self.token}"


def on_stdio(directory: Path, jobs_home: Path) -> Endpoint:
    tap = Tap(directory)
    serve = ["env", f"BGJOB_HOME={jobs_home}", str(BGJOB), "mcp"]
    return Endpoint("stdio", tap, command=tuple(tap.around(serve)))


@contextlib.contextmanager
def on_http(directory: Path, jobs_home: Path) -> Iterator[Endpoint]:
    tap = Tap(directory)
    with HttpServer(jobs_home) as server, tap.relay(server.port) as relay:
        yield Endpoint("http", tap, url=f"http://127.0.0.1:{relay}/mcp", token=server.token)

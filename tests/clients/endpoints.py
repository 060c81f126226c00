"""Where a client finds our server: a command that it starts, or an address and a token. What both say is kept."""

import dataclasses
import sys
from pathlib import Path

from tests.clients.tap import Tap

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

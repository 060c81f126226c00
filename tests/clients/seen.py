"""What the clients were seen to do: seen.json, from which docs/clients.md is made.

A test that has seen something else than what is written there fails, or, with BGJOB_UPDATE=1, writes it down.
"""

import json
import os
from pathlib import Path

from tests.clients.packages import MODULES
from tests.support.turns import turn

RECORD = Path(__file__).with_name("seen.json")
SWITCH = "BGJOB_UPDATE"


def check(part: str, name: str, now: object) -> None:
    with turn(MODULES):
        record = json.loads(RECORD.read_text())
        if os.environ.get(SWITCH):
            record[part][name] = now
            RECORD.write_text(json.dumps(record, indent=2, sort_keys=True) + "\n")
    written = record[part].get(name)
    assert now == written, (
        f"{name} was seen otherwise before. If that is right: {SWITCH}=1 scripts/test clients"
    )


def told(client: str, way: str, situation: str, what: str) -> None:
    """What became of the end of a job in this situation."""
    check("told", f"{client}/{way}/{situation}", {"seen": what})

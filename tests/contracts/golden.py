"""Files that are checked in and must be current: BGJOB_UPDATE=1 .venv/bin/pytest tests/contracts renews them."""

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
SWITCH = "BGJOB_UPDATE"


def check(path: Path, current: str) -> None:
    if os.environ.get(SWITCH):
        path.parent.mkdir(exist_ok=True)
        path.write_text(current)
    recorded = path.read_text() if path.exists() else ""
    assert current == recorded, (
        f"{path.relative_to(ROOT)} is not current. If the change is meant: "
        f"{SWITCH}=1 .venv/bin/pytest tests/contracts, and read the diff."
    )

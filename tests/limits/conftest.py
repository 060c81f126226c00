"""For all tests of limits."""

from pathlib import Path

import pytest

from tests.support.limiting import BOMB, GENERATIONS


@pytest.fixture
def bomb(tmp_path: Path) -> str:
    script = tmp_path / "bomb.sh"
    script.write_text(BOMB)
    return f"sh {script} {GENERATIONS}"

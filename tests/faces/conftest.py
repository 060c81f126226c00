"""What the tests of the command line share."""

from pathlib import Path

import pytest

from tests.faces.command_line import Cli


@pytest.fixture
def cli(home: Path) -> Cli:
    """On a home of the test's own."""
    return Cli(home)

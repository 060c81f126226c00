"""docs/clients.md says what tests/clients has seen.

After a change there: BGJOB_UPDATE=1 .venv/bin/pytest tests/contracts, and read the diff.
"""

from collections.abc import Callable

import pytest

from tests.contracts import client_tables, doc_tables, golden

PAGE = golden.ROOT / "docs" / "clients.md"


@pytest.mark.parametrize(
    ("section", "current"),
    [
        ("clients", client_tables.clients),
        ("told", client_tables.told),
        ("suites", client_tables.suites),
        ("not-applicable", client_tables.not_applicable),
    ],
)
def test_a_table_is_current(section: str, current: Callable[[], str]) -> None:
    golden.check(PAGE, doc_tables.with_section(PAGE.read_text(), section, current()))

"""The table by which completion knows what commands accept is made from their parsers."""

import json

from bgjob.cli.completion.table import completion_table
from tests.contracts import golden

TABLE = golden.ROOT / "src" / "bgjob" / "cli" / "completion" / "completion.json"


def test_the_table_of_completion_is_current() -> None:
    golden.check(TABLE, json.dumps(completion_table(), indent=1) + "\n")

"""The page about targets: its keys are those of the code, and its examples are accepted."""

import re
import tomllib

import pytest

from bgjob.core.target_keys import KEYS, keys_as_markdown
from bgjob.core.targets import targets_from
from tests.contracts import doc_tables, golden

PATH = golden.ROOT / "docs" / "targets.md"
EXAMPLES = re.findall(r"(?ms)^ *```toml\n(.*?)^ *```$", PATH.read_text())


def test_its_keys_are_current() -> None:
    golden.check(PATH, doc_tables.with_section(PATH.read_text(), "keys", keys_as_markdown()))


@pytest.mark.parametrize("example", EXAMPLES)
def test_its_examples_are_accepted(example: str) -> None:
    assert targets_from("targets.toml", tomllib.loads(example))


def test_its_last_example_has_every_key() -> None:
    table = tomllib.loads(EXAMPLES[-1])
    assert {key for values in table.values() for key in values} == {key.name for key in KEYS}

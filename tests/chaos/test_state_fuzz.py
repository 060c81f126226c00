"""A home in which anything may have happened to any file, and everything that reads one.

No reader raises what it should not, hangs, takes much memory, or opens anything outside of the home; what happens to
one job does not happen to another. The mutations are derived from the schemas of the records. One in 31 of some 8,000
is tried; with BGJOB_STATE_FUZZ=all, each.
"""

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bgjob.store import record_schema
from tests.chaos.state_mutations import all_mutations, make_home
from tests.support.requires import linux_only

AT_ONCE = 4  # it waits as long as it works
SHARE = 1 if os.environ.get("BGJOB_STATE_FUZZ") == "all" else 31
FEWEST = 200
HERE = Path(__file__).parents[2]


@linux_only
@pytest.mark.timeout(1800)
def test_no_reader_fails_hangs_or_leaves_the_home_whatever_lies_in_it() -> None:
    with ThreadPoolExecutor(AT_ONCE) as threads:
        parts = list(threads.map(tried, range(AT_ONCE)))
    wrong = [line for part in parts for line in part if "tried" not in line]
    count = sum(line["tried"] for part in parts for line in part if "tried" in line)
    assert not wrong, "\n".join(
        f"{each['mutation']}: {each['reader']}: {each['what']}" for each in wrong[:50]
    )
    assert count >= FEWEST
    print(f"{count} mutations")


def test_each_field_that_a_record_may_have_is_tried(tmp_path: Path) -> None:
    """Also one that is added to the schema of a record, and that no job here has yet."""
    make_home(tmp_path / "home")
    fields = {
        name
        for rules in vars(record_schema)
        if rules.endswith("_RULES")
        for name in getattr(record_schema, rules)
    }
    tried = {
        word
        for mutation in all_mutations(tmp_path / "home")
        if mutation.what.endswith("is half a character")
        for word in re.findall(r"\w+", mutation.what)
    }
    assert len(fields) > 60
    assert fields - tried == set()


def tried(part: int) -> list[dict[str, Any]]:
    """In a process of its own: it forks one for each mutation, and must have no threads for that."""
    script = [sys.executable, "-m", "tests.chaos.state_readers", str(part * SHARE), str(AT_ONCE * SHARE)]
    done = subprocess.run(script, cwd=HERE, stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]

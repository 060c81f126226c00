"""JSON that scripts read, on a line of its own."""

import json
from collections.abc import Mapping


def as_line(record: Mapping[str, object]) -> str:
    """What is not ASCII is escaped, so that nothing in it steers a terminal."""
    return json.dumps(record)

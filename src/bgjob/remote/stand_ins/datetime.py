"""`datetime` with UTC, of 3.11."""

import datetime as library
from typing import Any

UTC = library.timezone.utc  # noqa: UP017


def __getattr__(name: str) -> Any:
    return getattr(library, name)

"""`bisect` with a key, of 3.10."""

from __future__ import annotations

import bisect as library
from collections.abc import Callable, Sequence
from typing import Any

Key = Callable[[Any], Any]


def bisect_left(
    found: Sequence[Any], value: Any, lo: int = 0, hi: int | None = None, *, key: Key | None = None
) -> int:
    hi = len(found) if hi is None else hi
    return library.bisect_left(found if key is None else _Keys(found, key), value, lo, hi)


def bisect_right(
    found: Sequence[Any], value: Any, lo: int = 0, hi: int | None = None, *, key: Key | None = None
) -> int:
    hi = len(found) if hi is None else hi
    return library.bisect_right(found if key is None else _Keys(found, key), value, lo, hi)


class _Keys:
    """The key of each, made when it is looked at."""

    def __init__(self, found: Sequence[Any], key: Key) -> None:
        self._found, self._key = found, key

    def __len__(self) -> int:
        return len(self._found)

    def __getitem__(self, index: int) -> Any:
        return self._key(self._found[index])

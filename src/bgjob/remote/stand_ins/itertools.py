"""`itertools` with pairwise, of 3.10."""

import itertools as library
from collections.abc import Iterable, Iterator
from typing import Any


def pairwise(values: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    left, right = library.tee(values)
    next(right, None)
    return zip(left, right)  # noqa: B905


def __getattr__(name: str) -> Any:
    return getattr(library, name)

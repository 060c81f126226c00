"""`typing` with names of 3.10 and 3.11, which only a type checker needs."""

import typing as library
from typing import Any, NoReturn


class _Any:
    """In square brackets, whatever is in them."""

    def __getitem__(self, _: object) -> Any:
        return object


Self = object
Unpack = Concatenate = _Any()


def ParamSpec(name: str) -> Any:  # noqa: N802
    return library.TypeVar(name)


def assert_never(value: object) -> NoReturn:
    raise AssertionError(f"Expected code to be unreachable, but got: {value!r}")


def dataclass_transform(**_: object) -> Any:
    return lambda decorated: decorated


def __getattr__(name: str) -> Any:
    return getattr(library, name)

"""The code that travels, as Python 3.9 and 3.10 run it."""

from collections.abc import Mapping


def lowered_package(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The same files, lowered."""
    raise ValueError("its python3 is older than 3.11")

"""There is no `tomllib` before 3.11."""

from typing import NoReturn


class TOMLDecodeError(ValueError):
    pass


def loads(_text: str) -> NoReturn:
    raise TOMLDecodeError("this machine's Python cannot read it, 3.11 and newer ones can")

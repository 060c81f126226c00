"""A regular expression that is compiled when it is first used: some take a millisecond, and a start uses few."""

import re
from typing import TYPE_CHECKING, Any, AnyStr


class _LatePattern:
    """Has the attributes of the compiled pattern as its own, from the first that is asked for."""

    def __init__(self, pattern: Any, flags: int) -> None:
        self.pattern, self._flags = pattern, flags

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(self.pattern, self._flags)
        attribute = self.__dict__[name] = getattr(compiled, name)
        return attribute


if TYPE_CHECKING:

    def late_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]: ...
else:

    def late_pattern(pattern, flags=0):
        return _LatePattern(pattern, flags)

"""The key by which a person leaves a job, however the terminal sends it."""

from bgjob.core.errors import InvalidArgument
from bgjob.terminal.keys import keys_to_bytes


class DetachKey:
    def __init__(self, name: str) -> None:
        """InvalidArgument: it is not ctrl and a character."""
        code = keys_to_bytes([name])
        if len(code) != 1 or not code < b" ":
            raise InvalidArgument(
                f"={name!r} is not accepted. Accepted: ctrl and a character, e.g. ctrl-] or ctrl-a.",
                argument="detach_key",
            )
        self.name, self.code = name, code
        letter = ord(chr(code[0] | 0x40).lower())
        # By the keyboard protocols that a program may have switched on: of kitty, and of xterm.
        self._forms = (code, b"\x1b[%d;5u" % letter, b"\x1b[27;5;%d~" % letter)

    def split(self, typed: bytes) -> tuple[bytes, bool]:
        """What was typed before the key, and whether the key was typed."""
        found = [at for at in map(typed.find, self._forms) if at >= 0]
        return (typed[: min(found)], True) if found else (typed, False)

"""Words as bash has them: a line taken apart up to the cursor, and a word quoted so that bash inserts it as it is.

Bash hands its completion the raw line. It replaces only what follows an open quote, or the last of its word breaks.
"""

from collections.abc import Sequence

from bgjob.core.frozen import Frozen

BLANKS = " \t\n"
PLAIN = "_-./:@%+,="
"""Beside letters and digits: they mean nothing to the shell within a word."""
SPECIAL_IN_DOUBLE_QUOTES = '$`"\\'


class Cursor(Frozen):
    """Where the cursor is."""

    before: Sequence[str]
    """The words before that of the cursor, without their quotes."""
    word: str
    """What of its word is before the cursor."""
    kept: int
    """How many characters of the word bash keeps: those before an open quote or a word break."""
    quote: str
    """The open quote, or the empty text."""

    def completed(self, word: str) -> str | None:
        """What bash is to insert for a word; None if the word cannot be written within this quote."""
        rest = word[self.kept :]
        if self.quote == "'":
            return rest.replace("'", "'\\''")
        if self.quote == '"':
            return None if "!" in rest else _escaped(rest, SPECIAL_IN_DOUBLE_QUOTES)
        return "".join(map(_plain, rest))


def _plain(character: str) -> str:
    return character if character.isalnum() or character in PLAIN or character > "\x7f" else f"\\{character}"


def _escaped(text: str, special: str) -> str:
    return "".join(f"\\{character}" if character in special else character for character in text)


def cursor_at(line: str, breaks: str) -> Cursor:
    """At the end of this line."""
    reader = _Reader(breaks)
    for character in line:
        reader.take(character)
    return Cursor(reader.words, "".join(reader.word), reader.kept, reader.quote)


class _Reader:
    def __init__(self, breaks: str) -> None:
        self.words: list[str] = []
        self.word: list[str] = []
        self.kept, self.quote = 0, ""
        self._breaks = set(breaks) - set(BLANKS)
        self._is_escaped = self._has_begun = False

    def take(self, character: str) -> None:
        if self._is_escaped:
            self._take_escaped(character)
        elif self.quote:
            self._take_quoted(character)
        elif character in BLANKS:
            self._end_word()
        elif character == "\\":
            self._is_escaped = True
        elif character in "'\"":
            self.quote, self._has_begun, self.kept = character, True, len(self.word)
        else:
            self._add(character)
            if character in self._breaks:
                self.kept = len(self.word)

    def _take_escaped(self, character: str) -> None:
        self._is_escaped = False
        if self.quote == '"' and character not in SPECIAL_IN_DOUBLE_QUOTES:
            self._add("\\")
        self._add(character)

    def _take_quoted(self, character: str) -> None:
        if character == self.quote:
            self.quote, self.kept = "", len(self.word)
        elif character == "\\" and self.quote == '"':
            self._is_escaped = True
        else:
            self._add(character)

    def _add(self, character: str) -> None:
        self.word.append(character)
        self._has_begun = True

    def _end_word(self) -> None:
        if self._has_begun:
            self.words.append("".join(self.word))
        self.word, self.kept, self._has_begun = [], 0, False

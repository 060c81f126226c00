"""Words as bash has them: what is completed reads as the word it stands for, whatever was typed of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bgjob.cli.completion.bash_words import cursor_at

BREAKS = " \t\n\"'@><=;|&(:"
NAMES = st.text(
    st.characters(min_codepoint=32, exclude_categories=["C", "Z"], include_characters=" "), min_size=1
)


@pytest.mark.parametrize(
    ("line", "before", "word", "kept", "quote"),
    [
        ("bgjob ", ["bgjob"], "", 0, ""),
        ("bgjob lo", ["bgjob"], "lo", 0, ""),
        ("bgjob  logs  my\\ j", ["bgjob", "logs"], "my j", 0, ""),
        ("bgjob logs 'my j", ["bgjob", "logs"], "my j", 0, "'"),
        ('bgjob logs "a\\"b\\c', ["bgjob", "logs"], 'a"b\\c', 0, '"'),
        ("bgjob logs my' j", ["bgjob", "logs"], "my j", 2, "'"),
        ("bgjob logs 'my 'j", ["bgjob", "logs"], "my j", 3, ""),
        ("bgjob logs '' x", ["bgjob", "logs", ""], "x", 0, ""),
        ("bgjob ps --status=ru", ["bgjob", "ps"], "--status=ru", 9, ""),
        ("bgjob logs a:b", ["bgjob", "logs"], "a:b", 2, ""),
        ("bgjob logs a\\:b", ["bgjob", "logs"], "a:b", 0, ""),
    ],
)
def test_a_line_is_taken_apart_up_to_the_cursor(
    line: str, before: list[str], word: str, kept: int, quote: str
) -> None:
    cursor = cursor_at(line, BREAKS)
    assert (cursor.before, cursor.word, cursor.kept, cursor.quote) == (before, word, kept, quote)


@given(NAMES)
def test_what_is_completed_reads_as_the_word(name: str) -> None:
    for typed in ("", "'", '"'):
        completed = cursor_at(f"bgjob logs {typed}", BREAKS).completed(name)
        if completed is None:
            assert typed == '"'
            assert "!" in name
            continue
        whole = cursor_at(f"bgjob logs {typed}{completed}{typed} ", BREAKS)
        assert whole.before == ["bgjob", "logs", name]

"""How the documents are written: lines that fit, words of the field, and names of files that exist."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contracts import golden
from tests.contracts.doc_tables import PROSE_COLUMNS

ROOT = golden.ROOT
PAGES = sorted([ROOT / "README.md", ROOT / "ARCHITECTURE.md", *ROOT.glob("docs/**/*.md")])
CODE_BLOCK = re.compile(r"(?ms)^```.*?^```$")
CODE_SPAN = re.compile(r"`[^`\n]*`")
NOT_PROSE = re.compile(r"\s*(?:\||<!--|!\[|\[?https?://)")
FILE = re.compile(r"(?<![\w/.-])(?:src|tests|scripts|docs|bench)/[\w./-]*\w")
TEST_FILE = re.compile(r"(?<![\w/])test_\w+\.py")
MODULE = re.compile(r"\b(?:bgjob|bench)(?:\.[a-z_]+)+(?![\w(])")
LINK_TO_HEADING = re.compile(r"\]\(([^)#\s]*)#([^)\s]+)\)")
# Metaphors that the code has left behind, and pronouns that hide which process or person is meant.
UNCLEAR = re.compile(
    r"(?i)\b(?:estate|herald|courier|lookout|drainer|papers|nobody|somebody|anybody|whoever)\b(?! else)"
)

pages = pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))


@pages
def test_prose_fits_into_110_columns(page: Path) -> None:
    prose = CODE_BLOCK.sub("", page.read_text()).splitlines()
    assert [line for line in prose if len(line) > PROSE_COLUMNS and not NOT_PROSE.match(line)] == []


@pages
def test_every_file_that_is_named_exists(page: Path) -> None:
    assert [name for name in named_files(page.read_text()) if not exists(name)] == []


def named_files(text: str) -> Iterator[str]:
    yield from FILE.findall(text)
    yield from (f"tests/**/{name}" for name in TEST_FILE.findall(text))
    yield from (module_path(name) for name in MODULE.findall(text))


def module_path(name: str) -> str:
    path = name.replace(".", "/")
    return path if name.startswith("bench") else f"src/{path}"


def exists(name: str) -> bool:
    return any(any(ROOT.glob(pattern)) for pattern in (name, f"{name}.py"))


@pages
def test_every_heading_that_is_linked_to_exists(page: Path) -> None:
    links = LINK_TO_HEADING.findall(page.read_text())
    targets = [(page.parent / file if file else page, heading) for file, heading in links]
    assert [heading for file, heading in targets if heading not in anchors(file)] == []


def anchors(page: Path) -> set[str]:
    """The headings of a page, as GitHub makes anchors of them."""
    headings = re.findall(r"(?m)^#+ (.*)", page.read_text())
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pages
def test_the_words_are_those_of_the_field(page: Path) -> None:
    assert UNCLEAR.findall(own_words(page.read_text())) == []


def own_words(text: str) -> str:
    """Without code, and without what is generated from the texts of the tools."""
    text = re.sub(r"(?s)<!-- (\w+): generated.*?<!-- /\1 -->", "", text)
    return CODE_SPAN.sub("", CODE_BLOCK.sub("", text))


@pytest.mark.parametrize("record", sorted(ROOT.glob("docs/decisions/*.md")), ids=lambda path: path.stem)
def test_a_decision_says_what_and_why_and_at_which_price(record: Path) -> None:
    text = record.read_text()
    assert text.startswith(f"# {int(record.name[:4])}. ")
    for part in ("**What.**", "**Why", "**What we gave up.**", "**What would change our mind.**"):
        assert part in text


def test_there_is_something_to_check() -> None:
    every_page = "\n".join(page.read_text() for page in PAGES)
    assert len(list(named_files(every_page))) > 50
    assert len(LINK_TO_HEADING.findall(every_page)) > 3

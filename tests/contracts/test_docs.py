"""What the documents say is true: their tables are generated, their links lead somewhere, their map is the territory.

After a change of a tool or a setting: BGJOB_UPDATE=1 .venv/bin/pytest tests/contracts, and read the diff.
"""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from bgjob.core.config import settings_as_markdown
from tests.contracts import doc_tables, golden

ROOT = golden.ROOT
README, ARCHITECTURE = ROOT / "README.md", ROOT / "ARCHITECTURE.md"
REFERENCE = ROOT / "docs" / "reference.md"
PACKAGE = ROOT / "src" / "bgjob"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def docstrings_of_folders() -> Iterator[tuple[str, str]]:
    for path in sorted(PACKAGE.rglob("*/__init__.py")):
        yield (
            str(path.parent.relative_to(PACKAGE)),
            ast.get_docstring(ast.parse(path.read_text()), clean=False) or "",
        )


FOLDERS = dict(docstrings_of_folders())
LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#\s]+)")
BGJOB = Path(sys.executable).with_name("bgjob")
LINES_OF_A_SCREEN = 40


class TestTheReadme:
    def test_its_table_of_tools_is_current(self) -> None:
        check_section(README, "tools", doc_tables.tools_in_short())

    def test_both_commands_of_a_checkout_are_on_its_first_screen(self) -> None:
        first_screen = "\n".join(README.read_text().splitlines()[:LINES_OF_A_SCREEN])
        assert re.findall(r"(?m)^scripts/\w+", first_screen) == ["scripts/run", "scripts/test"]

    def test_it_tells_users_of_the_reference_what_to_uninstall(self) -> None:
        reference = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"].keys() - {
            "bgjob"
        }
        assert {*re.findall(r"uv tool uninstall ([\w-]+)", README.read_text())} == reference

    def test_it_names_only_commands_that_exist(self) -> None:
        named = set(re.findall(r"(?:`|-- )bgjob ([a-z]+)", README.read_text()))
        assert named
        assert named <= commands_of(run_help())


class TestTheReference:
    def test_its_tools_are_current(self) -> None:
        check_section(REFERENCE, "tools", doc_tables.tools_in_full())

    def test_its_options_are_current(self) -> None:
        check_section(REFERENCE, "options", doc_tables.options())

    def test_its_settings_are_current(self) -> None:
        check_section(REFERENCE, "settings", settings_as_markdown())

    def test_its_commands_are_current(self) -> None:
        check_section(REFERENCE, "commands", doc_tables.commands())

    def test_its_commands_are_those_of_the_command_line(self) -> None:
        named = set(re.findall(r"(?m)^bgjob ([a-z]+)", REFERENCE.read_text()))
        assert named == commands_of(run_help())


def check_section(page: Path, name: str, text: str) -> None:
    golden.check(page, doc_tables.with_section(page.read_text(), name, text))


def run_help(*command: str) -> str:
    return subprocess.run(
        [BGJOB, *command, "--help"], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL
    ).stdout


def commands_of(help_text: str) -> set[str]:
    return set(re.findall(r"(?m)^  ([a-z]+)  ", help_text))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(document: Path) -> None:
    broken = [link for link in LINK.findall(document.read_text()) if not (document.parent / link).exists()]
    assert broken == []


def test_there_are_links_to_check() -> None:
    assert {"ARCHITECTURE.md", "docs/benchmarks.md"} <= set(LINK.findall(README.read_text()))


class TestTheMap:
    def test_it_shows_every_folder_and_every_file(self) -> None:
        assert files_on_the_map() == files_on_disk()

    def test_it_fits_on_a_screen(self) -> None:
        assert len(the_map()) <= 50
        assert max(map(len, the_map())) <= 110

    def test_the_old_names_are_all_that_lies_beside_the_folders(self) -> None:
        beside = {path.stem for path in PACKAGE.glob("*.py")}
        assert beside == {"__init__", "__main__", "screen", "watcher"}


class TestFolders:
    """The docstring of a folder's __init__ lists its modules."""

    @pytest.mark.parametrize("folder", FOLDERS)
    def test_a_docstring_lists_exactly_the_modules_of_its_folder(self, folder: str) -> None:
        on_disk = {path.stem for path in (PACKAGE / folder).glob("*.py")} - {"__init__"}
        assert set(re.findall(r"^ {4}(\w+)  ", FOLDERS[folder], re.MULTILINE)) == on_disk


OLD_NAMES = {"shim/confined"}


def the_map() -> list[str]:
    return ARCHITECTURE.read_text().partition("## The map")[2].split("```")[1].strip().splitlines()


def files_on_the_map() -> set[str]:
    """`folder/ file file — prose`; a line that begins with a space belongs to the folder above."""
    entries = "\n".join(the_map()).replace("\n ", " ").splitlines()
    named = (entry.partition(" — ")[0].split() for entry in entries)
    return {folder + file for folder, *files in named for file in files}


def files_on_disk() -> set[str]:
    paths = [path.relative_to(PACKAGE).with_suffix("") for path in PACKAGE.rglob("*/*.py")]
    return {str(path) for path in paths if path.name != "__init__"} - OLD_NAMES

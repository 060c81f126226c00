"""What the documents say is true: their tables are generated, their links lead somewhere, their map is the territory.

After a change of a tool or a setting: BGJOB_UPDATE=1 .venv/bin/pytest tests/contracts, and read the diff.
"""

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from mcp_types import Tool

from bgjob.core.config import settings_as_markdown
from bgjob.mcp.tools import TOOLS
from tests.contracts import golden

ROOT = golden.ROOT
README, ARCHITECTURE = ROOT / "README.md", ROOT / "ARCHITECTURE.md"
PACKAGE = ROOT / "src" / "bgjob"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#\s]+)")
BGJOB = Path(sys.executable).with_name("bgjob")
MAX_README_LINES = 160


class TestTheReadme:
    def test_its_table_of_tools_is_current(self) -> None:
        golden.check(README, with_section("tools", tools_as_markdown()))

    def test_its_table_of_settings_is_current(self) -> None:
        golden.check(README, with_section("settings", settings_as_markdown()))

    def test_it_stays_a_front_door(self) -> None:
        assert len(README.read_text().splitlines()) <= MAX_README_LINES

    def test_its_commands_are_those_of_the_command_line(self) -> None:
        named = set(re.findall(r"(?m)(?:^|`)bgjob ([a-z]+)", README.read_text()))
        assert named == commands_of(run_help())

    def test_its_usage_lines_name_only_options_that_exist(self) -> None:
        lines = re.findall(r"(?m)^bgjob ([a-z]+) (.*?)(?: {3,}|$)", README.read_text())
        assert len(lines) == len(commands_of(run_help()))
        for command, usage in lines:
            options = set(re.findall(r"(?<![\w-])--?[a-z]+", usage))
            assert options <= set(re.findall(r"(?<![\w-])--?[a-z]+", run_help(command)))


def with_section(name: str, text: str) -> str:
    """The README with this between its markers."""
    pattern = re.compile(rf"(<!-- {name}:.*?-->\n).*?(<!-- /{name} -->)", re.DOTALL)
    renewed, count = pattern.subn(lambda found: found[1] + text + found[2], README.read_text())
    assert count == 1, f"README.md has no markers for {name}"
    return renewed


def tools_as_markdown() -> str:
    head = (
        "| tool | arguments (? = optional) | answer (? = if any) | what it does |",
        "| --- | --- | --- | --- |",
    )
    return "".join(f"{line}\n" for line in [*head, *map(row, TOOLS.listing)])


def row(tool: Tool) -> str:
    cells = (
        f"`{tool.name}`",
        fields(tool.input_schema) or "none",
        fields(tool.output_schema or {}),
        first_sentence(tool.description or ""),
    )
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def fields(schema: Mapping[str, Any]) -> str:
    required = schema.get("required", ())
    return ", ".join(
        f"`{name}`" + ("" if name in required else "?") + of_items(each)
        for name, each in schema["properties"].items()
    )


def of_items(schema: Mapping[str, Any]) -> str:
    return f" (each {fields(schema['items'])})" if "properties" in schema.get("items", {}) else ""


def first_sentence(text: str) -> str:
    return re.split(r"(?<=[.!?]) ", text)[0]


def run_help(*command: str) -> str:
    return subprocess.run(
        [BGJOB, *command, "--help"], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL
    ).stdout


def commands_of(help_text: str) -> set[str]:
    return set(re.findall(r"(?m)^    ([a-z]+)  ", help_text))


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
        assert len(the_map()) <= 20
        assert max(map(len, the_map())) <= 110

    def test_the_old_names_are_all_that_lies_beside_the_folders(self) -> None:
        beside = {path.stem for path in PACKAGE.glob("*.py")}
        assert beside == {"__init__", "__main__", "screen", "watcher"}


OLD_NAMES = {"shim/confined"}


def the_map() -> list[str]:
    return ARCHITECTURE.read_text().partition("## The map")[2].split("```")[1].strip().splitlines()


def files_on_the_map() -> set[str]:
    """`folder/ file file — prose`; a line that begins with a space belongs to the folder above."""
    entries = "\n".join(the_map()).replace("\n ", " ").splitlines()
    named = (entry.partition(" — ")[0].split() for entry in entries)
    return {folder + file for folder, *files in named for file in files}


def files_on_disk() -> set[str]:
    files = {f"{path.parent.name}/{path.stem}" for path in PACKAGE.glob("*/*.py") if path.stem != "__init__"}
    return files - OLD_NAMES

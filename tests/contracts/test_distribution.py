"""What is published: the wheel, and the entry of the MCP registry."""

import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from email.message import EmailMessage
from email.parser import Parser
from email.policy import default
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from bgjob import __version__
from bgjob.core.config import SETTINGS
from tests.contracts.golden import ROOT

README = ROOT / "README.md"
SCHEMA = json.loads((Path(__file__).parent / "mcp_registry" / "server.schema.json").read_text())
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    directory = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (path,) = directory.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        yield wheel


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> EmailMessage:
    text = wheel.read(f"bgjob-{__version__}.dist-info/METADATA").decode()
    return Parser(EmailMessage, policy=default).parsestr(text)


class TestTheWheel:
    def test_it_carries_the_readme(self, metadata: EmailMessage) -> None:
        assert metadata["Description-Content-Type"] == "text/markdown"
        assert str(metadata.get_payload()).strip() == README.read_text().strip()

    def test_it_names_every_python_that_it_runs_on(self, metadata: EmailMessage) -> None:
        named = re.findall(r":: Python :: (3\.\d+)", "\n".join(metadata.get_all("Classifier", [])))
        assert named == PYTHONS

    def test_it_has_the_package_and_no_tests(self, wheel: zipfile.ZipFile) -> None:
        tops = {name.partition("/")[0] for name in wheel.namelist()}
        assert tops == {"bgjob", f"bgjob-{__version__}.dist-info"}
        assert not [name for name in wheel.namelist() if "test" in name]

    def test_it_has_every_file_of_the_package(self, wheel: zipfile.ZipFile) -> None:
        source = ROOT / "src"
        files = {path.relative_to(source).as_posix() for path in source.glob("bgjob/**/*") if path.is_file()}
        packed = {name for name in wheel.namelist() if name.startswith("bgjob/")}
        assert packed == {name for name in files if "__pycache__" not in name}


@pytest.fixture(scope="module")
def entry() -> dict[str, Any]:
    read: dict[str, Any] = json.loads((ROOT / "server.json").read_text())
    return read


class TestTheRegistryEntry:
    def test_it_is_valid(self, entry: dict[str, Any]) -> None:
        assert entry["$schema"] == SCHEMA["$id"]
        validator = jsonschema.Draft7Validator(SCHEMA)
        assert [f"{error.json_path}: {error.message}" for error in validator.iter_errors(entry)] == []

    def test_its_versions_are_ours(self, entry: dict[str, Any]) -> None:
        assert {entry["version"], *(package["version"] for package in entry["packages"])} == {__version__}

    def test_the_readme_tells_the_registry_that_the_package_is_ours(self, entry: dict[str, Any]) -> None:
        assert f"<!-- mcp-name: {entry['name']} -->" in README.read_text()

    def test_its_variables_are_settings_with_their_defaults(self, entry: dict[str, Any]) -> None:
        defaults = {row.variable: row.default for row in SETTINGS}
        for variable in entry["packages"][0]["environmentVariables"]:
            assert variable["default"] == defaults[variable["name"]]

"""What is published: the wheel, the entry of the MCP registry, what the MCP bundle holds, how to install."""

import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from email.message import EmailMessage
from email.parser import Parser
from email.policy import default
from pathlib import Path
from typing import Any
from uuid import UUID

import jsonschema  # type: ignore[import-untyped]
import pytest

from bgjob import __version__
from bgjob.clients.command import Server
from bgjob.clients.table import CLIENTS
from bgjob.core.config import SETTINGS, settings_from
from tests.contracts.golden import ROOT

README, INSTALLING = ROOT / "README.md", ROOT / "docs" / "installing.md"
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
        assert tops == {"bgjob", f"bgjob-{__version__}.dist-info", f"bgjob-{__version__}.data"}
        assert not [name for name in wheel.namelist() if "test" in name]

    def test_it_has_the_man_page_where_man_finds_it(self, wheel: zipfile.ZipFile) -> None:
        data = f"bgjob-{__version__}.data/"
        (installed,) = [name for name in wheel.namelist() if name.startswith(data)]
        assert installed == f"{data}data/share/man/man1/bgjob.1"
        assert wheel.read(installed) == (ROOT / "docs" / "bgjob.1").read_bytes()

    def test_it_has_every_file_of_the_package(self, wheel: zipfile.ZipFile) -> None:
        source = ROOT / "src"
        files = {path.relative_to(source).as_posix() for path in source.glob("bgjob/**/*") if path.is_file()}
        packed = {name for name in wheel.namelist() if name.startswith("bgjob/")}
        assert packed == {name for name in files if "__pycache__" not in name}


class TestWithoutGoogleRe2:
    """As on musl, armv7 and riscv64, or on a Python newer than its wheels."""

    @pytest.fixture
    def bgjob(self, wheel: zipfile.ZipFile, tmp_path: Path, home: Path) -> Callable[..., str]:
        """The command line of an environment that has all we need but google-re2."""
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
        (packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
        wheel.extractall(packages)
        for name in ("pyte", "wcwidth"):
            (found,) = importlib.import_module(name).__path__
            shutil.copytree(found, packages / name)

        def run(*arguments: str, **variables: str) -> str:
            command = [str(tmp_path / "venv" / "bin" / "python"), "-m", "bgjob", *arguments]
            environ = os.environ | {"BGJOB_HOME": str(home)} | variables
            done = subprocess.run(
                command, check=False, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True
            )
            return done.stdout + done.stderr

        return run

    def test_jobs_run_and_their_output_is_searched(self, bgjob: Callable[..., str]) -> None:
        said = bgjob("run", "--name", "greek", "--until", "pattern=^beta$", "echo alpha; echo beta; exec cat")
        assert "beta" in said
        assert "alpha" in bgjob("grep", "(?i)^AL(ph|PH)a$", "greek")
        assert "no look-ahead" in bgjob("grep", "alpha(?=x)", "greek")

    def test_an_allow_list_holds(self, bgjob: Callable[..., str]) -> None:
        allowed = {"MCP_BG_ALLOWED_COMMANDS": "echo [a-z]+"}
        assert str(UUID(said := bgjob("run", "echo fine", **allowed).strip())) == said
        assert "matches no pattern" in bgjob("run", "date", **allowed)


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


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not packed: that takes npm (tests/clients)."""
    directory = tmp_path_factory.mktemp("bundle")
    script = ROOT / "scripts" / "bundle.py"
    subprocess.run([sys.executable, script, directory], check=True, capture_output=True)
    return directory


class TestTheBundle:
    def test_it_installs_the_wheel_beside_it_in_the_versions_that_are_tested(self, bundle: Path) -> None:
        project = tomllib.loads((bundle / "pyproject.toml").read_text())
        assert (bundle / project["tool"]["uv"]["sources"]["bgjob"]["path"]).exists()
        locked = (ROOT / "requirements" / "runtime.txt").read_text()
        constraints = project["tool"]["uv"]["constraint-dependencies"]
        assert len(constraints) == len(re.findall(r"(?m)^\S+==", locked)) > 0

    def test_its_modules_are_compiled_when_they_are_installed(self, bundle: Path) -> None:
        assert tomllib.loads((bundle / "pyproject.toml").read_text())["tool"]["uv"]["compile-bytecode"]

    def test_what_it_asks_the_user_has_defaults_that_a_server_accepts(self, bundle: Path) -> None:
        manifest = json.loads((bundle / "manifest.json").read_text())
        defaults = {
            f"${{user_config.{key}}}": each["default"] for key, each in manifest["user_config"].items()
        }
        variables = manifest["server"]["mcp_config"]["env"]
        assert set(variables.values()) == set(defaults)
        environ = {name: str(defaults[value]) for name, value in variables.items()}
        assert settings_from(environ | {"MCP_BG_WORKING_DIR": "."}) == settings_from({})

    def test_it_lists_the_tools(self, bundle: Path) -> None:
        manifest = json.loads((bundle / "manifest.json").read_text())
        schemas = {path.stem for path in (ROOT / "tests" / "contracts" / "schemas").glob("*.json")}
        assert {tool["name"] for tool in manifest["tools"]} == schemas

    def test_its_version_is_ours(self, bundle: Path) -> None:
        assert json.loads((bundle / "manifest.json").read_text())["version"] == __version__


class TestThePageAboutInstalling:
    def test_it_names_every_client_with_the_command_that_is_run(self) -> None:
        rows = re.findall(r"(?m)^\| `(\w+)` \| (?:`(.*)`|.*) \| .* \|$", INSTALLING.read_text())
        server = Server("bgjob", ("BGJOB", "mcp"), {})
        assert [word for word, _ in rows] == list(CLIENTS)
        for word, told in rows:
            add = CLIENTS[word].add
            run = [CLIENTS[word].program, *add(server)] if add else []
            assert shlex.split(told)[:-1] == run[:-1]  # the last is `mcp`, or JSON that is told in short

    def test_its_files_are_those_of_the_clients(self) -> None:
        for client in CLIENTS.values():
            if client.tells_its_file:
                (path, *_) = client.paths({"HOME": "~"})[::-1]
                assert f"`{path}`" in INSTALLING.read_text()


def test_only_systems_on_which_it_has_run_are_classified() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    systems = {name for name in project["classifiers"] if name.startswith("Operating System ::")}
    assert systems == {"Operating System :: POSIX :: Linux"}


def test_the_docs_name_the_licence_of_each_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (sentence,) = (line for line in INSTALLING.read_text().splitlines() if "MIT licence" in line)
    for requirement in project["dependencies"]:
        assert re.split(r"[<>=~!; \[]", requirement)[0] in sentence
    assert "pyte (LGPL-3.0)" in sentence

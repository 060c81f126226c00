"""What starts in milliseconds imports nothing that takes longer: asked of fresh interpreters, not of the source."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import bgjob

PACKAGE_ROOT = Path(bgjob.__file__).parents[1]
TESTS = Path(__file__).parents[1]
SHOW = "import json, sys; sys.path.append(sys.argv[1]); import {0}; print(json.dumps(sorted(sys.modules)))"


def modules_of(module: str, *flags: str) -> set[str]:
    """Everything in sys.modules once `module` is imported."""
    answer = subprocess.run(
        [sys.executable, *flags, "-c", SHOW.format(module), PACKAGE_ROOT],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(answer.stdout))


HEAVY_FOR_A_SHIM = {"dataclasses", "inspect", "typing", "asyncio", "pathlib", "tempfile"}
SDK = {"mcp", "mcp_types", "pydantic", "pydantic_core", "anyio", "asyncio", "httpx", "starlette", "uvicorn"}


def test_a_shim_is_the_standard_library_and_little_of_it() -> None:
    loaded = modules_of("bgjob.shim.entry", "-I", "-S")
    assert loaded & HEAVY_FOR_A_SHIM == set()
    ours = {name for name in loaded if name.startswith("bgjob")}
    assert ours >= {"bgjob.shim.entry", "bgjob.shim.supervise", "bgjob.home.jobdir", "bgjob.home.log_writer"}
    assert ours & {"bgjob.api", "bgjob.store", "bgjob.core", "bgjob.mcp", "bgjob.cli"} == set()
    foreign = {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names - {"bgjob", "__main__"}
    assert foreign == set()


@pytest.mark.parametrize("folder", ["shim", "home", "system"])
def test_every_file_of_a_lean_folder_is_light_enough_for_a_shim(folder: str) -> None:
    files = (PACKAGE_ROOT / "bgjob" / folder).glob("*.py")
    names = [f"bgjob.{folder}.{path.stem}" for path in files if path.stem != "__init__"]
    loaded = modules_of(", ".join(names), "-I", "-S")
    assert loaded >= set(names)
    assert loaded & HEAVY_FOR_A_SHIM == set()
    assert {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names == {"bgjob", "__main__"}


@pytest.mark.parametrize("module", ["bgjob.cli", "bgjob.api"])
def test_the_command_line_starts_without_the_sdk(module: str) -> None:
    loaded = modules_of(module)
    assert module in loaded
    assert loaded & SDK == set()


HTTP = {"starlette", "uvicorn", "h11", "bgjob.web.server", "bgjob.web.access"}


@pytest.mark.parametrize("module", ["bgjob.cli", "bgjob.mcp.server", "bgjob.web.tokens", "bgjob.web.listen"])
def test_only_the_http_server_brings_its_libraries_in(module: str) -> None:
    assert modules_of(module) & HTTP == set()
    assert modules_of("bgjob.web.server") >= HTTP


@pytest.mark.parametrize(
    "arguments", [["--version"], ["--help"], ["ps"], ["token", "list"], ["serve", "--help"]]
)
def test_no_plain_command_brings_the_sdk_in(tmp_path: Path, arguments: list[str]) -> None:
    answer = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "bgjob", *arguments],
        env={**os.environ, "BGJOB_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {line.rpartition("|")[2].strip() for line in answer.stderr.splitlines() if "|" in line}
    assert "bgjob.cli" in loaded
    assert loaded & SDK == set()


def test_bgjob_imports_on_its_own_without_the_sdk_installed() -> None:
    """-S: no site-packages at all."""
    assert "bgjob.cli" in modules_of("bgjob.cli", "-I", "-S")


def test_what_tests_of_several_folders_share_is_in_support() -> None:
    """Also for the programs that tests write and run."""
    imports = [(path, imported) for path in TESTS.rglob("*.py") for imported in folders_imported_by(path)]
    assert imports
    sideways = {f"{path} imports tests.{folder}" for path, folder in imports if folder != "support"}
    assert sideways == set()


def folders_imported_by(path: Path) -> set[str]:
    """Of tests/, and without the file's own."""
    named = re.findall(r"^ *(?:from|import) tests\.(\w+)", path.read_text(), re.MULTILINE)
    return set(named) - {path.relative_to(TESTS).parts[0]}


TOUCHES = (
    "os.mkdir",
    "os.fork",
    "os.posix_spawn",
    "subprocess.Popen",
    "socket.bind",
    "socket.connect",
    "os.kill",
)
IMPORT_ALL = """
import importlib, pathlib, sys
touched = []
sys.addaudithook(lambda event, arguments: touched.append((event, arguments)) if event in {0} else None)
lanes = {{"page", "clusters"}}  # need playwright and ray, which these lanes alone have
for path in sorted(each for each in pathlib.Path("tests").rglob("test_*.py") if each.parts[1] not in lanes):
    importlib.import_module(".".join(path.with_suffix("").parts))
print(touched)
"""


def test_importing_the_tests_touches_nothing() -> None:
    """No process, no directory, no control group: whoever only lists the tests leaves the machine as it was."""
    script = IMPORT_ALL.format(TOUCHES)
    answer = subprocess.run(
        [sys.executable, "-B", "-c", script], cwd=TESTS.parent, stdout=subprocess.PIPE, text=True, check=True
    )
    assert answer.stdout == "[]\n"

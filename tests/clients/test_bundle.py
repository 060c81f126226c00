"""The MCP bundle: packed by the program that hosts use, and started as a host starts it."""

import json
import os
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bgjob import __version__
from tests.support.homes import end_all_jobs
from tests.support.raw_client import RawClient
from tests.support.requires import needs

pytestmark = [needs("npm"), pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
BUILD_S = INSTALL_S = 400
UV = ROOT / ".venv-lock" / "bin"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As a host unpacks it."""
    directory = tmp_path_factory.mktemp("bundle")
    build = [ROOT / "scripts" / "bundle", directory]
    built = subprocess.run(build, capture_output=True, text=True, timeout=BUILD_S, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    assert "Manifest schema validation passes" in built.stdout
    with zipfile.ZipFile(directory / f"bgjob-{__version__}.mcpb") as packed:
        packed.extractall(directory / "unpacked")
    return directory / "unpacked"


@pytest.fixture(scope="module")
def installed(bundle: Path) -> Path:
    """The first start installs; here it is done before, so that no test is the slow one."""
    if not (UV / "uv").exists() and not os.environ.get("CI"):
        pytest.skip("needs .venv-lock, which scripts/test clients makes")
    sync = [str(UV / "uv"), "sync", "--project", str(bundle)]
    subprocess.run(sync, check=True, capture_output=True, timeout=INSTALL_S)
    return bundle


@pytest.fixture
def host(installed: Path, home: Path, tmp_path: Path) -> Iterator[RawClient]:
    """Runs what the manifest says, with the defaults of what it asks the user; ${HOME} it does not replace."""
    manifest = json.loads((installed / "manifest.json").read_text())
    started = manifest["server"]["mcp_config"]
    placeholders = {"__dirname": str(installed)} | {
        f"user_config.{key}": str(each["default"]) for key, each in manifest["user_config"].items()
    }

    def replaced(text: str) -> str:
        for name, value in placeholders.items():
            text = text.replace(f"${{{name}}}", value)
        return text

    command = [started["command"], *map(replaced, started["args"])]
    variables = {name: replaced(value) for name, value in started["env"].items()}
    own = {"PATH": f"{UV}:{os.environ['PATH']}", "HOME": str(tmp_path), "UV_OFFLINE": "1"}
    with RawClient(home, ["/usr/bin/env", *command], **variables, **own) as client:
        client.shake_hands()
        yield client
    end_all_jobs(home)


def test_the_server_of_the_bundle_runs_jobs_where_the_user_is_at_home(
    host: RawClient, tmp_path: Path
) -> None:
    answer = host.call("execute_command", {"command": "pwd", "wait_s": 40})["structuredContent"]
    assert (answer["exit_code"], answer["stdout"]) == (0, f"{tmp_path}\n")


def test_its_tools_are_those_of_the_manifest(host: RawClient, installed: Path) -> None:
    manifest = json.loads((installed / "manifest.json").read_text())
    assert [tool["name"] for tool in host.tools()] == [tool["name"] for tool in manifest["tools"]]


def test_its_modules_are_compiled_when_they_are_installed(installed: Path) -> None:
    package = next(installed.glob(".venv/lib/*/site-packages/bgjob"))
    sources = {path.stem for path in (package / "shim").glob("*.py")}
    assert {
        path.name.partition(".")[0] for path in (package / "shim" / "__pycache__").glob("*.pyc")
    } == sources

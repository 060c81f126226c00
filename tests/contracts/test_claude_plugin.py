"""The plugin for Claude Code, and the marketplace that offers it: current, and of our version.

Whether the client accepts them is seen in tests/clients/test_plugin.py.
"""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bgjob import __version__
from tests.contracts import claude_plugin, golden
from tests.contracts.claude_plugin import PLUGIN

SCRIPTS = sorted((PLUGIN / "scripts").iterdir())
TOKEN_BYTES = 4
MAX_SKILL_TOKENS = 2_000


def read(path: Path) -> dict[str, Any]:
    settings: dict[str, Any] = json.loads(path.read_text())
    return settings


class TestWhatIsGenerated:
    def test_the_hooks_are_those_of_the_client_table(self) -> None:
        golden.check(PLUGIN / "hooks" / "hooks.json", claude_plugin.hooks())

    def test_the_skill_is_the_page_for_agents(self) -> None:
        golden.check(PLUGIN / "skills" / "background-jobs" / "SKILL.md", claude_plugin.skill())

    def test_the_skill_is_short_and_leads_nowhere_else(self) -> None:
        skill = claude_plugin.skill()
        assert len(skill) <= MAX_SKILL_TOKENS * TOKEN_BYTES
        assert "](" not in skill


class TestItsVersion:
    def test_the_manifest_has_ours(self) -> None:
        assert read(PLUGIN / ".claude-plugin" / "plugin.json")["version"] == __version__

    def test_uvx_is_asked_for_ours(self) -> None:
        script = (PLUGIN / "scripts" / "bgjob").read_text()
        assert re.findall(r"(?m)^version=(.*)$", script) == [__version__]


class TestTheMarketplace:
    def test_it_offers_the_plugin_where_it_is(self) -> None:
        (entry,) = read(golden.ROOT / ".claude-plugin" / "marketplace.json")["plugins"]
        assert (golden.ROOT / entry["source"]).resolve() == PLUGIN
        assert entry["name"] == read(PLUGIN / ".claude-plugin" / "plugin.json")["name"]


class Machine:
    """A home, and a PATH that has a shell and what the test puts there."""

    def __init__(self, directory: Path) -> None:
        self.home, self.programs = directory / "home", directory / "bin"
        self.programs.mkdir()
        (self.home / ".local" / "bin").mkdir(parents=True)
        (self.programs / "sh").symlink_to("/bin/sh")

    def has(self, path: Path, script: str) -> None:
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def run(self, script: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["/bin/sh", PLUGIN / "scripts" / script, *arguments],
            env={"HOME": str(self.home), "PATH": str(self.programs)},
            input="{}",
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


class TestTheScripts:
    @pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.name))
    def test_they_are_executable(self, script: Path) -> None:
        assert script.stat().st_mode & 0o111

    def test_the_bgjob_on_path_is_run(self, machine: Machine) -> None:
        machine.has(machine.programs / "bgjob", 'echo "own $@"')
        machine.has(machine.programs / "uvx", "echo uvx")
        assert machine.run("bgjob", "mcp").stdout == "own mcp\n"

    def test_one_in_the_users_directory_is_found_too(self, machine: Machine) -> None:
        machine.has(machine.home / ".local" / "bin" / "bgjob", 'echo "own $@"')
        assert machine.run("bgjob", "mcp").stdout == "own mcp\n"

    def test_without_one_it_is_uvs_in_our_version(self, machine: Machine) -> None:
        machine.has(machine.home / ".local" / "bin" / "uvx", 'echo "$@"')
        assert machine.run("bgjob", "mcp").stdout == f"--quiet --from bgjob=={__version__} bgjob mcp\n"

    def test_without_both_the_server_says_what_to_install(self, machine: Machine) -> None:
        failed = machine.run("bgjob", "mcp")
        assert (failed.returncode, failed.stdout) == (127, "")
        assert "pipx install bgjob" in failed.stderr

    @pytest.mark.parametrize("script", ["hook", "rewake"])
    def test_without_both_a_hook_does_not_fail(self, machine: Machine, script: str) -> None:
        assert machine.run(script).returncode == 0

    @pytest.mark.parametrize("script", ["hook", "rewake"])
    def test_nor_does_it_with_a_bgjob_that_knows_no_hooks(self, machine: Machine, script: str) -> None:
        """Exit code 2 of wrong usage would take the user's prompt away."""
        machine.has(machine.programs / "bgjob", "echo usage >&2; exit 2")
        assert machine.run(script).returncode == 0

    def test_a_hook_is_given_the_clients_input_and_answers(self, machine: Machine) -> None:
        machine.has(machine.programs / "bgjob", 'read -r line; echo "$@ $line"')
        assert machine.run("hook").stdout == "hook claude {}\n"

    def test_the_one_that_waits_may_wake_the_session(self, machine: Machine) -> None:
        machine.has(
            machine.programs / "bgjob", '[ "$2" = --help ] || { read -r line; echo "$line" >&2; exit 2; }'
        )
        woken = machine.run("rewake")
        assert (woken.returncode, woken.stderr) == (2, "{}\n")

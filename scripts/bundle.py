"""Writes what an MCP bundle holds: python scripts/bundle.py DIRECTORY

manifest.json   what the host shows, and what it runs
pyproject.toml  what uv installs: the wheel beside it, and the versions that bgjob is tested with
server.py       the entry point
"""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from bgjob import __version__
from bgjob.core.config import PREFIX, SETTINGS

ROOT = Path(__file__).parents[1]
SERVER = Path(__file__).with_name("bundle_server.py")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WHEEL = f"bgjob-{__version__}-py3-none-any.whl"

# The settings that a person chooses in the host: title, type.
CHOICES = {
    "MCP_BG_WORKING_DIR": ("Where jobs run", "directory"),
    "MCP_BG_MAX_JOBS": ("Jobs at once", "number"),
    "MCP_BG_JOB_TIMEOUT": ("Time limit of a job", "string"),
    "MCP_BG_MAX_OUTPUT_SIZE": ("Output kept per job", "string"),
    "MCP_BG_ALLOWED_COMMANDS": ("Allowed commands", "string"),
}
SETTING = {row.variable: row for row in SETTINGS}


def manifest() -> dict[str, object]:
    return {
        "manifest_version": "0.4",
        "name": "bgjob",
        "display_name": "bgjob",
        "version": __version__,
        "description": PROJECT["description"],
        "author": {"name": "bgjob contributors"},
        "license": PROJECT["license"],
        "keywords": PROJECT["keywords"],
        "server": {
            "type": "uv",
            "entry_point": "server.py",
            "mcp_config": {
                "command": "uv",
                "args": ["run", "--project", "${__dirname}", "${__dirname}/server.py"],
                "env": {variable: f"${{user_config.{key(variable)}}}" for variable in CHOICES},
            },
        },
        "tools": tools(),
        "compatibility": {
            "platforms": ["darwin", "linux"],
            "runtimes": {"python": PROJECT["requires-python"]},
        },
        "user_config": {key(variable): choice(variable) for variable in CHOICES},
    }


def tools() -> list[dict[str, str]]:
    """As the README lists them; a test keeps that table current."""
    rows = re.findall(r"(?m)^\| `(\w+)` \| (.*) \|$", (ROOT / "README.md").read_text())
    return [{"name": name, "description": text} for name, text in rows]


def key(variable: str) -> str:
    return variable.removeprefix(PREFIX).lower()


def choice(variable: str) -> dict[str, object]:
    """With a default in any case: without one, a host may leave the placeholder as it is."""
    (title, kind), row = CHOICES[variable], SETTING[variable]
    defaults = {"directory": "${HOME}", "number": row.default.isdecimal() and int(row.default)}
    description = f"{row.meaning[0].upper()}{row.meaning[1:]}. Accepted: {row.accepted}."
    return {
        "type": kind,
        "title": title,
        "description": description,
        "default": defaults.get(kind, row.default),
    }


def pyproject() -> str:
    locked = re.findall(r"(?m)^([^\s#].*?) \\$", (ROOT / "requirements" / "runtime.txt").read_text())
    constraints = "\n".join(f"    {json.dumps(line)}," for line in locked)
    return f"""\
[project]
name = "bgjob-bundle"
version = "{__version__}"
requires-python = "{PROJECT["requires-python"]}"
dependencies = ["bgjob"]

[tool.uv]
package = false
compile-bytecode = true
constraint-dependencies = [
{constraints}
]

[tool.uv.sources]
bgjob = {{ path = "{WHEEL}" }}
"""


def write(directory: Path) -> None:
    (directory / "manifest.json").write_text(json.dumps(manifest(), indent=2, ensure_ascii=False) + "\n")
    (directory / "pyproject.toml").write_text(pyproject())
    (directory / "server.py").write_text(SERVER.read_text())
    (directory / "LICENSE").write_text((ROOT / "LICENSE").read_text())
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory.resolve())]
    subprocess.run(build, cwd=ROOT, check=True, stdout=sys.stderr)


if __name__ == "__main__":
    write(Path(sys.argv[1]))

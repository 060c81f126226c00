"""What a command imports: nearly all of its time. Counted in fresh interpreters, where milliseconds would be guesses.

`bench/load command_line` measures the time itself. A command that needs more than is allowed here imports it in the
function that needs it, or for a reason that is worth a higher number.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

# none of them takes less than 3 ms, some take 100
HEAVY = {
    *(
        "asyncio",
        "concurrent.futures",
        "curses",
        "dataclasses",
        "difflib",
        "email",
        "http",
        "inspect",
    ),
    *(
        "logging",
        "multiprocessing",
        "pathlib",
        "pydoc",
        "ssl",
        "tempfile",
        "tomllib",
        "urllib.request",
    ),
    *("click", "google", "pyte", "re2", "rich", "starlette", "textual", "uvicorn"),
}
FOR_OTHER_COMMANDS = {
    *("bgjob.mcp", "bgjob.web", "bgjob.watch", "bgjob.clients", "bgjob.protocol", "bgjob.terminal.emulator"),
    *("bgjob.api.jobs", "bgjob.api.events", "bgjob.api.execute", "bgjob.api.wait", "bgjob.api.doctor"),
    *("bgjob.cli.completion.table", "bgjob.cli.man_page", "bgjob.core.config_file"),
    *(
        "bgjob.core.targets",
        "bgjob.core.target_keys",
        "bgjob.api.targets",
        "bgjob.api.remote",
        "bgjob.remote",
    ),
}
STARTS_JOBS = {"subprocess", "bgjob.api.start", "bgjob.core.policy", "bgjob.core.shell_reader"}
READS_JOBS = {"bgjob.api.context", "bgjob.store", "bgjob.link", "argparse", "socket", "threading", "shutil"}
READS_OUTPUT = {"bgjob.output.log_reader", "bgjob.api.screen", "bgjob.terminal.full_screen"}
TAB = ("completion", "--complete", "zsh", "bgjob", "logs", "")

# (what is typed, how many modules of ours, how many in all, what else it does without)
COMMANDS = [
    (("--version",), 14, 82, READS_JOBS | {"json", "ctypes"}),
    (TAB, 24, 110, READS_JOBS),
    (("ps",), 101, 208, STARTS_JOBS),
    (("status",), 103, 215, STARTS_JOBS),
    (("logs",), 103, 215, STARTS_JOBS),
    (("run", "--", "true"), 84, 198, READS_OUTPUT),
]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Of a home with a job that has ended."""
    home = tmp_path_factory.mktemp("start") / "home"
    environment = {**os.environ, "BGJOB_HOME": str(home)}
    modules_of(["run", "--", "true"], environment)
    return environment


def modules_of(arguments: list[str], environment: dict[str, str]) -> set[str]:
    """All that the command has imported when it has ended."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "bgjob", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    told = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in told}


def within(loaded: set[str], packages: set[str]) -> set[str]:
    """Those, and what is in them."""
    return {name for name in loaded if any(name == each or name.startswith(f"{each}.") for each in packages)}


@pytest.mark.parametrize(
    ("arguments", "ours", "most", "without"), COMMANDS, ids=[command[0] for command, *_ in COMMANDS]
)
def test_a_command_imports_little_more_than_it_needs(
    environment: dict[str, str], arguments: tuple[str, ...], ours: int, most: int, without: set[str]
) -> None:
    loaded = modules_of([*arguments], environment)
    assert within(loaded, HEAVY | FOR_OTHER_COMMANDS | without) == set()
    assert len(within(loaded, {"bgjob"})) <= ours
    assert len(loaded) <= most


def test_a_config_file_is_paid_for_by_those_who_have_one(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "bgjob").mkdir()
    (tmp_path / "bgjob" / "config.toml").write_text("keep_jobs = 5")
    with_file = modules_of(["ps"], environment | {"XDG_CONFIG_HOME": str(tmp_path)})
    assert {"tomllib", "bgjob.core.config_file"} <= with_file
    assert modules_of(["ps"], environment) & {"tomllib", "bgjob.core.config_file"} == set()

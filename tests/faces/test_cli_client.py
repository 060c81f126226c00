"""`bgjob client`: with clients that record how they were called, and with configuration files as clients write them."""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from bgjob.cli.verbs import CLIENTS as ACCEPTED
from bgjob.clients.command import own_command
from bgjob.clients.table import CLIENTS
from tests.faces.client_user import FILES, OWN, PROGRAMS, User
from tests.faces.command_line import BGJOB, assert_one_line_of_error


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path)


ARGUMENTS: dict[str, list[str]] = {
    "claude": ["mcp", "add", "--scope", "user", "bgjob", "--env", "A=b c", "--", *OWN],
    "codex": ["mcp", "add", "bgjob", "--env", "A=b c", "--", *OWN],
    "gemini": ["mcp", "add", "--scope", "user", "--env", "A=b c", "bgjob", BGJOB, "--", "mcp"],
    "opencode": ["mcp", "add", "bgjob", "--env", "A=b c", "--", *OWN],
    "vscode": [
        "--add-mcp",
        json.dumps({"name": "bgjob", "command": BGJOB, "args": ["mcp"], "env": {"A": "b c"}}),
    ],
}


class TestAdding:
    @pytest.mark.parametrize("word", ARGUMENTS)
    def test_it_runs_the_clients_own_command(self, user: User, word: str) -> None:
        user.has_recording(word)
        added = user.client("add", word, "--env", "A=b c")
        assert (added.returncode, added.stderr) == (0, "")
        assert f"{CLIENTS[word].title} has bgjob now" in added.stdout
        assert user.arguments == ARGUMENTS[word]

    def test_it_runs_it_in_the_home_because_some_change_the_project_they_are_in(self, user: User) -> None:
        user.has_recording("opencode")
        user.client("add", "opencode", "--env", "A=b c")
        assert (user.home / "where").read_text().strip() == str(user.home)

    @pytest.mark.parametrize("word", FILES)
    def test_a_second_time_it_says_that_it_is_there(self, user: User, word: str) -> None:
        printed = user.client("--print", "add", word).stdout
        path = user.configures(word, printed.partition("put this into")[2].partition("\n\n")[2])
        again = user.client("add", word)
        assert (again.returncode, again.stderr) == (0, "")
        assert again.stdout == f"{CLIENTS[word].title} has bgjob already, in {path}\n"

    def test_another_server_of_that_name_is_left_alone(self, user: User) -> None:
        user.configures("claude", '{"mcpServers": {"bgjob": {"command": "/old/bgjob", "args": ["mcp"]}}}')
        user.has("claude", "touch $HOME/was-run")
        refused = user.client("add", "claude")
        assert_one_line_of_error(refused, "it runs /old/bgjob.", "claude mcp remove --scope user bgjob")
        assert not (user.home / "was-run").exists()

    def test_nor_is_one_with_other_variables_replaced_and_no_value_is_shown(self, user: User) -> None:
        entry = {"command": BGJOB, "args": ["mcp"], "env": {"TOKEN": "hunter2"}}
        user.configures("cursor", json.dumps({"mcpServers": {"bgjob": entry}}))
        refused = user.client("add", "cursor", "--env", "TOKEN=hunter3")
        assert_one_line_of_error(refused, "other variables", "mcp.json")
        assert "hunter" not in refused.stderr

    @pytest.mark.parametrize("words", [[BGJOB, "mcp", "-x"], ["env", "A=b", BGJOB, "mcp"]])
    def test_nor_is_one_with_other_arguments(self, user: User, words: list[str]) -> None:
        entry = {"command": words[0], "args": words[1:]}
        user.configures("cursor", json.dumps({"mcpServers": {"bgjob": entry}}))
        assert_one_line_of_error(user.client("add", "cursor"), f"it runs {BGJOB} with other arguments.")

    def test_a_file_with_comments_and_last_commas_is_read(self, user: User) -> None:
        text = '{ // "mine"\n "mcpServers": {"bgjob": {"command": "http://x,]", /* "a" */ "args": ["//",],},},\n}'
        user.configures("gemini", text)
        assert_one_line_of_error(user.client("add", "gemini"), "it runs 'http://x,]'.")

    @pytest.mark.parametrize(
        "text", ["", "{", "[]", '{"mcpServers": []}', '{"mcpServers": {"bgjob": 1}}', "\0"]
    )
    def test_a_file_that_cannot_be_read_is_left_to_the_client(self, user: User, text: str) -> None:
        user.configures("claude", text)
        user.has("claude", "echo 'no JSON'; exit 3")
        failed = user.client("add", "claude")
        assert failed.returncode == 1
        assert "claude failed with exit code 3: no JSON" in failed.stderr
        assert user.file_of("claude").read_text() == text

    def test_what_a_variable_says_of_the_place_counts(self, user: User) -> None:
        folder = user.home / "elsewhere"
        printed = user.client("--print", "add", "codex", CODEX_HOME=str(folder)).stdout
        assert f"put this into {folder}/config.toml" in printed


class TestWithoutTheClient:
    @pytest.mark.parametrize("word", PROGRAMS)
    def test_it_prints_what_to_do_and_fails(self, user: User, word: str) -> None:
        failed = user.client("add", word)
        assert failed.returncode == 1
        assert f"there is no {PROGRAMS[word]} on PATH" in failed.stderr
        assert "put this into" in failed.stdout

    def test_a_client_that_ends_well_and_adds_nothing_is_found_out(self, user: User) -> None:
        """As one does whose command asks questions, and gets no answers."""
        user.has("opencode", "exit 0")
        failed = user.client("add", "opencode")
        assert failed.returncode == 1
        assert "opencode.json has no bgjob" in failed.stderr

    def test_a_client_that_adds_something_else_is_found_out(self, user: User) -> None:
        """Gemini CLI 0.61 cuts the value of a variable at its second `=`."""
        user.has_recording("gemini")
        failed = user.client("add", "gemini", "--env", "A=b c=d")
        assert failed.returncode == 1
        assert "gemini added bgjob, but it has other variables" in failed.stderr
        assert '"A": "b c=d"' in failed.stdout

    def test_cursor_has_no_command_and_is_told_by_hand(self, user: User) -> None:
        printed = user.client("add", "cursor", "--name", "jobs")
        assert printed.returncode == 0
        heading, _, text = printed.stdout.partition("\n\n")
        assert heading == f"Cursor: put this into {user.home}/.cursor/mcp.json"
        assert json.loads(text) == {"mcpServers": {"jobs": {"command": BGJOB, "args": ["mcp"]}}}


class TestPrinting:
    @pytest.mark.parametrize("word", PROGRAMS)
    def test_it_only_prints_and_the_command_can_be_pasted(self, user: User, word: str) -> None:
        user.has(PROGRAMS[word], "touch $HOME/was-run")
        printed = user.client("--print", "add", word, "--env", "A=b c")
        assert printed.returncode == 0
        assert not (user.home / "was-run").exists()
        command = printed.stdout.split("\n\n")[1]
        assert shlex.split(command) == [PROGRAMS[word], *ARGUMENTS[word]]

    def test_it_prints_also_where_the_client_has_another_server_of_that_name(self, user: User) -> None:
        user.configures("claude", '{"mcpServers": {"bgjob": {"command": "/old/bgjob", "args": ["mcp"]}}}')
        printed = user.client("--print", "add", "claude")
        assert (printed.returncode, printed.stderr) == (0, "")
        assert f"-- {BGJOB} mcp" in printed.stdout

    def test_the_toml_of_codex_is_toml(self, user: User) -> None:
        printed = user.client("--print", "add", "codex", "--env", 'A="ü\\ \n').stdout
        read = tomllib.loads(printed[printed.index("[mcp_servers") :])
        entry = {"command": BGJOB, "args": ["mcp"], "env": {"A": '"ü\\ \n'}}
        assert read == {"mcp_servers": {"bgjob": entry}}


class TestUsage:
    def test_the_clients_of_the_parser_are_those_of_the_table(self) -> None:
        assert list(ACCEPTED) == list(CLIENTS)

    def test_the_client_must_be_named(self, user: User) -> None:
        wrong = user.client("add")
        assert (wrong.returncode, wrong.stdout) == (2, "")
        assert "claude, codex, gemini, opencode, cursor, vscode" in wrong.stderr

    @pytest.mark.parametrize("name", ["", "-x", "a b", "a/b", "x" * 65, "ü"])
    def test_a_name_that_a_client_would_refuse_is_refused(self, user: User, name: str) -> None:
        assert_one_line_of_error(user.client(f"--name={name}", "add", "codex"), "--name", "letters")

    def test_the_list_says_who_is_installed_and_who_has_it(self, user: User) -> None:
        user.has("codex", "exit 0")
        path = user.configures("cursor", '{"mcpServers": {"bgjob": {"command": "x"}}}')
        rows = [re.split("  +", line) for line in user.client("list").stdout.splitlines()]
        cells = {row[0]: row[1:] for row in rows}
        assert list(cells) == ["CLIENT", *CLIENTS]
        assert cells["codex"] == [f"{user.environment['PATH'].partition(':')[0]}/codex", "-"]
        assert cells["cursor"] == ["not found", f"in {path}"]
        (_, line) = user.client("list", "cursor").stdout.splitlines()
        assert line.split("  ")[0] == "cursor"


class TestHowAClientStartsUs:
    def test_by_the_absolute_path_of_the_script_that_was_called(self, tmp_path: Path) -> None:
        script = tmp_path / "bgjob"
        script.symlink_to(BGJOB)  # as uv and pipx leave one on PATH: it stays where it is through upgrades
        assert own_command(str(script), sys.executable) == [str(script), "mcp"]
        assert own_command(os.path.relpath(script), sys.executable) == [str(script), "mcp"]

    def test_by_the_script_beside_the_interpreter(self) -> None:
        assert own_command("/x/bgjob/__main__.py", sys.executable) == OWN

    def test_not_by_a_directory_of_that_name(self, tmp_path: Path) -> None:
        (tmp_path / "bgjob").mkdir()
        assert own_command(str(tmp_path / "bgjob"), sys.executable) == OWN

    def test_by_the_interpreter_where_there_is_no_script(self) -> None:
        assert own_command("/x/__main__.py", "/no/python3") == ["/no/python3", "-m", "bgjob", "mcp"]

    @pytest.mark.parametrize(
        "place",
        [
            ".cache/uv/archive-v0/Ab_1/bin",
            ".cache/uv/environments-v2/x/bin",
            "pipx/.cache/0123456789abcde/bin",
        ],
    )
    def test_not_by_one_that_is_installed_for_one_run(self, user: User, place: str) -> None:
        script = user.home / place / "bgjob"
        script.parent.mkdir(parents=True)
        script.write_text(Path(BGJOB).read_text())
        script.chmod(0o755)
        refused = subprocess.run(
            [script, "client", "add", "cursor"],
            env=user.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert_one_line_of_error(refused, "for this run only", "uv tool install")

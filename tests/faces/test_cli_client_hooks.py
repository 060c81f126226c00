"""`bgjob client add --hooks` and `bgjob client remove`, on files as users and clients leave them."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bgjob.clients.command import Server
from bgjob.clients.hooks import HOOKS, SettingsHooks
from bgjob.clients.settings_file import CannotEdit, SettingsFile
from tests.faces.client_user import OWN, User
from tests.faces.command_line import BGJOB, assert_one_line_of_error

IN_JSON = [word for word, hooks in HOOKS.items() if isinstance(hooks, SettingsHooks)]
EVENTS = {
    "claude": ["SessionStart", "UserPromptSubmit", "Stop", "PostToolUse"],
    "codex": ["SessionStart", "UserPromptSubmit", "Stop"],
    "gemini": ["SessionStart", "BeforeAgent", "AfterAgent"],
}
TOOLS = "mcp__{0}__execute_command|mcp__{0}__wait_for_job"
USERS_OWN: dict[str, Any] = {
    "model": "opus",
    "number": 12345678901234567890,
    "text": 'ü \u2028 \\ "',
    "hooks": {
        "Stop": [{"hooks": [{"type": "command", "command": "say 'done'", "timeout": 1.5}]}],
        "SessionStart": [{"matcher": "startup", "hooks": [{"type": "command", "command": "echo 'open"}]}],
        "PostToolUse": [{"matcher": "Bash", "hooks": []}, "not of a form that we know", None, {}],
        "disabled": ["x"],
    },
}


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path)


def read(path: Path) -> dict[str, Any]:
    settings: dict[str, Any] = json.loads(path.read_text())
    return settings


def names_in(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def own_hooks(settings: dict[str, Any], word: str) -> dict[str, Any]:
    """Event -> the hook of it that runs bgjob."""
    return {
        event: hook
        for event, groups in settings["hooks"].items()
        for group in groups
        if isinstance(group, dict)
        for hook in group["hooks"]
        if hook["command"].endswith(f"bgjob hook {word}")
    }


def home_found_by(words: list[str], environment: dict[str, str]) -> str:
    """By a process that is started behind these words."""
    find = "import os; from bgjob.home.home_dir import home_from; print(home_from(os.environ))"
    return subprocess.check_output([*words, sys.executable, "-c", find], env=environment, text=True)


def settings_of(word: str) -> dict[str, Any]:
    """Codex takes only hooks in the file of its hooks."""
    return {"hooks": USERS_OWN["hooks"]} if word == "codex" else USERS_OWN


class TestAdding:
    @pytest.mark.parametrize("word", IN_JSON)
    def test_each_event_runs_this_bgjob_by_its_absolute_path(self, user: User, word: str) -> None:
        user.has_server(word)
        added = user.client("add", word, "--hooks")
        assert (added.returncode, added.stderr) == (0, "")
        assert f"has the hooks now, in {user.hooks_of(word)}" in added.stdout
        hooks = own_hooks(read(user.hooks_of(word)), word)
        assert list(hooks) == EVENTS[word]
        assert {hook["command"] for hook in hooks.values()} == {f"{BGJOB} hook {word}"}

    def test_the_one_that_waits_is_for_the_tools_that_leave_jobs_running(self, user: User) -> None:
        user.has_server("claude", "--name", "jobs")
        user.client("add", "claude", "--hooks", "--name", "jobs")
        (group,) = read(user.hooks_of("claude"))["hooks"]["PostToolUse"]
        assert group["matcher"] == TOOLS.format("jobs")
        assert (group["hooks"][0]["asyncRewake"], group["hooks"][0]["timeout"]) == (True, 86400)

    def test_the_plugin_of_opencode_runs_this_bgjob(self, user: User) -> None:
        user.has_server("opencode")
        user.client("add", "opencode", "--hooks")
        line = f'const command = ["{BGJOB}", "hook", "opencode"]'
        assert line in user.hooks_of("opencode").read_text().splitlines()

    @pytest.mark.parametrize("word", HOOKS)
    def test_hooks_find_the_jobs_of_a_server_with_another_home(self, user: User, word: str) -> None:
        user.has_server(word, "--env", "BGJOB_HOME=/a b", "--env", "TOKEN=hunter2")
        added = user.client("add", word, "--hooks", "--env", "BGJOB_HOME=/a b", "--env", "TOKEN=hunter2")
        assert added.returncode == 0
        text = user.hooks_of(word).read_text()
        command = ["env", "BGJOB_HOME=/a b", BGJOB, "hook", word]
        assert (json.dumps(command) if word == "opencode" else json.dumps(shlex.join(command))) in text
        assert "hunter2" not in text or word == "gemini"  # where the server stands in the same file

    @pytest.mark.parametrize(
        "given",
        [
            {"XDG_STATE_HOME": "/a b"},
            {"HOME": "/a b"},
            {"HOME": "/a", "XDG_STATE_HOME": "/b"},
            {"HOME": "/a", "XDG_STATE_HOME": "/b", "BGJOB_HOME": "/c"},
            {"XDG_STATE_HOME": "/b", "BGJOB_HOME": ""},
            {"HOME": "/a", "XDG_STATE_HOME": ""},
            {},
        ],
    )
    @pytest.mark.parametrize("word", HOOKS)
    def test_a_hook_finds_the_home_by_the_same_variables_as_the_server(
        self, user: User, word: str, given: dict[str, str]
    ) -> None:
        """Whatever the client has of them, which both get."""
        HOOKS[word].add(Server("bgjob", OWN, given), user.environment)
        command = HOOKS[word].commands(user.environment)[0]
        assert command[-3:] == [BGJOB, "hook", word]
        for name in ("HOME", "XDG_STATE_HOME", "BGJOB_HOME"):
            clients = user.environment | {name: "/of-the-client"}
            assert home_found_by(command[:-3], clients) == home_found_by([], clients | given)

    @pytest.mark.parametrize("word", HOOKS)
    def test_a_second_time_nothing_is_written(self, user: User, word: str) -> None:
        user.has_server(word)
        user.client("add", word, "--hooks")
        before = user.hooks_of(word).stat()
        again = user.client("add", word, "--hooks")
        assert f"has the hooks already, in {user.hooks_of(word)}" in again.stdout
        after = user.hooks_of(word).stat()
        assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)

    @pytest.mark.parametrize("word", HOOKS)
    def test_those_of_a_bgjob_that_was_elsewhere_are_replaced(self, user: User, word: str) -> None:
        user.has_server(word)
        user.client("add", word, "--hooks")
        path = user.hooks_of(word)
        current = path.read_text()
        path.write_text(current.replace(BGJOB, "/old/bin/bgjob"))
        if word == "gemini":
            path.write_text(path.read_text().replace("/old/bin/bgjob", BGJOB, 1))  # the server stays
        assert "has the hooks now" in user.client("add", word, "--hooks").stdout
        assert path.read_text() == current

    def test_two_servers_have_a_hook_each_that_waits(self, user: User) -> None:
        for name in ("bgjob", "jobs"):
            user.has_server("claude", "--name", name)
            user.client("add", "claude", "--hooks", "--name", name)
        hooks = read(user.hooks_of("claude"))["hooks"]
        assert [group["matcher"] for group in hooks["PostToolUse"]] == [
            TOOLS.format("bgjob"),
            TOOLS.format("jobs"),
        ]
        assert len(hooks["Stop"]) == 1

    def test_codex_asks_for_trust_and_the_user_is_told(self, user: User) -> None:
        user.has_server("codex")
        assert "Codex asks you to trust them" in user.client("add", "codex", "--hooks").stdout
        assert "trust them" not in user.client("add", "codex", "--hooks").stdout

    def test_without_the_server_there_are_no_hooks(self, user: User) -> None:
        """The client is not installed, so it cannot be added."""
        assert user.client("add", "codex", "--hooks").returncode == 1
        assert not user.hooks_of("codex").exists()

    @pytest.mark.parametrize("word", ["cursor", "vscode"])
    def test_a_client_without_hooks_is_refused(self, user: User, word: str) -> None:
        assert_one_line_of_error(
            user.client("add", word, "--hooks"), "--hooks", "claude, codex, gemini, opencode"
        )


class TestWhatIsTheUsers:
    @pytest.mark.parametrize("word", IN_JSON)
    def test_it_is_kept(self, user: User, word: str) -> None:
        before = settings_of(word)
        path = user.writes(user.hooks_of(word), json.dumps(before))
        if word != "gemini":
            user.has_server(word)
        else:
            user.has("gemini", "exit 1")
            before = before | {"mcpServers": {"bgjob": {"command": BGJOB, "args": ["mcp"]}}}
            path.write_text(json.dumps(before))
        assert user.client("add", word, "--hooks").returncode == 0
        after = read(path)
        for event, groups in before["hooks"].items():
            assert after["hooks"][event][: len(groups)] == groups
        assert {key: after[key] for key in before if key != "hooks"} == {
            key: before[key] for key in before if key != "hooks"
        }

    @pytest.mark.parametrize("word", IN_JSON)
    def test_it_is_all_that_is_left_when_ours_are_removed(self, user: User, word: str) -> None:
        before = settings_of(word)
        path = user.writes(user.hooks_of(word), json.dumps(before))
        HOOKS[word].add(user.server(), user.environment)
        assert own_hooks_of_text(path, word)
        assert "no longer has the hooks" in user.client("remove", word).stdout
        assert read(path) == before

    def test_a_hook_of_the_user_beside_ours_stays_in_its_place(self, user: User) -> None:
        path = user.hooks_of("claude")
        HOOKS["claude"].add(user.server(), user.environment)
        settings = read(path)
        theirs = {"type": "command", "command": "mine"}
        settings["hooks"]["Stop"][0]["hooks"].insert(0, theirs)
        path.write_text(json.dumps(settings))
        assert not HOOKS["claude"].add(user.server(), user.environment)
        assert HOOKS["claude"].remove(user.environment)
        assert read(path) == {"hooks": {"Stop": [{"hooks": [theirs]}]}}

    @pytest.mark.parametrize(
        "command", ["/x/bgjob hook other", "echo bgjob hook claude", "/x/bgjob hook claude -v", ""]
    )
    def test_a_hook_that_only_looks_like_ours_is_not_removed(self, user: User, command: str) -> None:
        settings = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}}
        path = user.writes(user.hooks_of("claude"), json.dumps(settings))
        assert "no hooks of it" in user.client("remove", "claude").stdout
        assert read(path) == settings

    @pytest.mark.parametrize("indent", ["", "  ", "    ", "\t"])
    @pytest.mark.parametrize("end", ["", "\n"])
    def test_the_indentation_of_the_file_is_kept(self, user: User, indent: str, end: str) -> None:
        text = json.dumps(USERS_OWN, indent=indent or None, ensure_ascii=False) + end
        path = user.writes(user.hooks_of("claude"), text)
        HOOKS["claude"].add(user.server(), user.environment)
        assert path.read_text() != text
        HOOKS["claude"].remove(user.environment)
        assert path.read_text() == text

    @pytest.mark.parametrize("end", ["", "\r\n", "\r\n\r\n"])
    @pytest.mark.parametrize("indent", ["", "  "])
    def test_so_are_its_line_ends(self, user: User, indent: str, end: str) -> None:
        text = json.dumps(USERS_OWN, indent=indent or None).replace("\n", "\r\n") + end
        path = user.writes(user.hooks_of("claude"), "")
        path.write_bytes(text.encode())
        HOOKS["claude"].add(user.server(), user.environment)
        added = path.read_bytes()
        assert own_hooks_of_text(path, "claude")
        assert added.count(b"\n") == added.count(b"\r\n")
        HOOKS["claude"].remove(user.environment)
        assert json.loads(path.read_bytes()) == USERS_OWN
        assert path.read_bytes().count(b"\r\n") == text.count("\n")

    @pytest.mark.parametrize("word", IN_JSON)
    @pytest.mark.parametrize("before", ['{"a": 1}', "{}"])
    def test_no_empty_place_for_hooks_is_left(self, user: User, word: str, before: str) -> None:
        path = user.writes(user.hooks_of(word), before)
        assert HOOKS[word].add(user.server(), user.environment)
        assert own_hooks_of_text(path, word) == len(EVENTS[word])
        assert not HOOKS[word].add(user.server(), user.environment)
        assert HOOKS[word].remove(user.environment)
        assert path.read_text() == before

    def test_the_mode_of_the_file_is_kept_and_a_link_stays_a_link(self, user: User, tmp_path: Path) -> None:
        real = user.writes(tmp_path / "dotfiles" / "settings.json", "{}")
        real.chmod(0o640)
        link = user.hooks_of("claude")
        link.parent.mkdir()
        link.symlink_to(real)
        HOOKS["claude"].add(user.server(), user.environment)
        assert link.is_symlink()
        assert real.stat().st_mode & 0o777 == 0o640
        assert "hooks" in read(real)
        assert names_in(real.parent) == ["settings.json"]

    def test_a_new_file_is_the_users_alone(self, user: User) -> None:
        HOOKS["codex"].add(user.server(), user.environment)
        assert user.hooks_of("codex").stat().st_mode & 0o777 == 0o600


def own_hooks_of_text(path: Path, word: str) -> int:
    return path.read_text().count(f"{BGJOB} hook {word}")


NOT_EDITED = {
    "comments": '{ // mine\n "model": "opus" }',
    "a last comma": '{"a": 1,}',
    "nothing": "",
    "a list": "[]",
    "half a file": '{"a": ',
    "no number of JSON": '{"a": NaN}',
    "a number that we would write as Infinity": '{"a": [-1e999]}',
    "a key that is there twice": '{"hooks": {"Stop": []}, "model": "opus", "hooks": {}}',
    "a key that is there twice in an object within": '{"a": [{"b": 1, "b": 2}]}',
    "nesting that can be read and not copied": '{"hooks": {"Stop": ' + "[" * 900 + "]" * 900 + "}}",
    "hooks of another form": '{"hooks": []}',
    "an event of another form": '{"hooks": {"Stop": {}, "AfterAgent": {}}}',
    "half a character": '{"a": "\\ud800"}',
    "deep nesting": '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}",
}


class TestAFileThatCannotBeEdited:
    @pytest.mark.parametrize("text", NOT_EDITED.values(), ids=NOT_EDITED.keys())
    def test_it_is_not_touched_and_the_user_is_told_what_to_add(self, user: User, text: str) -> None:
        user.has_server("claude")
        path = user.writes(user.hooks_of("claude"), text)
        failed = user.client("add", "claude", "--hooks")
        assert failed.returncode == 1
        assert f"{path} was not changed" in failed.stderr
        heading, _, printed = failed.stdout.partition("for its hooks put this into ")[2].partition("\n\n")
        assert heading == str(path)
        assert list(json.loads(printed)["hooks"]) == EVENTS["claude"]
        assert path.read_text() == text
        assert names_in(path.parent) == [path.name]

    @pytest.mark.parametrize("word", HOOKS)
    def test_one_that_is_read_only_is_neither_replaced_nor_removed(self, user: User, word: str) -> None:
        """Also root, who may write into every file, is told."""
        HOOKS[word].add(Server("bgjob", ["/old/bgjob", "mcp"], {}), user.environment)
        path = user.hooks_of(word)
        path.chmod(0o444)
        before = path.read_text()
        with pytest.raises(CannotEdit, match=r"was not changed: it is read-only; run chmod u\+w"):
            HOOKS[word].add(user.server(), user.environment)
        removed = user.client("remove", word)
        assert removed.returncode == 1
        assert f"{path} was not changed: it is read-only" in removed.stderr
        assert path.read_text() == before
        assert names_in(path.parent) == [path.name]

    def test_one_that_is_read_only_and_has_the_hooks_is_no_error(self, user: User) -> None:
        user.has_server("claude")
        user.client("add", "claude", "--hooks")
        user.hooks_of("claude").chmod(0o444)
        again = user.client("add", "claude", "--hooks")
        assert (again.returncode, again.stderr) == (0, "")

    @pytest.mark.parametrize("word", HOOKS)
    def test_a_fifo_in_its_place_is_an_error_and_no_hang(self, user: User, word: str) -> None:
        if word == "gemini":
            user.has("gemini", "exit 1")  # server and hooks are in the same file
        else:
            user.has_server(word)
        path = user.hooks_of(word)
        path.parent.mkdir(exist_ok=True, parents=True)
        os.mkfifo(path)
        with pytest.raises(CannotEdit, match="was not changed: it is no plain file"):
            HOOKS[word].add(user.server(), user.environment)
        assert user.client("add", word, "--hooks").returncode == 1
        removed = user.client("remove", word)
        assert (removed.returncode, "it is no plain file" in removed.stderr) == (1, True)
        checked = user.client("check", word)
        assert (checked.returncode, checked.stderr) == (1, "")
        assert f"its hooks cannot be read. {path} was not changed: it is no plain file." in checked.stdout
        assert path.is_fifo()

    def test_one_that_changed_meanwhile_is_not_overwritten(self, user: User) -> None:
        path = user.writes(user.hooks_of("claude"), "{}")
        file = SettingsFile.read(str(path))
        path.write_text('{"model": "opus"}')
        with pytest.raises(CannotEdit, match="it changed while we read it"):
            file.write({"hooks": {}})
        assert path.read_text() == '{"model": "opus"}'
        assert names_in(path.parent) == [path.name]

    def test_bytes_that_are_no_text_are_left_alone(self, user: User) -> None:
        user.has_server("claude")
        path = user.writes(user.hooks_of("claude"), "")
        path.write_bytes(b'{"a": "\xff"}')
        assert "it is not UTF-8" in user.client("add", "claude", "--hooks").stderr
        assert path.read_bytes() == b'{"a": "\xff"}'

    def test_a_directory_in_its_place_is_an_error(self, user: User) -> None:
        user.has_server("codex")
        user.hooks_of("codex").mkdir(parents=True)
        assert "Is a directory" in user.client("add", "codex", "--hooks").stderr

    def test_a_plugin_of_another_origin_is_left_alone(self, user: User) -> None:
        user.has_server("opencode")
        path = user.writes(user.hooks_of("opencode"), "export const Mine = async () => ({})\n")
        for words in (("add", "opencode", "--hooks"), ("remove", "opencode")):
            failed = user.client(*words)
            assert failed.returncode == 1
            assert "it is a plugin of another origin" in failed.stderr
        assert path.read_text() == "export const Mine = async () => ({})\n"

    def test_removing_fails_if_there_are_hooks_of_ours_in_it(self, user: User) -> None:
        text = '{ // mine\n"hooks": {"Stop": [{"hooks": [{"command": "/x/bgjob hook claude"}]}]}}'
        path = user.writes(user.hooks_of("claude"), text)
        failed = user.client("remove", "claude")
        assert failed.returncode == 1
        assert "Take out the hooks that run bgjob hook claude by hand" in failed.stderr
        assert path.read_text() == text

    def test_removing_does_not_look_at_it_if_there_are_none(self, user: User) -> None:
        user.writes(user.hooks_of("claude"), "{ // mine\n}")
        assert user.client("remove", "claude").returncode == 0


class TestRemoving:
    @pytest.mark.parametrize("word", ["claude", "codex", "gemini"])
    def test_the_server_is_removed_by_the_clients_own_command(self, user: User, word: str) -> None:
        path = user.has_server(word)
        record = f'printf "%s\\n" "$@" > {user.home}/arguments; echo > {path}'
        user.has(word, record)
        removed = user.client("remove", word)
        assert (removed.returncode, removed.stderr) == (0, "")
        assert f"no longer has bgjob, in {path}" in removed.stdout
        scope = [] if word == "codex" else ["--scope", "user"]
        assert user.arguments == ["mcp", "remove", *scope, "bgjob"]

    @pytest.mark.parametrize("word", ["opencode", "cursor"])
    def test_where_it_has_none_only_the_entry_is_taken_out(self, user: User, word: str) -> None:
        path = user.has_server(word)
        settings = read(path)
        (section,) = settings
        path.write_text(json.dumps({"a": 1, section: {"other": {}, **settings[section]}}))
        assert user.client("remove", word).returncode == 0
        assert read(path) == {"a": 1, section: {"other": {}}}

    def test_a_file_with_comments_is_left_to_the_user(self, user: User) -> None:
        text = '{ // mine\n"mcp": {"bgjob": {"command": ["/x/bgjob", "mcp"]}}}'
        path = user.configures("opencode", text)
        failed = user.client("remove", "opencode")
        assert failed.returncode == 1
        assert f"take bgjob out of mcp in {path}" in failed.stdout
        assert path.read_text() == text

    def test_another_server_of_that_name_is_left_alone_and_so_are_the_hooks(self, user: User) -> None:
        text = '{"mcpServers": {"bgjob": {"command": "/x/other", "args": ["mcp"]}}}'
        path = user.configures("cursor", text)
        assert_one_line_of_error(user.client("remove", "cursor"), "it runs /x/other.", "--name")
        assert path.read_text() == text

    def test_a_client_that_does_not_remove_it_is_found_out(self, user: User) -> None:
        user.has_server("codex")
        user.has("codex", "exit 0")
        failed = user.client("remove", "codex")
        assert failed.returncode == 1
        assert "still has bgjob" in failed.stderr

    def test_the_hooks_go_even_if_the_client_is_gone(self, user: User) -> None:
        user.has_server("codex")
        user.client("add", "codex", "--hooks")
        failed = user.client("remove", "codex")
        assert failed.returncode == 1
        assert "there is no codex on PATH" in failed.stderr
        assert read(user.hooks_of("codex")) == {}

    def test_the_plugin_of_opencode_is_removed(self, user: User) -> None:
        user.has_server("opencode")
        user.client("add", "opencode", "--hooks")
        assert user.client("remove", "opencode").returncode == 0
        assert not user.hooks_of("opencode").exists()

    @pytest.mark.parametrize("word", HOOKS)
    def test_a_second_time_there_is_nothing_to_remove(self, user: User, word: str) -> None:
        nothing = user.client("remove", word)
        assert (nothing.returncode, nothing.stderr) == (0, "")
        assert "has no bgjob and no hooks of it" in nothing.stdout

    def test_the_client_must_be_named(self, user: User) -> None:
        assert "client remove needs the client" in user.client("remove").stderr


class TestPrinting:
    @pytest.mark.parametrize("word", HOOKS)
    def test_what_is_printed_is_what_would_be_written(self, user: User, word: str) -> None:
        printed = user.client("--print", "add", word, "--hooks")
        assert (printed.returncode, names_in(user.home)) == (0, [])
        heading, _, text = printed.stdout.partition("for its hooks put this into ")[2].partition("\n\n")
        assert heading == str(user.hooks_of(word))
        HOOKS[word].add(user.server(), user.environment)
        written = user.hooks_of(word).read_text().rstrip("\n")
        assert text.removesuffix(f"\n\n{HOOKS[word].then}\n").rstrip("\n") == written

    def test_what_would_be_removed_is_printed_and_left(self, user: User) -> None:
        path = user.has_server("codex")
        user.client("add", "codex", "--hooks")
        before = path.read_text(), user.hooks_of("codex").read_text()
        printed = user.client("--print", "remove", "codex")
        assert printed.returncode == 0
        assert "codex mcp remove bgjob" in printed.stdout
        assert f"out of {user.hooks_of('codex')}" in printed.stdout
        assert (path.read_text(), user.hooks_of("codex").read_text()) == before

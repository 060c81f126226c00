"""`bgjob client check`: servers are really started, as the client's file says."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from bgjob.clients import run as client_run
from bgjob.clients.hooks import HOOKS
from bgjob.clients.run import DoesNotStart, name_and_version
from bgjob.system.own_package import full_version
from tests.faces.client_user import PROGRAMS, User
from tests.faces.command_line import BGJOB

PLUGIN = Path(__file__).parents[2] / "plugins" / "claude-code"
STARTS = f"bgjob {full_version()} starts by {BGJOB} (in "


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path)


def checked(user: User, word: str) -> tuple[int, str]:
    done = user.client("check", word)
    (line,) = done.stdout.splitlines()
    assert done.stderr == ""
    return done.returncode, line


def entry(command: str, *arguments: str, **variables: str) -> str:
    server = {"command": command, "args": arguments, "env": variables}
    return json.dumps({"mcpServers": {"bgjob": server}})


class TestWhatWorks:
    @pytest.mark.parametrize("word", [word for word in PROGRAMS if word != "vscode"])
    def test_the_server_is_started_and_says_its_version(self, user: User, word: str) -> None:
        path = user.has_server(word)
        code, line = checked(user, word)
        assert code == 0
        assert line.startswith(f"{word}: {STARTS}{path})")

    @pytest.mark.parametrize(
        ("word", "told"),
        [
            ("claude", "by tasks; by hooks too after bgjob client add claude --hooks"),
            ("gemini", "only in answers; by hooks too after bgjob client add gemini --hooks"),
            ("cursor", "only in answers"),
        ],
    )
    def test_without_hooks_it_says_how_the_model_is_told(self, user: User, word: str, told: str) -> None:
        user.has_server(word)
        assert checked(user, word)[1].endswith(f". Told of ends {told}")

    @pytest.mark.parametrize(
        ("word", "told"), [("claude", "tasks and hooks"), ("gemini", "hooks"), ("opencode", "hooks")]
    )
    def test_with_hooks_too(self, user: User, word: str, told: str) -> None:
        user.has_server(word)
        user.client("add", word, "--hooks")
        code, line = checked(user, word)
        assert code == 0
        assert line.endswith(f". Told of ends by {told}")

    def test_the_hooks_of_codex_wait_for_its_user_to_trust_them(self, user: User) -> None:
        path = user.has_server("codex")
        user.client("add", "codex", "--hooks")
        assert checked(user, "codex")[1].endswith(
            "once you have trusted the hooks: start codex, which asks for it"
        )
        with path.open("a") as file:
            file.write(f'\n[hooks.state."{user.hooks_of("codex")}:stop:0:0"]\ntrusted_hash = "sha256:0f"\n')
        assert checked(user, "codex")[1].endswith(". Told of ends by hooks")

    def test_all_clients_that_are_here_have_a_line(self, user: User) -> None:
        user.has("gemini", "exit 1")
        user.has_server("cursor")
        done = user.client("check")
        assert [line.partition(":")[0] for line in done.stdout.splitlines()] == ["gemini", "cursor"]
        assert "installed, without bgjob. Run bgjob client add gemini --hooks" in done.stdout
        assert done.returncode == 0

    def test_without_any_it_says_so(self, user: User) -> None:
        assert checked(user, "codex") == (0, "not installed: codex")

    def test_a_server_elsewhere_is_not_asked(self, user: User) -> None:
        user.configures("cursor", '{"mcpServers": {"bgjob": {"url": "http://127.0.0.1:9/mcp"}}}')
        assert "bgjob is at http://127.0.0.1:9, and was not asked" in checked(user, "cursor")[1]


SECRETIVE: Mapping[str, tuple[dict[str, object], str]] = {
    "a URL": (
        {"url": "https://me:hunter2@host.example:8443/hunter2?token=hunter2#hunter2"},
        "is at https://host.example:8443",
    ),
    "a URL of Gemini CLI": ({"httpUrl": "https://hunter2@[::1]/mcp"}, "is at https://[::1]"),
    "a URL without a scheme": ({"url": "host.example/hunter2"}, "is at a URL that cannot be shown"),
    "a URL that is broken": ({"url": "https://me:hunter2/@host"}, "is at a URL that cannot be shown"),
    "arguments": ({"command": "/x/other", "args": ["--token", "hunter2"]}, "/x/other"),
    "words": ({"command": ["/x/other", "--token=hunter2"]}, "/x/other"),
    "a line in place of words": ({"command": "/x/other --token hunter2"}, "/x/other…"),
    "a line that begins with a variable": ({"command": "TOKEN=hunter2 /x/other"}, "TOKEN…"),
    "env": ({"command": "env", "args": ["TOKEN=hunter2", "/x/other", "hunter2"]}, "/x/other"),
    "env with an option": ({"command": "/usr/bin/env", "args": ["-S", "hunter2"]}, "/usr/bin/env"),
}


class TestWhatMayBeSecret:
    """Only the program is shown, or the host of a URL: in the name of bgjob there may be another's server."""

    @pytest.mark.parametrize(("server", "shown"), SECRETIVE.values(), ids=SECRETIVE.keys())
    @pytest.mark.parametrize("action", ["add", "remove", "check"])
    def test_it_is_not_shown(self, user: User, action: str, server: object, shown: str) -> None:
        user.configures("cursor", json.dumps({"mcpServers": {"bgjob": server}}))
        done = user.client(action, "cursor")
        assert shown in done.stdout + done.stderr
        assert "hunter2" not in done.stdout + done.stderr

    def test_nor_is_it_where_the_server_starts(self, user: User) -> None:
        user.configures("cursor", entry("env", "TOKEN=hunter2", BGJOB, "mcp"))
        code, line = checked(user, "cursor")
        assert code == 0
        assert line.startswith(f"cursor: {STARTS}")
        assert "hunter2" not in line

    def test_nor_is_it_where_the_program_of_a_hook_is_gone(self, user: User) -> None:
        command = "env TOKEN=hunter2 /gone/bgjob hook codex"
        hooks = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}}
        user.writes(user.hooks_of("codex"), json.dumps(hooks))
        code, line = checked(user, "codex")
        assert code == 1
        assert "its hooks run /gone/bgjob (in " in line
        assert "hunter2" not in line


class TestTheEnvironment:
    """A bad setting keeps a server from starting: so it is seen which variables the server was given."""

    def test_the_variables_of_the_entry_count(self, user: User) -> None:
        user.configures("cursor", entry(BGJOB, "mcp", MCP_BG_MAX_JOBS="many"))
        code, line = checked(user, "cursor")
        assert code == 1
        assert "does not start" in line
        assert "MCP_BG_MAX_JOBS" in line

    @pytest.mark.parametrize(("word", "code"), [("claude", 1), ("codex", 0)])
    def test_those_of_the_user_count_where_the_client_hands_them_on(
        self, user: User, word: str, code: int
    ) -> None:
        user.has_server(word)
        assert user.client("check", word, MCP_BG_MAX_JOBS="many").returncode == code


BROKEN: Mapping[str, tuple[str, str]] = {
    "it is gone": (entry("/gone/bgjob", "mcp"), "there is no program /gone/bgjob"),
    "it fails": (entry("/bin/sh", "-c", "echo no >&2; exit 3"), "it gave no answer: no."),
    "it speaks no MCP": (entry("/bin/echo", "hello"), "it gave no answer"),
    "it is turned off": (
        '{"mcpServers": {"bgjob": {"command": "/x/bgjob", "disabled": true}}}',
        "bgjob is turned off",
    ),
    "it is nothing": ('{"mcpServers": {"bgjob": {}}}', "there is no program"),
}


class TestWhatIsBroken:
    @pytest.mark.parametrize(("text", "problem"), BROKEN.values(), ids=BROKEN.keys())
    def test_it_is_said_and_the_exit_code_is_1(self, user: User, text: str, problem: str) -> None:
        user.configures("cursor", text)
        code, line = checked(user, "cursor")
        assert code == 1
        assert line.startswith("cursor: BROKEN: ")
        assert problem in line

    def test_one_broken_client_does_not_hide_the_others(self, user: User) -> None:
        user.configures("claude", entry("/gone/bgjob", "mcp"))
        user.has_server("cursor")
        done = user.client("check")
        assert done.returncode == 1
        assert "claude: BROKEN" in done.stdout
        assert f"cursor: {STARTS}" in done.stdout

    def test_what_to_do_is_said_and_helps(self, user: User) -> None:
        user.configures(
            "opencode", '{"mcp": {"bgjob": {"type": "local", "command": ["/gone/bgjob", "mcp"]}}}'
        )
        advice = "Run bgjob client remove opencode, then bgjob client add opencode --hooks."
        assert advice in checked(user, "opencode")[1]
        assert user.client("remove", "opencode").returncode == 0
        assert "not installed" in checked(user, "opencode")[1]

    @pytest.mark.parametrize("word", HOOKS)
    def test_hooks_of_a_bgjob_that_is_gone(self, user: User, word: str) -> None:
        user.has_server(word)
        user.client("add", word, "--hooks")
        path = user.hooks_of(word)
        path.write_text(path.read_text().replace(f"{BGJOB} hook", "/gone/bgjob hook"))
        path.write_text(path.read_text().replace(f'["{BGJOB}", "hook"', '["/gone/bgjob", "hook"'))
        code, line = checked(user, word)
        assert code == 1
        assert f"its hooks run /gone/bgjob (in {path}), and there is no such program" in line
        assert f"Run bgjob client add {word} --hooks." in line
        user.client("add", word, "--hooks")
        assert checked(user, word)[0] == 0

    def test_hooks_without_a_server(self, user: User) -> None:
        HOOKS["codex"].add(user.server(), user.environment)
        code, line = checked(user, "codex")
        assert code == 1
        assert "it has hooks, but no server bgjob" in line

    @pytest.mark.parametrize(
        ("word", "off"),
        [("claude", {"disableAllHooks": True}), ("gemini", {"hooksConfig": {"enabled": False}})],
    )
    def test_hooks_that_are_turned_off(self, user: User, word: str, off: dict[str, object]) -> None:
        user.has_server(word)
        user.client("add", word, "--hooks")
        path = user.hooks_of(word)
        path.write_text(json.dumps(json.loads(path.read_text()) | off))
        code, line = checked(user, word)
        assert code == 1
        assert f"all hooks are turned off in {path}" in line

    def test_hooks_that_cannot_be_read(self, user: User) -> None:
        user.writes(user.hooks_of("codex"), '{"hooks": "/x/bgjob hook codex"')
        assert "its hooks cannot be read" in checked(user, "codex")[1]


class TestAFileOfServersThatCannotBeRead:
    """The client counts as one without a server."""

    NESTED: Mapping[str, str] = {
        "claude": '{"mcpServers": ' + "[" * 100_000,
        "codex": "mcp_servers = " + "[" * 100_000,
    }

    @pytest.mark.parametrize("word", NESTED)
    def test_one_that_is_nested_too_deeply_gives_no_traceback(self, user: User, word: str) -> None:
        user.configures(word, self.NESTED[word])
        self.assert_that_there_is_no_server(user, word)

    @pytest.mark.parametrize("word", [word for word in PROGRAMS if word != "vscode"])
    def test_a_fifo_in_its_place_is_not_waited_for(self, user: User, word: str) -> None:
        path = user.file_of(word)
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(path)
        self.assert_that_there_is_no_server(user, word)

    def assert_that_there_is_no_server(self, user: User, word: str) -> None:
        user.has(PROGRAMS[word], "exit 1")
        listed = user.client("list", word)
        assert (listed.returncode, listed.stderr) == (0, "")
        assert listed.stdout.splitlines()[1].endswith("-")
        if word == "gemini" and user.file_of(word).is_fifo():  # its hooks are in the same file
            assert "its hooks cannot be read" in checked(user, word)[1]
        else:
            assert checked(user, word)[1].startswith(f"{word}: installed, without bgjob.")


class TestAServerThatHangs:
    def test_it_is_ended_with_what_it_started(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(client_run, "START_S", 0.5)
        lock = tmp_path / "lock"
        os.mkfifo(lock)
        reader = os.open(lock, os.O_RDONLY | os.O_NONBLOCK)
        hang = f"exec 9>{lock}; sleep 1000 & wait"
        with pytest.raises(DoesNotStart, match="within"):
            name_and_version(["/bin/sh", "-c", hang], os.environ, None)
        os.set_blocking(reader, True)
        assert os.read(reader, 1) == b""  # the end: no process has it open any more
        os.close(reader)


class TestThePluginOfClaudeCode:
    def install(self, user: User, *, enabled: bool = True) -> None:
        settings = {"enabledPlugins": {"bgjob@bgjob": enabled}}
        plugins = {"plugins": {"bgjob@bgjob": [{"scope": "user", "installPath": str(PLUGIN)}]}}
        user.writes(user.home / ".claude" / "settings.json", json.dumps(settings))
        user.writes(user.home / ".claude" / "plugins" / "installed_plugins.json", json.dumps(plugins))

    def test_it_is_started_and_has_hooks(self, user: User) -> None:
        self.install(user)
        user.has("bgjob", f'exec {BGJOB} "$@"')
        expected = f"bgjob {full_version()} starts by its plugin bgjob@bgjob. Told of ends by tasks and hooks"
        assert checked(user, "claude") == (0, f"claude: {expected}")

    def test_without_a_bgjob_that_it_could_run_it_is_broken(self, user: User) -> None:
        self.install(user)
        user.has("uvx", "echo no network >&2; exit 2")
        code, line = checked(user, "claude")
        assert code == 1
        assert "it gave no answer: no network" in line

    def test_beside_it_no_server_is_added(self, user: User) -> None:
        self.install(user)
        user.has("claude", "touch $HOME/was-run")
        added = user.client("add", "claude", "--hooks")
        assert (added.returncode, added.stderr) == (0, "")
        assert "has bgjob already, with its hooks, by its plugin bgjob@bgjob" in added.stdout
        assert not (user.home / "was-run").exists()

    def test_a_server_beside_it_is_one_too_many(self, user: User) -> None:
        self.install(user)
        user.has_server("claude")
        code, line = checked(user, "claude")
        assert code == 1
        assert "it has bgjob twice" in line

    def test_one_that_is_turned_off_does_not_count(self, user: User) -> None:
        self.install(user, enabled=False)
        assert "not installed" in checked(user, "claude")[1]

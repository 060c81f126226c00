"""One config file for all faces: MCP servers, the HTTP server and the command line read it, the environment wins."""

from pathlib import Path

import pytest

from tests.faces.command_line import Cli, assert_one_line_of_error
from tests.support.http_server import HttpServer, tool_call
from tests.support.raw_client import SERVE, RawClient
from tests.support.server import StartServer, ToolError

ONLY_ECHO = 'allowed_commands = ["^echo "]\n'


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Where the file is to be."""
    (tmp_path / "config" / "bgjob").mkdir(parents=True)
    return tmp_path / "config" / "bgjob" / "config.toml"


@pytest.fixture
def xdg(config: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(config.parents[1])}


@pytest.fixture
def cli(home: Path) -> Cli:
    return Cli(home)


class TestAnMcpServer:
    def test_reads_the_file(self, start_server: StartServer, config: Path, xdg: dict[str, str]) -> None:
        config.write_text(ONLY_ECHO)
        server = start_server(**xdg)
        with pytest.raises(ToolError, match=r"touch x.*\^echo"):
            server.execute("touch x")
        assert server.call("execute_command", command="echo a", wait_s=30)["stdout"] == "a\n"

    def test_lets_the_environment_win(
        self, start_server: StartServer, config: Path, xdg: dict[str, str]
    ) -> None:
        config.write_text(ONLY_ECHO)
        server = start_server(**xdg, MCP_BG_ALLOWED_COMMANDS="^true$")
        with pytest.raises(ToolError, match="echo a"):
            server.execute("echo a")
        assert server.call("execute_command", command="true", wait_s=30)["exit_code"] == 0

    def test_gives_jobs_nothing_of_it(
        self, start_server: StartServer, config: Path, xdg: dict[str, str]
    ) -> None:
        config.write_text('max_jobs = 7\nlimits = {open_files = 77}\non_event = "true a-mark"\n')
        seen = start_server(**xdg).call("execute_command", command="env; ulimit -n", wait_s=30)["stdout"]
        assert seen.endswith("\n77\n")
        assert "MCP_BG_" not in seen
        assert "a-mark" not in seen

    def test_does_not_start_with_a_bad_one(self, home: Path, config: Path, xdg: dict[str, str]) -> None:
        config.write_text('max_jobs = "lots"')
        with RawClient(home, SERVE, **xdg) as client:
            assert client.process.wait() == 2
            (line,) = client.stderr.splitlines()
        assert (
            line == f"bgjob: {config}: max_jobs='lots' is not valid. Accepted: a whole number from 1 to 1000."
        )


def is_refused(server: HttpServer, command: str, token: str | None = None) -> bool:
    """By the allow-list."""
    message, headers = tool_call("execute_command", {"command": command})
    return b"matches no pattern" in server.post(message, *headers, token=token).body


class TestTheHttpServer:
    def test_reads_the_file(self, home: Path, config: Path, xdg: dict[str, str]) -> None:
        config.write_text(ONLY_ECHO)
        with HttpServer(home, **xdg) as server:
            assert is_refused(server, "touch x")
            assert not is_refused(server, "echo a")

    def test_is_only_narrowed_by_the_rules_of_a_token(
        self, home: Path, config: Path, xdg: dict[str, str]
    ) -> None:
        config.write_text(ONLY_ECHO)
        with HttpServer(home, **xdg) as server:
            token = server.add_token("other", "--env", "MCP_BG_ALLOWED_COMMANDS=^(true|echo b)$")
            assert is_refused(server, "echo a", token)
            assert is_refused(server, "true", token)
            assert not is_refused(server, "echo b", token)

    def test_is_not_led_to_another_file_by_the_variables_of_a_token(
        self, home: Path, config: Path, xdg: dict[str, str]
    ) -> None:
        config.write_text(ONLY_ECHO)
        with HttpServer(home, **xdg) as server:
            token = server.add_token("other", "--env", "XDG_CONFIG_HOME=/tmp")
            assert is_refused(server, "touch x", token)


class TestTheCommandLine:
    def test_reads_the_file(self, cli: Cli, config: Path, xdg: dict[str, str]) -> None:
        config.write_text(ONLY_ECHO)
        assert_one_line_of_error(cli("run", "--", "touch", "x", env=xdg), "touch x", "^echo")
        assert cli("run", "--", "echo", "a", env=xdg).returncode == 0

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("max_jobs = ", ["config.toml is not valid TOML", "line 1"]),
            ("max_jobs = 0", ["config.toml: max_jobs=0", "from 1 to 1000"]),
            ("limits = {memry = 1}", ["config.toml: limits=", "memry", "memory"]),
            ('working_dir = "/no/such"', ["config.toml: working_dir=", "a directory that exists"]),
            ('home = "/srv"', ["config.toml: 'home' cannot be set here", "BGJOB_HOME"]),
            ('allowed_comands = "^git "', ["config.toml: 'allowed_comands'", "allowed_commands"]),
        ],
    )
    def test_tells_what_is_wrong_with_it_in_one_line(
        self, cli: Cli, config: Path, xdg: dict[str, str], text: str, words: list[str]
    ) -> None:
        config.write_text(text)
        environment = xdg | {"MCP_BG_MAX_JOBS": ""}
        assert_one_line_of_error(cli("ps", env=environment), str(config.parent), *words)

    def test_refuses_a_file_that_everybody_can_write(
        self, cli: Cli, config: Path, xdg: dict[str, str]
    ) -> None:
        config.write_text("keep_jobs = 4")
        config.chmod(0o666)
        assert_one_line_of_error(cli("ps", env=xdg), str(config), "everybody", "chmod")

    def test_tells_of_a_key_that_it_does_not_know_and_goes_on(
        self, cli: Cli, config: Path, xdg: dict[str, str]
    ) -> None:
        config.write_text("keep_job = 4")
        listed = cli("ps", env=xdg)
        assert listed.returncode == 0
        assert listed.stderr.startswith(f"bgjob: WARNING: {config}: keep_job is not a setting")
        assert "Did you mean keep_jobs?" in listed.stderr

    def test_checks_a_token_with_it(self, cli: Cli, config: Path, xdg: dict[str, str]) -> None:
        config.write_text("keep_jobs = 4")
        refused = cli("token", "add", "x", "--env", "MCP_BG_KEEP_JOBS=many", env=xdg)
        assert_one_line_of_error(refused, "MCP_BG_KEEP_JOBS='many'")

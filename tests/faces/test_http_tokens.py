"""Tokens: shown once, stored as hashes, added and removed while servers run; jobs follow the rules of theirs."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.homes import end_all_jobs
from tests.support.http_server import HttpServer, head, tool_call


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    home = tmp_path_factory.mktemp("tokens") / "home"
    with HttpServer(home, MCP_BG_MAX_JOBS="100") as server:
        yield server
    end_all_jobs(home)


class TestTheFile:
    def test_it_is_private_and_has_no_token_in_it(self, serving: HttpServer) -> None:
        plain = serving.add_token("hidden")
        file = serving.home / "tokens.json"
        assert file.stat().st_mode & 0o777 == 0o600
        for each in (plain, serving.token):
            assert len(each) > 40
            assert all(each not in path.read_text() for path in serving.home.glob("tokens*"))

    def test_a_server_tells_its_token_once(self, tmp_path: Path) -> None:
        with HttpServer(tmp_path / "home") as first, HttpServer(tmp_path / "home") as second:
            assert "".join(first.told).count("Token (shown only this once)") == 1
            assert first.token not in "".join(second.told)
            assert second.told[0].startswith(f"Tokens are in {tmp_path}/home/tokens.json")

    @pytest.mark.parametrize("content", ["", "{", "[]", '{"tokens": 7}', '{"tokens": {"x": {"sha256": 1}}}'])
    def test_a_damaged_one_lets_no_client_in(self, serving: HttpServer, content: str) -> None:
        file = serving.home / "tokens.json"
        kept = file.read_text()
        try:
            file.write_text(content)
            assert serving.request(headers=serving.headers()).status == 401
        finally:
            file.write_text(kept)
        assert serving.request("GET", headers=serving.headers()).status == 405

    def test_a_damaged_one_is_not_written_over(self, tmp_path: Path) -> None:
        with HttpServer(tmp_path / "home") as server:
            (server.home / "tokens.json").write_text("{")
            refused = server.command("token", "add", "another")
            assert refused.returncode == 1
            assert "tokens.json cannot be read" in refused.stderr
            assert (server.home / "tokens.json").read_text() == "{"


class TestTheCommand:
    def test_a_token_is_valid_until_it_is_removed(self, serving: HttpServer) -> None:
        """The server runs all the time."""
        token = serving.add_token("brief")
        serving.call("list_jobs", token)
        assert serving.command("token", "remove", "brief").returncode == 0
        assert serving.request(headers=serving.headers(token=token)).status == 401

    def test_a_stream_ends_when_its_token_is_removed(self, tmp_path: Path) -> None:
        home = tmp_path / "home"
        shorter = "from bgjob.web import replies; replies.KEEP_ALIVE_S = 0.1"
        with HttpServer(home, first=shorter, MCP_BG_MAX_WAIT="600") as server:
            server.execute("sleep 1000", name="long")
            token = server.add_token("brief")
            message, headers = tool_call("wait_for_job", {"job_ids": ["long"], "timeout_s": 600})
            body = json.dumps(message).encode()
            with server.connect() as connected:
                told = [*server.headers(*headers, token=token), ("Content-Length", str(len(body)))]
                connected.sendall(head("POST", "/mcp", told) + body)
                while b":\n\n" not in connected.recv(65536):
                    pass
                server.command("token", "remove", "brief")
                received = b""
                while not received.endswith(b"0\r\n\r\n"):
                    received += connected.recv(65536)
            assert b"data:" not in received
        end_all_jobs(home)

    def test_the_list_shows_names_and_rights_but_no_value(self, serving: HttpServer) -> None:
        serving.add_token(
            "listed", "--scope", "read", "--scope", "kill", "--cwd", "/tmp", "--env", "KEY=secret"
        )
        (row,) = [line for line in serving.command("token", "list").stdout.splitlines() if "listed" in line]
        assert row.split()[:2] == ["listed", "read,kill"]
        assert row.endswith("cwd=/tmp env=KEY")
        assert "secret" not in row

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("add", "default"), "already"),
            (("add", "two words"), "no name for a token"),
            (("add", "x", "--cwd", "/nothing/here"), "--cwd /nothing/here is no directory"),
            (("add", "x", "--env", "BGJOB_HOME=/tmp"), "--env cannot set BGJOB_HOME"),
            (("add", "x", "--env", "MCP_BG_MAX_JOBS=many"), "MCP_BG_MAX_JOBS='many' is not valid"),
            (("remove", "nothing"), "bgjob token list"),
        ],
    )
    def test_what_is_wrong_is_said(self, serving: HttpServer, arguments: tuple[str, ...], words: str) -> None:
        refused = serving.command("token", *arguments)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert words in refused.stderr


class TestRules:
    def test_jobs_run_where_their_token_says_with_its_variables(
        self, serving: HttpServer, tmp_path: Path
    ) -> None:
        rules = ("--cwd", str(tmp_path), "--env", "FLAVOUR=vanilla")
        token = serving.add_token("ruled", *rules)
        job_id = serving.execute("pwd; echo $FLAVOUR", token, wait_s=30)
        # any token that may read sees the job
        assert serving.call("get_job_output", job_id=job_id)["stdout"] == f"{tmp_path}\nvanilla\n"
        plain = serving.call("execute_command", command="pwd; echo $FLAVOUR.", wait_s=30)
        assert plain["stdout"] == f"{Path.cwd()}\n.\n"

    def test_a_token_can_have_settings_of_its_own(self, serving: HttpServer) -> None:
        token = serving.add_token("limited", "--env", "MCP_BG_ALLOWED_COMMANDS=^echo ")
        serving.execute("echo this", token)
        message, headers = tool_call("execute_command", {"command": "touch that"})
        answer = serving.post(message, *headers, token=token).json
        assert answer["result"]["isError"]
        serving.execute("true")

    def test_its_allow_list_narrows_that_of_the_server(self, tmp_path: Path) -> None:
        home = tmp_path / "home"
        with HttpServer(home, MCP_BG_ALLOWED_COMMANDS="^echo ,^true$") as server:
            narrow = server.add_token("narrow", "--env", "MCP_BG_ALLOWED_COMMANDS=^echo ok,^false$")
            none = server.add_token("none", "--env", "MCP_BG_ALLOWED_COMMANDS=")
            verdicts = {
                command: [self.is_allowed(server, token, command) for token in (server.token, narrow, none)]
                for command in ("echo ok", "echo no", "true", "false", "pwd")
            }
        assert verdicts == {
            "echo ok": [True, True, True],
            "echo no": [True, False, True],
            "true": [True, False, True],
            "false": [False, False, False],
            "pwd": [False, False, False],
        }

    def is_allowed(self, server: HttpServer, token: str, command: str) -> bool:
        message, headers = tool_call("execute_command", {"command": command})
        result = server.post(message, *headers, token=token).json["result"]
        assert not result["isError"] or "MCP_BG_ALLOWED_COMMANDS" in str(result)
        return not result["isError"]

    def test_a_token_that_may_only_run_ends_no_job_by_a_restart(self, serving: HttpServer) -> None:
        token = serving.add_token("runs", "--scope", "run", "--scope", "read")
        started = {"command": "sleep 1000", "name": "kept"}
        job_id = serving.execute(**started)
        message, headers = tool_call("execute_command", {**started, "if_running": "restart"})
        refused = serving.post(message, *headers, token=token)
        assert refused.status == 403
        assert 'scope="kill"' in refused.headers["www-authenticate"]
        assert serving.call("get_job_status", token, job_id=job_id)["status"] == "running"
        assert serving.execute(token=token, **started, if_running="reuse") == job_id
        assert serving.execute(**started, if_running="restart") != job_id

    def test_a_token_whose_rules_cannot_be_followed_any_more_says_so(
        self, serving: HttpServer, tmp_path: Path
    ) -> None:
        (tmp_path / "gone").mkdir()
        token = serving.add_token("gone", "--cwd", str(tmp_path / "gone"))
        (tmp_path / "gone").rmdir()
        message, headers = tool_call("list_jobs", {})
        answer = serving.post(message, *headers, token=token)
        assert answer.status == 500
        assert str(tmp_path / "gone") in answer.body.decode()

"""Targets as a client and its model see them: only where there are some, and then in every answer that needs it."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal
from mcp.shared.exceptions import MCPError
from mcp_types import TextResourceContents

from bgjob.api import Jobs, Typed
from bgjob.core.errors import InvalidCommand, NotAllowed
from bgjob.mcp.server import INSTRUCTIONS
from tests.support.far_machine import NAME, FarMachine, far_machine
from tests.support.raw_client import RawClient
from tests.support.server import Server, ToolError
from tests.support.tool_schemas import MAX_TOKENS, lint, tokens
from tests.support.waiting import wait_until

MORE = """
[hpc]
kind = "slurm"
login = "nobody@127.0.0.1"
description = "the cluster: many CPUs, waits in a queue"
"""
# what a model pays for two targets
TARGETS_COST_TOKENS = 300


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FarMachine]:
    with far_machine(tmp_path_factory.mktemp("targets")) as far:
        with targets_file(far).open("a") as file:
            file.write('description = "a machine of the tests"\n' + MORE)
        yield far


def targets_file(far: FarMachine) -> Path:
    return Path(far.environ["XDG_CONFIG_HOME"], "bgjob/targets.toml")


@pytest.fixture(scope="module")
def server(portal: BlockingPortal, far: FarMachine) -> Iterator[Server]:
    with contextlib.closing(Server(portal, far.near_home, far.environ, "auto")) as server:
        yield server


@pytest.fixture(scope="module")
def client(far: FarMachine) -> Iterator[RawClient]:
    with RawClient(far.near_home, XDG_CONFIG_HOME=far.environ["XDG_CONFIG_HOME"]) as client:
        client.shake_hands()
        yield client


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawClient]:
    """A client of a server without targets."""
    with RawClient(tmp_path_factory.mktemp("none") / "home") as client:
        client.shake_hands()
        yield client


def instructions(client: RawClient) -> str:
    """As the answer to the first request has them."""
    return str(json.loads(client.lines[0])["result"]["instructions"])


class TestWhatIsListed:
    def test_the_instructions_have_a_line_about_them(self, client: RawClient) -> None:
        told = instructions(client)
        assert told.startswith(INSTRUCTIONS)
        assert "execute_command(target=NAME)" in told.removeprefix(INSTRUCTIONS)

    def test_execute_command_names_them(self, client: RawClient) -> None:
        tools = {tool["name"]: tool for tool in client.tools()}
        target = tools["execute_command"]["inputSchema"]["properties"]["target"]
        assert target["enum"] == [NAME, "hpc"]
        assert "far: ssh, a machine of the tests; hpc: slurm, the cluster: many CPUs" in target["description"]
        assert "time_limit" in tools["execute_command"]["inputSchema"]["properties"]["options"]["description"]

    def test_the_directorys_linter_finds_nothing(self, client: RawClient, tmp_path: Path) -> None:
        assert lint(client.tools(), tmp_path) == []

    def test_they_cost_a_model_little(self, client: RawClient) -> None:
        assert tokens(client.tools()) <= MAX_TOKENS + TARGETS_COST_TOKENS

    def test_there_is_a_resource_of_them(self, client: RawClient) -> None:
        found = client.ask("resources/list")["result"]["resources"]
        assert [each["uri"] for each in found[:2]] == ["bgjob://jobs", "bgjob://targets"]


class TestWithoutTargets:
    def test_nothing_is_said_of_them(self, without: RawClient) -> None:
        assert instructions(without) == INSTRUCTIONS
        assert '"target"' not in json.dumps(without.tools())
        assert "bgjob://targets" not in json.dumps(without.ask("resources/list"))

    def test_there_is_no_resource_of_them(self, without: RawClient) -> None:
        answer = without.ask("resources/read", {"uri": "bgjob://targets"})
        assert answer["error"]["message"].startswith("Resource not found: bgjob://targets")

    def test_a_call_that_names_one_is_told_why_it_is_refused(self, without: RawClient) -> None:
        said = error(without, command="true", target="gpu")
        assert said.startswith("target='gpu' is not known. There are no targets: ")
        assert "targets.toml names none" in said

    def test_this_machine_may_be_named(self, without: RawClient) -> None:
        answer = without.ask("tools/call", call(command="exit 4", target="local", wait_s=20))
        told = answer["result"]["structuredContent"]
        assert told["exit_code"] == 4
        assert not {"target", "node", "engine_id", "unreachable"} & told.keys()

    @pytest.mark.parametrize(
        ("option", "value"),
        [("cpus", 2), ("gpus", 1), ("time_limit", "2h"), ("labels", {"a": "b"}), ("session", "s")],
    )
    def test_what_only_an_engine_has_is_refused(self, without: RawClient, option: str, value: object) -> None:
        said = error(without, command="true", options={option: value})
        assert said.startswith(f"{option} needs a target of kind slurm")
        assert error(without, command="true", **{option: value}) == said  # also where a model puts it beside


def call(**arguments: Any) -> dict[str, Any]:
    return {"name": "execute_command", "arguments": arguments}


def error(client: RawClient, **arguments: Any) -> str:
    result = client.ask("tools/call", call(**arguments))["result"]
    assert result["isError"]
    return str(result["content"][0]["text"])


class TestAJobOfATarget:
    def test_says_so_in_every_answer_about_how_it_stands(self, server: Server) -> None:
        ran = server.call("execute_command", command="echo hi; exit 3", target=NAME, wait_s=30)
        assert (ran["target"], ran["exit_code"], ran["stdout"]) == (NAME, 3, "hi\n")
        job_id = ran["job_id"]
        assert server.status(job_id)["target"] == NAME
        assert server.call("wait_for_job", job_ids=[job_id])["jobs"][0]["target"] == NAME
        listed = {job["job_id"]: job for job in server.call("list_jobs")["jobs"]}
        assert listed[job_id]["target"] == NAME

    def test_is_another_than_one_of_the_same_name_here(self, server: Server) -> None:
        there = server.execute("cat", target=NAME, name="dev")
        here = server.call("execute_command", command="cat", name="dev", if_running="reuse")
        assert "reused" not in here
        again = server.call("execute_command", command="cat", name="dev", if_running="reuse", target=NAME)
        assert (again["job_id"], again["reused"]) == (there, True)
        for job_id in (there, here["job_id"]):
            assert server.call("kill_job", job_id=job_id)["status"] == "killed"

    def test_is_refused_if_nobody_knows_the_target(self, server: Server, far: FarMachine) -> None:
        with pytest.raises(ToolError) as refusal:
            server.execute("true", target="gpu")
        assert str(refusal.value) == (
            f"target='gpu' is not known. Accepted: local, {NAME}, hpc, of {targets_file(far)}."
        )

    def test_is_refused_if_its_kind_has_nothing_to_share_out(self, server: Server) -> None:
        with pytest.raises(
            ToolError, match="cpus needs a target of kind slurm or ray, and this one is of kind ssh"
        ):
            server.execute("true", target=NAME, options={"cpus": 2})

    def test_that_cannot_be_reached_says_since_when_and_is_still_running(
        self, server: Server, far: FarMachine
    ) -> None:
        job_id = server.execute("cat", target=NAME)
        far.refuse_connections()
        far.cut_line()
        try:
            wait_until(
                lambda: "refused" in server.status(job_id).get("unreachable", ""), "the relay tried again"
            )
            told = server.status(job_id)
            assert told["status"] == "running"
            assert told["unreachable"].startswith("since 20")
            assert "Connection refused" in told["unreachable"]
            assert "Connection refused" in server.call("tail_job_output", job_id=job_id)["unreachable"]
            listed = {job["job_id"]: job for job in server.call("list_jobs")["jobs"]}
            assert listed[job_id]["unreachable"] == told["unreachable"]
            with pytest.raises(ToolError, match=f"Target {NAME} cannot be reached"):
                server.execute("true", target=NAME)
        finally:
            far.accept_connections()
        assert server.call("kill_job", job_id=job_id)["status"] == "killed"
        assert "unreachable" not in server.status(job_id)


class TestAnAllowListOfThisServer:
    @pytest.fixture
    def jobs(self, far: FarMachine) -> Iterator[Jobs]:
        with contextlib.closing(far.open(MCP_BG_ALLOWED_COMMANDS="^echo ,^cat$")) as jobs:
            yield jobs

    def test_holds_for_targets(self, jobs: Jobs) -> None:
        with pytest.raises(InvalidCommand, match="ls"):
            jobs.execute("ls", target=NAME)
        with pytest.raises(InvalidCommand, match="env cannot be set"):
            jobs.execute("echo hi", target=NAME, env={"PATH": "/tmp"})
        with pytest.raises(InvalidCommand, match="cwd cannot be set for a target"):
            jobs.execute("echo hi", target=NAME, cwd="/tmp")
        job = jobs.execute("echo hi", target=NAME)
        assert job.spec.restricted
        assert jobs.wait_for([job.id], timeout_s=30)[0].output.stdout == "hi\n"

    def test_lets_it_type_only_into_what_such_a_server_started(self, jobs: Jobs, server: Server) -> None:
        own, other = jobs.execute("cat", target=NAME).id, server.execute("cat", target=NAME)
        assert jobs.interact(own, Typed("hi")).output.stdout == "hi\n"
        with pytest.raises(NotAllowed, match="started it on another machine"):
            jobs.interact(other, Typed("hi"))
        for job_id in (own, other):
            assert jobs.kill(job_id).status == "killed"


class TestTheResource:
    def test_tells_nodes_queue_and_health_of_each(
        self, server: Server, portal: BlockingPortal, far: FarMachine
    ) -> None:
        read = portal.call(lambda: server.client.read_resource("bgjob://targets"))
        (content,) = read.contents
        assert isinstance(content, TextResourceContents)
        assert content.mime_type == "application/json"
        reached, other = json.loads(content.text)["targets"]
        assert (reached["name"], reached["kind"], reached["reachable"]) == (NAME, "ssh", True)
        assert reached["nodes"][0]["cpus"] >= 1
        assert reached["jobs"].keys() == {"running", "queued"}
        assert (other["name"], other["reachable"]) == ("hpc", False)
        assert other["why"]

    def test_cannot_be_subscribed_to(self, client: RawClient) -> None:
        answer = client.ask("resources/subscribe", {"uri": "bgjob://targets"})
        assert "cannot be subscribed to" in answer["error"]["message"]

    def test_takes_no_range(self, server: Server, portal: BlockingPortal) -> None:
        with pytest.raises(MCPError, match="targets takes no arguments"):
            portal.call(lambda: server.client.read_resource("bgjob://targets?lines=3"))

"""The schemas that clients see: recorded, small, clean, and those of the reference with additions only.

schemas/ has one file per tool, as tools/list gives it over the wire. After a change that is meant:
BGJOB_UPDATE=1 .venv/bin/pytest tests/contracts, and read the diff.

reference_schemas.json is what PyPI `mcp-background-job` 0.1.2 answered to tools/list, without its prose: it stays.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from bgjob.mcp import schema as mcp_schema
from bgjob.mcp.tools import TOOLS
from tests.contracts import golden
from tests.support.raw_client import RawClient
from tests.support.tool_schemas import MAX_TOKENS, lint, tokens

Schema = dict[str, Any]

HERE = Path(__file__).parent
SNAPSHOTS = HERE / "schemas"
SHIPPED = golden.ROOT / "src/bgjob/mcp/tools.json"
REFERENCE: dict[str, dict[str, Schema]] = json.loads((HERE / "reference_schemas.json").read_text())
STATUS_WORDS = ["running", "completed", "failed", "killed"]
KILL_WORDS = ["killed", "already_terminated", "not_found"]
# Only a job that asked for the queue has the one, and only a call with only_signal is answered by the other.
ADDED_WORDS = {"queued", "signaled"}

each_tool = pytest.mark.parametrize("name", sorted(REFERENCE))


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Schema]:
    with RawClient(tmp_path_factory.mktemp("schemas") / "home") as client:
        client.shake_hands()
        return {tool["name"]: tool for tool in client.tools()}


def test_the_schemas_that_are_shipped_are_those_of_the_tools() -> None:
    """A server derives nothing at its start."""
    derived = mcp_schema.derived(TOOLS)
    golden.check(SHIPPED, json.dumps(derived, indent=1, ensure_ascii=False) + "\n")


def test_the_tools_are_listed_as_they_are_shipped(tools: dict[str, Schema]) -> None:
    assert list(tools.values()) == json.loads(SHIPPED.read_text())["listed"]


@pytest.mark.parametrize("name", sorted([*REFERENCE, "wait_for_job", "search_job_output", "job_events"]))
def test_the_schema_is_the_recorded_one(tools: dict[str, Schema], name: str) -> None:
    golden.check(SNAPSHOTS / f"{name}.json", json.dumps(tools[name], indent=2, sort_keys=True) + "\n")


def test_every_recorded_schema_has_its_tool_and_there_are_no_others(tools: dict[str, Schema]) -> None:
    assert sorted(tools) == sorted(file.stem for file in SNAPSHOTS.iterdir())
    assert tools.keys() >= REFERENCE.keys()


def test_all_tools_together_cost_a_model_little(tools: dict[str, Schema]) -> None:
    assert tokens(list(tools.values())) <= MAX_TOKENS


def test_the_directorys_linter_finds_nothing(tools: dict[str, Schema], tmp_path: Path) -> None:
    assert lint(list(tools.values()), tmp_path) == []


def test_the_linter_does_find_something_in_a_bad_tool(tmp_path: Path) -> None:
    bad = {"name": "x", "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}}}
    assert lint([bad], tmp_path) != []


@each_tool
def test_no_more_must_be_given_than_the_reference_wants(tools: dict[str, Schema], name: str) -> None:
    ours, theirs = tools[name]["inputSchema"], REFERENCE[name]["inputSchema"]
    assert set(ours.get("required", [])) <= set(theirs.get("required", []))
    for argument, schema in theirs["properties"].items():
        assert without_prose(ours["properties"][argument]) == schema


def without_prose(schema: Schema) -> Schema:
    return {key: value for key, value in schema.items() if key != "description"}


@each_tool
def test_the_answer_has_the_references_fields_with_their_types(tools: dict[str, Schema], name: str) -> None:
    assert_keeps(tools[name]["outputSchema"], REFERENCE[name]["outputSchema"])


def assert_keeps(ours: Schema, theirs: Schema) -> None:
    """Whoever reads by their schema can read by ours."""
    assert ours["type"] == theirs["type"]
    assert words(ours) == theirs.get("enum", words(ours))
    assert set(ours.get("required", [])) >= set(theirs.get("required", []))
    for field, schema in theirs.get("properties", {}).items():
        assert_keeps(ours["properties"][field], schema)
    if "items" in theirs:
        assert_keeps(ours["items"], theirs["items"])


def words(schema: Schema) -> list[str] | None:
    """Those that a caller sees who asks for nothing that the reference does not have."""
    return [word for word in schema["enum"] if word not in ADDED_WORDS] if "enum" in schema else None


def test_the_words_of_a_status_are_exactly_the_contracts(tools: dict[str, Schema]) -> None:
    listed = fields(tools, "list_jobs")["jobs"]["items"]["properties"]
    assert fields(tools, "get_job_status")["status"]["enum"] == ["queued", *STATUS_WORDS]
    assert listed["status"]["enum"] == ["queued", *STATUS_WORDS]
    assert fields(tools, "kill_job")["status"]["enum"] == [*KILL_WORDS, "signaled"]


def fields(tools: dict[str, Schema], name: str) -> Schema:
    return dict(tools[name]["outputSchema"]["properties"])

"""What clients see of targets: nothing without any; with some, their names and what they can be asked for."""

import json
from typing import Any

import pytest

from bgjob.core.options import TARGET
from bgjob.core.targets import Target
from bgjob.mcp.target_schema import MOST_DESCRIBED, schema_with_targets, tool_with_targets
from bgjob.mcp.tools import TOOLS

GPU = Target("gpu-box", "ssh", "two A100", host="gpu")
HPC = Target("hpc", "slurm")
RAY = Target("ray", "ray", address="auto")


def listed(*targets: Target) -> dict[str, Any]:
    """execute_command, as a server with these targets lists it."""
    named = {target.name: target for target in targets}
    (tool,) = (tool for tool in TOOLS.listing() if tool["name"] == "execute_command")
    return dict(tool_with_targets(tool, named))


def test_without_targets_every_tool_is_listed_as_it_is_shipped() -> None:
    assert [json.dumps(tool_with_targets(tool, {})) for tool in TOOLS.listing()] == [
        json.dumps(tool) for tool in TOOLS.listing()
    ]


def test_with_targets_only_execute_command_is_listed_otherwise() -> None:
    others = [tool for tool in TOOLS.listing() if tool["name"] != "execute_command"]
    assert [tool_with_targets(tool, {"gpu-box": GPU}) for tool in others] == others


def test_their_names_are_the_values_of_an_argument_and_each_has_a_line() -> None:
    argument = listed(GPU, HPC)["inputSchema"]["properties"]["target"]
    assert argument["type"] == "string"
    assert argument["enum"] == ["gpu-box", "hpc"]
    assert argument["description"].endswith("gpu-box: ssh, two A100; hpc: slurm")


def test_the_argument_stands_beside_the_directory_and_nothing_else_is_moved() -> None:
    names = list(listed(GPU)["inputSchema"]["properties"])
    assert names[names.index("cwd") + 1] == "target"
    names.remove("target")
    assert names == list(listed()["inputSchema"]["properties"])


@pytest.mark.parametrize(
    ("targets", "kinds"), [((GPU, HPC), "slurm"), ((RAY, HPC), "ray or slurm"), ((GPU, RAY), "ray")]
)
def test_options_of_an_engine_are_told_where_a_target_has_one(
    targets: tuple[Target, ...], kinds: str
) -> None:
    text = listed(*targets)["inputSchema"]["properties"]["options"]["description"]
    assert f"Of a {kinds} target: " in text
    assert all(name in text for name in TARGET)


def test_options_of_an_engine_are_not_told_where_none_has_one() -> None:
    assert (
        listed(GPU)["inputSchema"]["properties"]["options"]
        == listed()["inputSchema"]["properties"]["options"]
    )


def test_of_very_many_targets_the_first_are_described() -> None:
    many = [Target(f"node{number}", "ssh", "x" * 200, host="a") for number in range(500)]
    argument = listed(*many)["inputSchema"]["properties"]["target"]
    assert len(argument["enum"]) == 500
    assert argument["description"].count(": ssh") == MOST_DESCRIBED
    assert len(argument["description"]) < 3000


def test_the_form_of_the_page_has_the_argument_only_with_targets() -> None:
    accepted = TOOLS.schemas["accepts"]["execute_command"]
    assert "target" not in schema_with_targets(accepted, {})["properties"]
    assert schema_with_targets(accepted, {"hpc": HPC})["properties"]["target"]["enum"] == ["hpc"]
    assert accepted["properties"]["target"] == {"type": "string", "unlisted": True}

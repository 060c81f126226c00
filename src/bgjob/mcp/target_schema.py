"""What clients see of targets: nothing, unless there are some.

A server without targets lists its tools as tools.json has them. With targets, execute_command has one argument
more, whose values are their names, and its options say what an engine can be asked for.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bgjob.core.options import ENGINE_OPTIONS
from bgjob.mcp.complaints import shown

if TYPE_CHECKING:
    from bgjob.core.targets import Target

TOOL, ARGUMENT = "execute_command", "target"
BEFORE, OPTIONS = "env", "options"
WHERE = "Machine or cluster to run it on; default: this machine. cwd and files are those there. "
ENGINES = (
    ". Of a {kinds} target: cpus, gpus, memory, time_limit ('2h'), labels {{name: text}}, session (a name: its "
    "allocation is kept, the next job of it starts at once)"
)
MEANING = (
    " With target it runs there, and every tool works on it as on a job of this machine; unreachable in an answer "
    "means no news since then, not an end: do not start it again."
)
INSTRUCTIONS = """
- Other machines: execute_command(target=NAME). The resource bgjob://targets tells what is free there. unreachable in \
an answer means no news since then, not an end: wait, and do not start the job again."""
MOST_DESCRIBED = 20
"""Of so many targets the schema says what each is."""


def tool_with_targets(tool: Mapping[str, Any], targets: "Mapping[str, Target]") -> Mapping[str, Any]:
    """Of the list of tools: as it is, unless it can run something on a target."""
    if not targets or tool["name"] != TOOL:
        return tool
    schema = schema_with_targets(tool["inputSchema"], targets)
    return {**tool, "description": tool["description"] + MEANING, "inputSchema": schema}


def schema_with_targets(schema: Mapping[str, Any], targets: "Mapping[str, Target]") -> Mapping[str, Any]:
    """Of the arguments of execute_command: with the names of the targets, or without the argument."""
    members = {name: each for name, each in schema["properties"].items() if name != ARGUMENT}
    if targets:
        members = dict(_with_argument(members, targets))
        options = members[OPTIONS]
        members[OPTIONS] = {**options, "description": options["description"] + _engines(targets)}
    return {**schema, "properties": members}


def _with_argument(members: Mapping[str, Any], targets: "Mapping[str, Target]") -> dict[str, Any]:
    """Beside what says where on a machine it runs."""
    argument = {"type": "string", "enum": list(targets), "description": WHERE + _described(targets)}
    at = list(members).index(BEFORE)
    items = list(members.items())
    return dict([*items[:at], (ARGUMENT, argument), *items[at:]])


def _described(targets: "Mapping[str, Target]") -> str:
    return "; ".join(_line(target) for target in list(targets.values())[:MOST_DESCRIBED])


def _line(target: "Target") -> str:
    return f"{target.name}: {target.kind}" + (f", {shown(target.description)}" if target.description else "")


def _engines(targets: "Mapping[str, Target]") -> str:
    kinds = dict.fromkeys(target.kind for target in targets.values() if ENGINE_OPTIONS[target.kind])
    return ENGINES.format(kinds=" or ".join(kinds)) if kinds else ""

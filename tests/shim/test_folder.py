"""What the folder of the shim says of itself."""

import ast
import re
from pathlib import Path

import bgjob.shim

FOLDER = Path(bgjob.shim.__file__).parent


def test_the_docstring_lists_every_module() -> None:
    listed = re.findall(r"^    (\w+) ", bgjob.shim.__doc__ or "", re.MULTILINE)
    assert sorted(listed) == sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")


# these wait where no shim with a running job is: lifecycle before it has one, the dispatcher and the zygote (entry)
# in processes of their own
WITHOUT_A_JOB = {"lifecycle", "dispatcher", "entry"}


def test_a_shim_waits_in_its_loop_alone() -> None:
    waits = {path.stem: calls_that_wait(path) for path in FOLDER.glob("*.py")}
    assert waits.pop("loop") == ["poll"]
    assert {name for name, calls in waits.items() if calls} == WITHOUT_A_JOB


def calls_that_wait(path: Path) -> list[str]:
    """With arguments: without, `select.poll` only makes something to wait with."""
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    names = [call.func.attr for call in calls if isinstance(call.func, ast.Attribute) and call.args]
    return [name for name in names if name in ("sleep", "poll", "select")]

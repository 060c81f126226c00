"""What the folder of the shim says of itself."""

import re
from pathlib import Path

import bgjob.shim

FOLDER = Path(bgjob.shim.__file__).parent


def test_the_docstring_lists_every_module() -> None:
    listed = re.findall(r"^    (\w+) ", bgjob.shim.__doc__ or "", re.MULTILINE)
    assert sorted(listed) == sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")

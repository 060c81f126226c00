"""What a test needs of the machine: a test that needs a tool says so, and is skipped where it is not."""

import os
import shutil
import sys

import pytest

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has guards")


def needs(tool: str) -> pytest.MarkDecorator:
    """Skips where a bare machine lacks the tool. CI installs it: there, not having it is a failure."""
    may_lack = sys.platform != "linux" or not os.environ.get("CI")
    return pytest.mark.skipif(may_lack and shutil.which(tool) is None, reason=f"needs {tool}")

"""What a test needs of the machine: a test that needs a tool says so, and is skipped where it is not."""

import os
import shutil
import sys

import pytest

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has guards")


def needs(tool: str) -> pytest.MarkDecorator:
    """Skip where a bare machine lacks the tool. CI installs it: there, not having it is a failure."""
    return pytest.mark.skipif(_may_lack() and shutil.which(tool) is None, reason=f"needs {tool}")


def skip_without(tool: str) -> None:
    """As `needs`, for what many tests use by way of a helper."""
    if _may_lack() and shutil.which(tool) is None:
        pytest.skip(f"needs {tool}")


def _may_lack() -> bool:
    return sys.platform != "linux" or not os.environ.get("CI")

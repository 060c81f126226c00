"""Drills: what is between a caller and a job on another machine is killed, cut or silent.

No job is lost or run twice, nothing is typed twice, and what is not known is said.
"""

from collections.abc import Callable

import pytest

from tests.clusters.engine import Ssh
from tests.clusters.far_side import FarSide
from tests.clusters.target import Target


@pytest.fixture
def target(new_target: Callable[..., Target], ssh: Ssh) -> Target:
    return new_target(ssh)


@pytest.fixture
def far(target: Target) -> FarSide:
    return FarSide(target)

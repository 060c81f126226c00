"""Version skew: an agent, a relay or a shim may be of another version for a while. They understand each other."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clusters.drills.skewed import skewed_python
from tests.clusters.drills.story import check_goes_on, running
from tests.clusters.engine import Ssh
from tests.clusters.far_side import FarSide
from tests.clusters.target import Target
from tests.support.gate import Gate


@pytest.fixture
def target(new_target: Callable[..., Target], ssh: Ssh, tmp_path: Path) -> Target:
    """Its agents say that they are of a version to come, and have words to say that we do not know."""
    return new_target(ssh, keys={"python": str(skewed_python(tmp_path))})


def test_words_that_are_not_known_are_dropped_on_either_side(target: Target, gate: Gate) -> None:
    job_id = running(target, gate)
    check_goes_on(target, job_id, gate)
    assert target.jobs.kill(target.start("cat")).status == "killed"


def test_a_job_is_followed_by_the_next_agent(target: Target, far: FarSide, gate: Gate) -> None:
    job_id = running(target, gate)
    far.kill("agent", job_id)
    check_goes_on(target, job_id, gate)

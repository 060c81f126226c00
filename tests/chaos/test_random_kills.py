"""kill -9 at random moments, among many jobs at once: what no list of points foresees."""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.chaos.crowd import Crowd
from tests.chaos.stage import Stage, built_stage
from tests.support.requires import linux_only

pytestmark = linux_only
KILLS = int(os.environ.get("BGJOB_CHAOS_KILLS") or 500)
SEED = int(os.environ.get("BGJOB_CHAOS_SEED") or random.randrange(1 << 32))
MOST_SHOWN = 30
ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(900 + KILLS)
def test_random_kills_lose_nothing() -> None:
    """Servers and zygotes as often as it hits them; of a job's guard and shim, one."""
    print(f"{KILLS} kills, BGJOB_CHAOS_SEED={SEED}")
    began = time.monotonic()
    with built_stage() as stage, stage.scene(MCP_BG_MAX_JOBS="100") as scene:
        crowd = Crowd(stage, scene, SEED)
        try:
            struck = strike(stage)
        finally:
            crowd.go_home()
        print(f"{struck} killed in {time.monotonic() - began:.0f} s; jobs: {dict(crowd.outcomes)}")
        if crowd.violations:
            pytest.fail("\n".join(crowd.violations[:MOST_SHOWN]), pytrace=False)
        assert crowd.outcomes["whole"] > KILLS / 4
        scene.check_nothing_is_held()
    assert sum(struck.values()) == KILLS


def strike(stage: Stage) -> dict[str, int]:
    command = [sys.executable, "-m", "tests.chaos.killer", stage.mark, str(KILLS), str(SEED)]
    killer = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    return dict(json.loads(killer.stdout))

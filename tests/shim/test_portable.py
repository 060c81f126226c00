"""A system without splice, waitid, memfd, pidfd and prctl: jobs run all the same, with the promises that are left."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bgjob.api import Jobs, Typed, open_jobs
from bgjob.core.job import Exited
from bgjob.link import spawn
from bgjob.system import own_argv
from tests.support.gate import Gate

WITHOUT = (
    "import os, sys\n"
    "for name in ('splice', 'waitid', 'memfd_create', 'pidfd_open'): delattr(os, name)\n"
    "sys.platform = 'darwin'\n"
)


@pytest.fixture
def jobs(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Jobs]:
    monkeypatch.setattr(
        spawn, "SHIM", [*own_argv.SHIM[:5], WITHOUT + own_argv.SHIM_CODE, own_argv.PACKAGE_ROOT]
    )
    monkeypatch.delattr(os, "memfd_create")
    with contextlib.closing(open_jobs({**os.environ, "BGJOB_HOME": str(home)}, many=False)) as jobs:
        yield jobs


def test_output_and_exit_code_are_whole(jobs: Jobs) -> None:
    job_id = jobs.execute("seq 1 20000; echo err >&2; exit 6").id
    printed = b"".join(chunk.data for chunk in jobs.follow(job_id, wait=True) if chunk.stream == 1)
    assert printed == b"".join(b"%d\n" % number for number in range(1, 20001))
    state = jobs.status(job_id).job.state
    assert isinstance(state, Exited)
    assert state.code == 6


def test_a_job_can_be_talked_to_and_killed(jobs: Jobs, gate: Gate) -> None:
    job_id = jobs.execute("cat").id
    assert jobs.interact(job_id, Typed("hello"), wait_s=20).output.stdout == "hello\n"
    assert jobs.kill(job_id).status == "killed"

"""Which leases on a node of a Ray cluster are held for nothing: by the files of its home."""

import fcntl
import os
import stat
from pathlib import Path

import pytest

from bgjob.remote.ray_gateway.held import HeldLeases

JOB = "0b5f0e0c-0000-4000-8000-000000000000"


@pytest.fixture
def job(tmp_path: Path) -> Path:
    directory = tmp_path / "home/jobs" / JOB
    directory.mkdir(parents=True)
    (directory / "spec.json").write_text("{}")
    return directory


@pytest.fixture
def held(tmp_path: Path) -> HeldLeases:
    held = HeldLeases(str(tmp_path / "home"))
    held.note(JOB)
    return held


def test_a_lease_is_held_while_the_shim_of_its_job_lives(held: HeldLeases, job: Path) -> None:
    with (job / "spec.json").open() as spec:
        fcntl.flock(spec, fcntl.LOCK_EX)
        (job / "outcome.json").write_text("{}")
        assert held.useless() == []
    assert held.useless() == [JOB]


@pytest.mark.parametrize("launch", ["papers", "papers.taken"])
def test_a_lease_is_held_for_a_job_that_waits_to_be_started(held: HeldLeases, job: Path, launch: str) -> None:
    (job / launch).write_text("{}")
    assert held.useless() == []


def test_a_lease_waits_for_its_job_and_not_for_ever(held: HeldLeases, tmp_path: Path) -> None:
    assert held.useless() == []
    os.utime(tmp_path / "home/leases" / JOB, (0, 0))
    assert held.useless() == [JOB]


def test_a_note_of_a_lease_is_there_for_the_next_actor(held: HeldLeases, tmp_path: Path) -> None:
    assert HeldLeases(str(tmp_path / "home")).noted() == [JOB]
    held.forget(JOB)
    assert held.noted() == []
    held.forget(JOB)


def test_the_home_that_a_note_makes_is_private(tmp_path: Path) -> None:
    HeldLeases(str(tmp_path / "new/home")).note(JOB)
    for path in (tmp_path / "new", tmp_path / "new/home", tmp_path / "new/home/leases"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700

"""Which engines this machine has. By hand, tests of one that is not installed are skipped; in CI that is an error."""

import os
import shutil
from importlib.util import find_spec

import pytest

SYSTEM_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
"""Daemons are in directories that may not be on the PATH of a person."""
PROGRAMS = {
    "local": (),
    "ssh": ("sshd", "ssh", "ssh-keygen"),
    "slurm": ("slurmctld", "slurmd", "munged", "sbatch", "squeue", "srun", "scancel"),
    "ray": (),
}
PACKAGES = {"ssh": "openssh-server openssh-client", "slurm": "slurm-wlm munge"}


def program(name: str) -> str:
    found = shutil.which(name, path=SYSTEM_PATH)
    assert found, f"{name} is not installed"
    return found


def missing(engine: str) -> str | None:
    """What is to be installed; None: nothing."""
    lacks = [name for name in PROGRAMS[engine] if not shutil.which(name, path=SYSTEM_PATH)]
    if lacks:
        return f"{', '.join(lacks)} cannot be found. On Debian: apt-get install {PACKAGES[engine]}"
    if engine == "slurm" and os.geteuid() != 0:
        return "slurmd needs root"
    if engine == "ray" and find_spec("ray") is None:
        return "the package ray is not installed. scripts/test clusters installs it"
    return None


def need(engine: str) -> None:
    """Skips the test where it can only be run by installing something."""
    if why := missing(engine):
        assert not os.environ.get("CI"), f"{engine}: {why}"
        pytest.skip(f"{engine}: {why}")

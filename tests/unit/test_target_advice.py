"""What to do where a target cannot be used: by what programs say."""

from pathlib import Path

import pytest

from bgjob.api import target_advice
from bgjob.api.target_advice import advice_for, lack_here
from bgjob.core.targets import Target

SSH = Target("gpu", "ssh", host="me@gpu")
SLURM = Target("hpc", "slurm", login="me@login")
RAY = Target("ray", "ray", address="auto")


@pytest.mark.parametrize(
    ("target", "why", "advice"),
    [
        (SSH, "Host key verification failed.", "Run: ssh me@gpu true, and accept its key"),
        (SSH, "me@gpu: Permission denied (publickey,password).", "without a question"),
        (SSH, "ssh: Could not resolve hostname gpu: Name or service not known", "Mend its host"),
        (SSH, "ssh: connect to host gpu port 22: Connection refused", "Run: ssh me@gpu true. If that hangs"),
        (SSH, "ssh: connect to host gpu port 22: Connection timed out", "VPN"),
        (SSH, "WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!", "find out why"),
        (SSH, "sh: 1: python3: not found", "set python to its path"),
        (SSH, "The job store /x is not safe to use: it belongs to uid 5", "mode 0700"),
        (SSH, "OSError: No space left on device", "Make room there"),
        (SLURM, "sh: 1: sbatch: not found", "Set login"),
        (SLURM, "sbatch: error: invalid partition specified: main", "Mend partition or account"),
        (SLURM, "slurm_load_partitions: Unable to contact slurm controller", "run sinfo on me@login"),
        (RAY, "ModuleNotFoundError: No module named 'ray'", "bgjob[ray]"),
        (RAY, "RuntimeError: Version mismatch: The cluster was started with", "versions of Python and Ray"),
        (SSH, "no answer within 60 s", "try again"),
        (SSH, "something that was never seen", ""),
    ],
)
def test_there_is_advice_for_what_programs_say(target: Target, why: str, advice: str) -> None:
    assert advice_for(target, f"the connection was closed ({why})").find(advice) >= 0
    assert bool(advice) == bool(advice_for(target, why))


@pytest.mark.parametrize(
    ("target", "program"), [(SSH, "ssh"), (SLURM, "ssh"), (Target("here", "slurm"), "sbatch")]
)
def test_a_program_that_is_missing_here_is_named(target: Target, program: str, tmp_path: Path) -> None:
    lack = lack_here(target, {"PATH": str(tmp_path)})
    assert lack
    assert lack.why == f"there is no program {program} on this machine"
    (tmp_path / program).touch(0o755)
    assert lack_here(target, {"PATH": str(tmp_path)}) is None


def test_ray_needs_its_package_unless_another_python_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target_advice, "_has_ray", lambda: False)
    lack = lack_here(RAY, {})
    assert lack
    assert "bgjob[ray]" in lack.advice
    assert lack_here(Target("ray", "ray", address="auto", python="/opt/ray/bin/python"), {}) is None
    monkeypatch.setattr(target_advice, "_has_ray", lambda: True)
    assert lack_here(RAY, {}) is None

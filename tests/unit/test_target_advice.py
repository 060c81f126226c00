"""What to do where a target cannot be used: by what programs say."""

from pathlib import Path

import pytest

from bgjob.api import target_advice
from bgjob.api.target_advice import ADVICE, BY_HAND, advice_for, lack_here
from bgjob.core.target_trouble import PRINTED, TROUBLES_OF_HOSTS
from bgjob.core.targets import Target
from bgjob.remote.bootstrap import TROUBLES
from bgjob.remote.loader import STATES

SSH = Target("gpu", "ssh", host="me@gpu")
SLURM = Target("hpc", "slurm", login="me@login")
RAY = Target("ray", "ray", address="auto")


@pytest.mark.parametrize(
    ("target", "why", "advice"),
    [
        (
            SSH,
            "Host key verification failed.",
            "accept its key if it is the right one. To see more, run: ssh me@gpu true",
        ),
        (SSH, "me@gpu: Permission denied (publickey,password).", "without a question"),
        (SSH, "ssh: Could not resolve hostname gpu: Name or service not known", "Fix its host"),
        (
            SSH,
            "ssh: connect to host gpu port 22: Connection refused",
            "sshd is running. To see more, run: ssh me@gpu true",
        ),
        (SSH, "ssh: connect to host gpu port 22: Connection timed out", "VPN"),
        (SSH, "WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!", "find out why"),
        (SLURM, "sh: 1: sbatch: not found", "Set login"),
        (SLURM, "sbatch: error: invalid partition specified: main", "Fix partition or account"),
        (SLURM, "slurm_load_partitions: Unable to contact slurm controller", "run sinfo on me@login"),
        (RAY, "ModuleNotFoundError: No module named 'ray'", "bgjob[ray]"),
        (RAY, "RuntimeError: Version mismatch: The cluster was started with", "versions of Python and Ray"),
        (SSH, "no answer within 60 s", "try again"),
        (Target("here", "slurm"), "Slurm has not answered within 20 s", "try again."),
        (SSH, "something that was never seen", ""),
    ],
)
def test_there_is_advice_for_what_programs_say(target: Target, why: str, advice: str) -> None:
    assert advice_for(target, f"the connection was closed ({why})").find(advice) >= 0
    assert bool(advice) == bool(advice_for(target, why))


def test_what_a_home_lacks_is_no_question_of_keys() -> None:
    """By its kind: its words are those of ssh for a key that is refused."""
    why = "[Errno 13] Permission denied: '/data/bgjob'"
    assert advice_for(SSH, why, "home_not_writable") == ADVICE["home_not_writable"]
    assert advice_for(Target("here", "slurm"), why, "home_full") == ADVICE["home_full"]


DENIED = "sbatch: error: Batch job submission failed: Permission denied"


@pytest.mark.parametrize("target", [SLURM, Target("here", "slurm")])
@pytest.mark.parametrize(
    "why", [DENIED, "srun: error: Unable to allocate resources: Access/permission denied"]
)
def test_what_slurm_denies_is_no_question_of_keys(target: Target, why: str) -> None:
    advice = advice_for(target, why)
    assert advice.startswith("Slurm does not let you submit this")
    assert "ssh" not in advice


@pytest.mark.parametrize(
    "why", ["Permission denied", "Connection refused", "srun: error: connect: Connection timed out"]
)
def test_advice_about_ssh_is_for_targets_that_ssh_reaches(why: str) -> None:
    assert advice_for(Target("here", "slurm"), why) == advice_for(RAY, why) == ""
    assert advice_for(Target("here", "slurm"), why, "login_refused") == ""
    assert bool(advice_for(SLURM, why)) == (not why.startswith("srun"))


def test_nobody_is_sent_to_ssh_where_there_is_no_ssh() -> None:
    assert "ssh" not in advice_for(Target("here", "slurm"), "", "no_answer")


def test_each_trouble_has_advice() -> None:
    words = {trouble for _, _, trouble in PRINTED} | set(TROUBLES.values())
    words |= {f"{whose}python_{state}" for whose in ("", "own_") for state in STATES}
    assert words | {"home_unsafe", "login_ended", "login_prints", "relay_gone"} == set(ADVICE)
    assert set(ADVICE) >= BY_HAND
    assert {*TROUBLES.values(), "home_unsafe", "python_broken"} <= TROUBLES_OF_HOSTS <= set(ADVICE)


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

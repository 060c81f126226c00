"""What to do where a target cannot be used: by what this machine lacks, or by what a program said."""

import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from bgjob.core.late_pattern import late_pattern

if TYPE_CHECKING:
    import re

    from bgjob.core.targets import Target

TRY_BY_HAND = "Run: ssh {place} true"


class Lack(NamedTuple):
    why: str
    advice: str


def lack_here(target: "Target", environ: Mapping[str, str]) -> Lack | None:
    """What this machine needs to reach it, and has not."""
    program = "ssh" if target.host or target.login else "sbatch" if target.kind == "slurm" else None
    if program and not shutil.which(program, path=environ.get("PATH")):
        advice = {
            "ssh": "Install OpenSSH's client.",
            "sbatch": "Set login to a machine that has Slurm's commands, or install them here.",
        }
        return Lack(f"there is no program {program} on this machine", advice[program])
    if target.kind == "ray" and target.python is None and not _has_ray():
        return Lack(
            "the Python that runs bgjob has no package ray",
            "Install bgjob[ray], or set python to one that has the version of the cluster.",
        )
    return None


def _has_ray() -> bool:
    from importlib.util import find_spec

    return find_spec("ray") is not None


def advice_for(target: "Target", why: str) -> str:
    """Empty: none is known."""
    for pattern, advice in ADVICE:
        if pattern.search(why):
            return advice.format(place=target.place, name=target.name, login=target.login or "this machine")
    return ""


def _when(pattern: str) -> "re.Pattern[str]":
    return late_pattern(f"(?i){pattern}")


# The first that fits.
ADVICE = (
    (
        _when(r"no Ray answers at"),
        "Start the cluster, or mend its address: ray status --address {place} shows whether it is there.",
    ),
    (
        _when(r"host key verification failed|no .*host key is known"),
        f"{TRY_BY_HAND}, and accept its key if it is the right one.",
    ),
    (
        _when(r"remote host identification has changed"),
        "Its key is another than before: find out why before you change ~/.ssh/known_hosts.",
    ),
    (
        _when(r"permission denied|too many authentication failures"),
        f"{TRY_BY_HAND}. It must log in without a question: by a key of an agent, or one without a passphrase.",
    ),
    (
        _when(r"could not resolve hostname|name or service not known|bad configuration option"),
        "Mend its host, or the alias of it in ~/.ssh/config.",
    ),
    (
        _when(
            r"connection refused|connection timed out|operation timed out|no route to host|network is unreachable"
        ),
        f"{TRY_BY_HAND}. If that hangs too, the machine is off, or your network does not lead there (VPN, ProxyJump).",
    ),
    (
        _when(r"no python|python3?[\d.]*: (?:command )?not found|needs python|python 3\.\d+ or newer"),
        "Install Python 3.9 or newer there, or set python to its path.",
    ),
    (
        _when(r"(?:sbatch|squeue|srun|sinfo): (?:command )?not found"),
        "Set login to a machine that has Slurm's commands in the PATH of a plain ssh command.",
    ),
    (
        _when(r"invalid (?:partition|account)"),
        "Mend partition or account: sinfo and sacctmgr show those that there are.",
    ),
    (
        _when(r"unable to contact slurm controller|slurm_load"),
        "Slurm's controller does not answer: run sinfo on {login}.",
    ),
    (
        _when(r"no module named '?ray|has no package ray"),
        "Install bgjob[ray], or set python to one that has Ray.",
    ),
    (
        _when(r"version mismatch"),
        "Set python to one with the versions of Python and Ray that the cluster has.",
    ),
    (
        _when(r"read-only file system|no space left|quota exceeded|disk quota"),
        "Make room there, or set home to another place.",
    ),
    (
        _when(r"not safe to use|belongs to uid"),
        "Set home to a directory there that is yours alone (mode 0700).",
    ),
    (_when(r"no answer within"), "It may be slow or busy: try again, and run: ssh {place} true"),
)

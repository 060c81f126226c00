"""Advice for targets that cannot be used: by what this machine lacks, or by the kind of trouble."""

import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from bgjob.core.target_trouble import OF_SSH, said

if TYPE_CHECKING:
    from bgjob.core.targets import Target


class Lack(NamedTuple):
    why: str
    advice: str


def lack_here(target: "Target", environ: Mapping[str, str]) -> Lack | None:
    """What this machine needs to reach it, and has not."""
    program = "ssh" if _is_reached_by_ssh(target) else "sbatch" if target.kind == "slurm" else None
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


def advice_for(target: "Target", why: str, trouble: str = "") -> str:
    """Return the advice, empty if there is nothing to say.

    `trouble`: a word of core.target_trouble. Without it, `why` is what a program printed.
    """
    trouble = trouble or said(why)
    if trouble in OF_SSH and not _is_reached_by_ssh(target):
        return ""
    names = {"place": target.place, "name": target.name, "login": target.login or "this machine"}
    return " ".join((ADVICE.get(trouble, "").format(**names), *_trial(target, trouble))).strip()


def _is_reached_by_ssh(target: "Target") -> bool:
    return bool(target.host or target.login)


def _trial(target: "Target", trouble: str) -> list[str]:
    """Return what to run by hand if the target is reached by ssh."""
    destination = target.host or target.login
    return [f"To see more, run: ssh {destination} true"] if destination and trouble in BY_HAND else []


BY_HAND = frozenset(
    (
        *("host_key_unknown", "login_refused", "connection_refused", "no_connection", "no_answer"),
        *("login_ended", "login_prints"),
    )
)
ANOTHER_PYTHON = "Set python to a Python 3.9 or newer on that host, or remove it so that bgjob looks for one."
INSTALL_PYTHON = "Install Python 3.9 or newer on that host, or set python to its path."
ADVICE = {
    "host_key_unknown": "Log in once by hand, and accept its key if it is the right one.",
    "host_key_changed": "Its host key has changed: find out why before you change ~/.ssh/known_hosts.",
    "login_refused": "ssh must log in without a question: with a key from an agent, or one without a passphrase.",
    "name_not_resolved": "Fix its host, or its alias in ~/.ssh/config.",
    "ssh_option": "Fix ssh_options, or ~/.ssh/config.",
    "connection_refused": "Nothing listens there: check the port, and that sshd is running.",
    "no_connection": "The host is down, or your network cannot reach it (VPN, ProxyJump).",
    "relay_gone": "bgjob's own process for this target has failed: see relay-error.txt in its home. Try again.",
    "no_answer": "The host may be slow or busy: try again.",
    "login_ended": "Let the login shell run the command that bgjob sends: its startup files must not exit or exec, and "
    "the key must not have command= in authorized_keys.",
    "login_prints": "Let the login shell run the command that bgjob sends: check its startup files.",
    "python_missing": INSTALL_PYTHON,
    "python_old": INSTALL_PYTHON,
    "python_broken": INSTALL_PYTHON,
    "own_python_missing": ANOTHER_PYTHON,
    "own_python_old": ANOTHER_PYTHON,
    "own_python_broken": ANOTHER_PYTHON,
    "home_not_writable": "Set home to a directory on that host that you can write to.",
    "home_read_only": "The file system is read-only: have it repaired, or set home to another directory.",
    "home_full": "Free some space there, or set home to another directory.",
    "home_unsafe": "Set home to a directory on that host that only you can access (mode 0700).",
    "slurm_missing": "Set login to a machine that has Slurm's commands in the PATH of a plain ssh command.",
    "slurm_account": "Fix partition or account: sinfo and sacctmgr list the existing ones.",
    "slurm_refused": "Slurm does not let you submit this: ask its administrators, or set another partition or account; "
    "sacctmgr show associations user=$USER, on {login}, lists yours.",
    "slurm_gone": "Slurm's controller does not answer: run sinfo on {login}.",
    "ray_gone": "Start the cluster, or fix its address: ray status --address {place} shows whether it is running.",
    "ray_missing": "Install bgjob[ray], or set python to an interpreter that has Ray.",
    "ray_version": "Set python to an interpreter with the cluster's versions of Python and Ray.",
}

"""What keeps a target from being used, as a word: found where it happens, so that advice goes by it.

The agent and its bootstrap report the trouble of a home or a Python by that word. ssh, Slurm and Ray only print
text: what they print is sorted here, and nothing that a host's shell or home says is.

    python_missing, python_old, python_broken         no Python there can be used
    own_python_missing, own_python_old, …             the one that the target's `python` names cannot
    home_not_writable, home_read_only, home_full      what its file system says
    home_unsafe                                       others could write into it
    login_ended, login_prints, no_answer              no agent came up
    relay_gone                                        our own process for the target, on this machine
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bgjob.core.late_pattern import late_pattern

if TYPE_CHECKING:
    import re


def _when(pattern: str) -> "re.Pattern[str]":
    return late_pattern(f"(?i){pattern}")


# The first that fits.
SSH: "Sequence[tuple[re.Pattern[str], str]]" = (
    (_when(r"identification has changed|host key for .* has changed"), "host_key_changed"),
    (_when(r"host key verification failed|no .*host key is known"), "host_key_unknown"),
    (_when(r"permission denied|too many authentication failures"), "login_refused"),
    (_when(r"could not resolve hostname|name or service not known"), "name_not_resolved"),
    (_when(r"bad configuration option|unknown option"), "ssh_option"),
    (_when(r"connection refused"), "connection_refused"),
    (_when(r"timed out|no route to host|network is unreachable"), "no_connection"),
)
PROGRAMS: "Sequence[tuple[re.Pattern[str], str]]" = (
    (_when(r"no Ray answers at"), "ray_gone"),
    (_when(r"no module named '?ray|has no package ray"), "ray_missing"),
    (_when(r"version mismatch"), "ray_version"),
    (_when(r"(?:sbatch|squeue|srun|sinfo|scancel): (?:command )?not found"), "slurm_missing"),
    (_when(r"invalid (?:partition|account)"), "slurm_account"),
    (_when(r"unable to contact slurm controller|slurm_load"), "slurm_gone"),
    (_when(r"no answer (?:with)?in|has not answered within"), "no_answer"),
)


def said_by_ssh(words: str) -> str:
    """Of the last lines of a client that has failed; empty: none that is known."""
    return _first(SSH, words)


def said(words: str) -> str:
    """Of a program that reaches a cluster, perhaps through ssh; empty: none that is known."""
    return _first((*PROGRAMS, *SSH), words)


def _first(known: "Sequence[tuple[re.Pattern[str], str]]", words: str) -> str:
    return next((trouble for pattern, trouble in known if pattern.search(words)), "")

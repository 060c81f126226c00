"""What keeps a target from being used, as one word that is found where it happens. Advice goes by that word.

The agent and its bootstrap report trouble with a home or a Python by its word. ssh, Slurm and Ray only print text,
which is sorted here; text of a host's shell or home never is.

    python_missing, python_old, python_broken         no Python there can be used
    own_python_missing, own_python_old, …             the one that the target's `python` names cannot
    home_not_writable, home_read_only, home_full      what its file system says
    home_unsafe                                       others could write into it
    login_ended, login_prints, no_answer              no agent came up
    relay_gone                                        our own process for the target, on this machine
    said_by_host                                      a host said why, in words that choose no advice
"""

from typing import TYPE_CHECKING, Literal

from bgjob.core.late_pattern import late_pattern

if TYPE_CHECKING:
    import re

Printer = Literal["cluster", "ssh"]
# What an agent or its bootstrap may name. `own_python_…` is found here: by what the target's `python` is set to.
TROUBLES_OF_HOSTS = frozenset(
    (
        *("python_missing", "python_old", "python_broken"),
        *("home_not_writable", "home_read_only", "home_full", "home_unsafe"),
    )
)
SAID_BY_HOST = "said_by_host"
SLURM_SAYS = late_pattern(
    r"(?i)\b(?:sbatch|squeue|srun|salloc|sinfo|scancel|scontrol|sacctmgr): (?:error|fatal):|\bslurm_"
)


def _printed(by: Printer, pattern: str, trouble: str) -> "tuple[Printer, re.Pattern[str], str]":
    return by, late_pattern(f"(?i){pattern}"), trouble


# The first that matches counts.
PRINTED = (
    _printed("cluster", r"no Ray answers at", "ray_gone"),
    _printed("cluster", r"no module named '?ray|has no package ray", "ray_missing"),
    _printed("cluster", r"version mismatch", "ray_version"),
    _printed("cluster", r"(?:sbatch|squeue|srun|sinfo|scancel): (?:command )?not found", "slurm_missing"),
    _printed("cluster", r"invalid (?:partition|account)", "slurm_account"),
    _printed("cluster", r"unable to contact slurm controller|slurm_load", "slurm_gone"),
    _printed("cluster", r"(?:submission failed|allocate resources): .*permission denied", "slurm_refused"),
    _printed("cluster", r"no answer (?:with)?in|has not answered within", "no_answer"),
    _printed("ssh", r"identification has changed|host key for .* has changed", "host_key_changed"),
    _printed("ssh", r"host key verification failed|no .*host key is known", "host_key_unknown"),
    _printed("ssh", r"permission denied|too many authentication failures", "login_refused"),
    _printed("ssh", r"could not resolve hostname|name or service not known", "name_not_resolved"),
    _printed("ssh", r"bad configuration option|unknown option", "ssh_option"),
    _printed("ssh", r"connection refused", "connection_refused"),
    _printed("ssh", r"timed out|no route to host|network is unreachable", "no_connection"),
)


OF_SSH = frozenset(trouble for by, _, trouble in PRINTED if by == "ssh")


def said_by_ssh(text: str) -> str:
    """Return the trouble that the last lines of a failed ssh client report; empty if it is unknown."""
    return _first(text, ("ssh",))


def said(text: str) -> str:
    """Return the trouble that a cluster's program reports, perhaps run through ssh; empty if it is unknown."""
    return _first(text, ("cluster",) if SLURM_SAYS.search(text) else ("cluster", "ssh"))


def _first(text: str, printers: tuple[Printer, ...]) -> str:
    known = ((pattern, trouble) for by, pattern, trouble in PRINTED if by in printers)
    return next((trouble for pattern, trouble in known if pattern.search(text)), "")

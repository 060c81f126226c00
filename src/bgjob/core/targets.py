"""Targets: other machines and clusters that jobs run on, as targets.toml names them.

    ssh      a machine that ssh reaches; a job starts at once
    slurm    a cluster with Slurm, which decides where and when a job runs
    ray      a Ray cluster

The file is an allow-list: a caller chooses among its names, and can name no other machine. A key or value that is
not accepted is an error: a target that is half understood could run jobs where they are not meant to run.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from bgjob.core.errors import BadTargetsFile
from bgjob.core.frozen import NOTHING, Frozen
from bgjob.core.job import LOCAL, TARGET_NAME
from bgjob.core.target_keys import KEYS, KINDS, Key, TargetKind, alternatives, keys_of


class Target(Frozen):
    name: str
    kind: TargetKind
    description: str = ""
    """For people and models: what it is good for."""
    host: str | None = None
    """Of ssh: a destination as ssh takes it, e.g. me@gpu, or an alias of ~/.ssh/config."""
    login: str | None = None
    """Of Slurm: the same, of the machine that has its commands. None: this machine has them."""
    address: str | None = None
    """Of Ray: its address, or auto."""
    ssh_options: Sequence[str] = ()
    """Each as ssh takes it after -o."""
    python: str | None = None
    """None: it is looked for."""
    home: str | None = None
    """Of jobs there; of Slurm, a directory that all its nodes have. None: as bgjob has it on that machine."""
    cwd: str | None = None
    """Where jobs run there that do not say where. None: in the user's directory."""
    partition: str | None = None
    account: str | None = None
    idle_release_s: float = 900.0
    """After how long without a job the allocation of a session is given back."""
    env: Mapping[str, str] = NOTHING
    """Variables of its jobs."""
    settings: Mapping[str, str] = NOTHING
    """Of its home, by the names of the environment: MCP_BG_MAX_JOBS and others."""

    @property
    def place(self) -> str:
        """Where it is, in a word."""
        return self.host or self.login or self.address or "this machine"


def targets_from(path: str, table: Mapping[str, object]) -> dict[str, Target]:
    """By name. BadTargetsFile: it has something that is not accepted."""
    return {name: _target(f"{path}: [{_shown(name)}]", name, values) for name, values in table.items()}


def as_record(target: Target) -> dict[str, Any]:
    """As JSON has it, for a process that works for the target."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(target).items()}


def from_record(record: Mapping[str, Any]) -> Target:
    """Of a record that `as_record` made, perhaps of another version."""
    return Target(**{name: value for name, value in record.items() if name in Target.defaults})


# -- one target -------------------------------------------------------------------------------------


def _target(where: str, name: str, values: object) -> Target:
    _check_name(where, name)
    if not isinstance(values, Mapping):
        raise BadTargetsFile(
            f"{where} is no table.", "Write [NAME] in a line of its own, and its keys below."
        )
    kind = _kind(where, values)
    known = {key.name: key for key in keys_of(kind)}
    for name_of_key in values:
        if name_of_key not in known:
            raise BadTargetsFile(f"{where} {_not_known(name_of_key, kind)}")
    for key in known.values():
        if key.required and key.name not in values:
            raise BadTargetsFile(
                f"{where} has no {key.name}, which a target of kind {kind} needs: {key.accepted}."
            )
    parsed = {known[each].field: _value(where, known[each], value) for each, value in values.items()}
    return Target(name=name, **parsed)


def _check_name(where: str, name: str) -> None:
    if name.lower() == LOCAL:
        raise BadTargetsFile(f"{where} is the name of this machine.", "Choose another.")
    if not TARGET_NAME.fullmatch(name):
        raise BadTargetsFile(
            f"{where} is no name of a target. Accepted: letters, digits, - _ and ., at most 40; the "
            "first is a letter or digit."
        )


def _kind(where: str, values: Mapping[str, object]) -> TargetKind:
    if "kind" not in values:
        raise BadTargetsFile(f"{where} has no kind. Accepted: {alternatives(KINDS)}.")
    return _as_kind(values["kind"]) or _refuse(where, "kind", values["kind"], alternatives(KINDS))


def _as_kind(value: object) -> TargetKind | None:
    return next((kind for kind in KINDS if kind == value), None)


def _not_known(name: str, kind: TargetKind) -> str:
    others = [key for key in KEYS if key.name == name]
    if others:
        return f"has {name}, which is a key of kind {alternatives(others[0].kinds)} and not of {kind}."
    from difflib import get_close_matches  # here: only a typo needs it

    names = [key.name for key in keys_of(kind)]
    close = get_close_matches(name, names, n=1)
    meant = f"Did you mean {close[0]}?" if close else f"Known are {', '.join(names)}."
    return f"has {_shown(name)}, which is no key of a target. {meant}"


def _value(where: str, key: Key, value: object) -> Any:
    try:
        return key.parse(value)
    except ValueError as problem:
        accepted = "; ".join(filter(None, (key.accepted, str(problem))))
        if key.is_secret:
            raise BadTargetsFile(f"{where} {key.name} is not valid. Accepted: {accepted}.") from None
        return _refuse(where, key.name, value, accepted)


def _refuse(where: str, key: str, value: object, accepted: str) -> Any:
    raise BadTargetsFile(f"{where} {key}={repr(value)[:100]} is not valid. Accepted: {accepted}.")


def _shown(name: str) -> str:
    return name if name.isprintable() and name else repr(name)

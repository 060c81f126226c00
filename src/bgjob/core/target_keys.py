"""The keys of a target in targets.toml: one table says for which kinds each is, and what it accepts."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

from bgjob.core.config import PREFIX, SETTINGS
from bgjob.core.frozen import Frozen
from bgjob.core.late_pattern import late_pattern
from bgjob.core.values import DAY_S, duration

TargetKind = Literal["ssh", "slurm", "ray"]
KINDS: tuple[TargetKind, ...] = get_args(TargetKind)
MOST_DESCRIPTION = 200
# Settings of the home there. All others, such as the allow-list, are those of the server that starts a job.
HOME_SETTINGS = (
    *("max_jobs", "max_output_size", "keep_days", "keep_jobs", "max_store_size", "cleanup_interval"),
    *("limits", "groups", "hidden_variables"),
)
# Options of ssh by which the pipe to the other machine stands; bgjob sets them.
OWN_SSH_OPTIONS = frozenset(
    ("batchmode", "forkafterauthentication", "remotecommand", "requesttty", "sessiontype", "stdinnull")
)
_WORD = late_pattern(r"[^-\s\x00-\x1f\x7f][^\s\x00-\x1f\x7f]{0,254}")
_PATH = late_pattern(r"(?:/|~(?:/|$))[^\x00-\x1f\x7f]{0,900}")
_SSH_OPTION = late_pattern(r"([A-Za-z0-9]+)=[^\x00-\x1f\x7f]+")
_VARIABLE = late_pattern(r"[A-Za-z_][A-Za-z0-9_]*")


class Key(Frozen):
    name: str
    kinds: Sequence[TargetKind]
    accepted: str
    parse: Callable[[object], Any]
    """The value, or ValueError; its message, where it has one, says more than `accepted`."""
    meaning: str
    required: bool = False
    is_secret: bool = False
    """Its value is in no message."""

    @property
    def field(self) -> str:
        return "idle_release_s" if self.name == "idle_release" else self.name


def example() -> str:
    """A file with a target of each kind, and every key, as comments."""
    return "\n".join(_example_of(kind) for kind in KINDS)


def keys_of(kind: TargetKind) -> list[Key]:
    return [key for key in KEYS if kind in key.kinds]


def keys_as_markdown() -> str:
    """The table of keys as docs/targets.md shows it."""
    head = [("key", "of", "accepted", "meaning"), ("---",) * 4]
    rows = [(f"`{key.name}`", _of_kinds(key), key.accepted, key.meaning) for key in KEYS]
    return "".join(
        f"| {' | '.join(text.replace('|', chr(92) + '|') for text in row)} |\n" for row in [*head, *rows]
    )


def _of_kinds(key: Key) -> str:
    kinds = "all" if len(key.kinds) == len(KINDS) else ", ".join(key.kinds)
    return f"{kinds}; needed" if key.required else kinds


def alternatives(words: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


# -- values -----------------------------------------------------------------------------------------


def _description(value: object) -> str:
    text = _text(value)
    if len(text) > MOST_DESCRIPTION or not text.isprintable():
        raise ValueError
    return text


def _matching(pattern: re.Pattern[str]) -> Callable[[object], str]:
    def parse(value: object) -> str:
        text = _text(value)
        if not pattern.fullmatch(text):
            raise ValueError
        return text

    return parse


def _ssh_options(value: object) -> tuple[str, ...]:
    options = tuple(_text(each) for each in value) if isinstance(value, list) else ()
    if not options:
        raise ValueError
    for option in options:
        found = _SSH_OPTION.fullmatch(option)
        if found is None:
            raise ValueError(f"{option[:60]!r} is not Name=value")
        if found[1].lower() in OWN_SSH_OPTIONS:
            raise ValueError(f"{found[1]} is set by bgjob itself")
    return options


def _idle_release(value: object) -> float:
    seconds = duration(value)
    if not 1 <= seconds <= 7 * DAY_S:
        raise ValueError
    return seconds


def _env(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise ValueError
    return {_variable(name): _plain_text(each, name) for name, each in value.items()}


def _variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise ValueError(f"{name[:60]!r} is no name of a variable")
    if name.startswith(("MCP_BG_", "BGJOB_")):
        raise ValueError(f"{name} is bgjob's own; settings of that home go under settings")
    return name


def _settings(value: object) -> dict[str, str]:
    """As variables of the environment, which a process of that home is started with."""
    if not isinstance(value, Mapping):
        raise ValueError
    return dict(_setting(name, each) for name, each in value.items())


def _setting(name: str, value: object) -> tuple[str, str]:
    row = next((row for row in SETTINGS if row.key == name), None)
    if row is None or name not in HOME_SETTINGS:
        why = "no setting" if row is None else "decided by the server that starts a job, and not there"
        raise ValueError(f"{name[:60]!r} is {why}")
    try:
        row.parse(value)
    except ValueError as problem:
        accepted = "; ".join(filter(None, (row.accepted, row.in_file, str(problem))))
        raise ValueError(f"{name}={repr(value)[:60]} is not: {accepted}") from None
    return PREFIX + name.upper(), _as_variable(value)


def _as_variable(value: object) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{name}={each}" for name, each in value.items())
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _plain_text(value: object, name: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float) or "\0" in str(value):
        raise ValueError(f"{name} has a value that is no text")
    return str(value)


# -- the keys ---------------------------------------------------------------------------------------

_DESTINATION = "what ssh takes as a destination, e.g. me@gpu.example.org or an alias of ~/.ssh/config"
_PATH_THERE = "a path there, from / or ~/ on"
_A_WORD = "a word without blanks that does not begin with -"
EVERY: tuple[TargetKind, ...] = KINDS
KEYS = (
    Key("kind", EVERY, alternatives(KINDS), _text, "what it is", required=True),
    Key(
        "description",
        EVERY,
        f"one line of text, at most {MOST_DESCRIPTION} characters",
        _description,
        "what it is good for: models choose by it",
    ),
    Key("host", ("ssh",), _DESTINATION, _matching(_WORD), "the machine", required=True),
    Key(
        "login",
        ("slurm",),
        _DESTINATION,
        _matching(_WORD),
        "the machine that has Slurm's commands; without it this one has them",
    ),
    Key(
        "address",
        ("ray",),
        "the address of a cluster as Ray takes it, or auto",
        _matching(_WORD),
        "the cluster; auto: the one that runs on this machine",
        required=True,
    ),
    Key(
        "ssh_options",
        ("ssh", "slurm"),
        'a list of options as ssh takes them after -o, e.g. ["Port=2222", "ProxyJump=gate"]',
        _ssh_options,
        "in addition to your ssh config; ForwardAgent and ForwardX11 are off unless set here",
    ),
    Key(
        "python",
        EVERY,
        f"{_A_WORD}: a program, or its path there",
        _matching(_WORD),
        "Python 3.9 or newer on the host; if set, no other is used; if not, bgjob looks for one",
    ),
    Key(
        "home",
        EVERY,
        _PATH_THERE,
        _matching(_PATH),
        "where its jobs are kept; of Slurm a directory that all nodes share",
    ),
    Key(
        "cwd",
        EVERY,
        _PATH_THERE,
        _matching(_PATH),
        "where jobs run that do not say where; without it in your own directory there",
    ),
    Key("partition", ("slurm",), _A_WORD, _matching(_WORD), "where Slurm looks for nodes"),
    Key("account", ("slurm",), _A_WORD, _matching(_WORD), "whom Slurm charges"),
    Key(
        "idle_release",
        ("slurm",),
        "seconds, or e.g. 15m, from 1 s to 7 days",
        _idle_release,
        "after how long without a job a session's allocation is given back (default: 15m)",
    ),
    Key(
        "env",
        EVERY,
        'a table of variables, e.g. {HF_HOME = "/data/hf"}',
        _env,
        "variables of its jobs; those of a call win",
        is_secret=True,
    ),
    Key(
        "settings",
        EVERY,
        f"a table of settings of that home, e.g. {{max_jobs = 4}}; some of {', '.join(HOME_SETTINGS)}",
        _settings,
        "as in config.toml, for the home there",
    ),
)
_EXAMPLES: Mapping[TargetKind, Mapping[str, str]] = {
    "ssh": {
        "host": '"me@gpu.example.org"',
        "description": '"two A100, shared with the lab"',
        "ssh_options": '["ProxyJump=gate.example.org"]',
        "python": '"/opt/python3.12/bin/python3"',
        "home": '"/scratch/me/bgjob"',
        "cwd": '"~/work"',
        "env": '{ HF_HOME = "/data/hf" }',
        "settings": "{ max_jobs = 4 }",
    },
    "slurm": {
        "login": '"me@login.hpc.example.org"',
        "description": '"the cluster: many CPUs, waits in a queue"',
        "home": '"/shared/me/bgjob"',
        "partition": '"main"',
        "account": '"project1"',
        "idle_release": '"15m"',
    },
    "ray": {"address": '"auto"', "description": '"Ray on this machine"'},
}
_EXAMPLE_NAMES: Mapping[TargetKind, str] = {"ssh": "gpu-box", "slurm": "hpc", "ray": "ray"}


def _example_of(kind: TargetKind) -> str:
    meant = _EXAMPLES[kind]
    lines = [f"#[{_EXAMPLE_NAMES[kind]}]", f'#kind = "{kind}"']
    for key in keys_of(kind):
        if key.name in meant:
            lines += [f"# {key.meaning}", f"#{key.name} = {meant[key.name]}"]
    return "".join(f"{line}\n" for line in lines)

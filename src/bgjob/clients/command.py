"""How a client starts this bgjob: as its server, and as its hook."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bgjob.core.errors import BgjobError

# by which home.home_dir.home_from finds the home
HOME_VARIABLES = ("BGJOB_HOME", "XDG_STATE_HOME", "HOME")
# where uvx and `pipx run` keep what they install for one run
PASSING = re.compile(r"/uv/(archive|environments)-v\d+/|/pipx/(\.cache/)?[0-9a-f]{15}/")

INSTALLERS = ("uvx", "uv", "pipx")


@dataclass(frozen=True)
class Server:
    """What a client is to start."""

    name: str
    command: Sequence[str]
    env: Mapping[str, str]

    @property
    def pairs(self) -> list[str]:
        """`--env NAME=VALUE` for each variable: four of the clients have this option."""
        return [word for name, value in self.env.items() for word in ("--env", f"{name}={value}")]

    def hook(self, client: str) -> list[str]:
        """With the home of the server's jobs: a hook has the client's variables, not those of the server."""
        home = [f"{name}={self.env[name]}" for name in HOME_VARIABLES if name in self.env]
        return [*(["env", *home] if home else []), *self.command[:-1], "hook", client]


def own_command(script: str, python: str) -> list[str]:
    """By absolute paths, because a client has a PATH of its own."""
    for path in (os.path.abspath(script), os.path.join(os.path.dirname(python), "bgjob")):
        if os.path.basename(path) == "bgjob" and is_program(path):
            return [path, "mcp"]
    return [python, "-m", "bgjob", "mcp"]


def check_that_it_stays(server: Server) -> None:
    if PASSING.search(server.command[0]):
        raise BgjobError(
            f"This bgjob is installed for this run only, in {server.command[0]}: a client would not find it for long.",
            "Install it, e.g. by uv tool install bgjob, and call again.",
        )


def is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def runs_bgjob(words: Sequence[str], *arguments: str) -> bool:
    """Whether it is a bgjob, perhaps another one than this, with these arguments."""
    own = list(without_env(words))
    program, given = own[: len(own) - len(arguments)], own[len(own) - len(arguments) :]
    if given != list(arguments) or not program or os.path.basename(program[-1]) != "bgjob":
        return False
    return len(program) == 1 or program[-2] == "-m" or os.path.basename(program[0]) in INSTALLERS


def without_env(words: Sequence[str]) -> Sequence[str]:
    """Without `env NAME=VALUE` before the program."""
    if not words or os.path.basename(words[0]) != "env":
        return words
    first = next((place for place, word in enumerate(words) if place and "=" not in word), len(words))
    return words[first:]

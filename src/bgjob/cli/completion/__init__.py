"""bgjob completion: the script that teaches a shell to complete bgjob.

The scripts of the shells lie beside these files; they call `bgjob completion --complete` at each tab.

    complete    what may follow what was typed: run at each tab, without a parser
    table       what each command accepts, as completion.json has it
    bash_words  words as bash takes them apart and quotes them
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bgjob.cli import streams

if TYPE_CHECKING:
    import argparse  # each tab imports this file

SHELLS = ("bash", "zsh", "fish")
EPILOG = """\
Completes commands, options, their values, and jobs by name or id.

  bash   eval "$(bgjob completion bash)"           in ~/.bashrc
  zsh    eval "$(bgjob completion zsh)"            in ~/.zshrc, after compinit
  fish   bgjob completion fish | source            in ~/.config/fish/config.fish
"""


def add_arguments(parser: "argparse.ArgumentParser") -> None:
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=f"one of {', '.join(SHELLS)}")


def run(options: "argparse.Namespace", _environ: Mapping[str, str]) -> int:
    path = os.path.join(os.path.dirname(__file__), f"completion.{options.shell}")
    with open(path, encoding="utf-8") as file:
        streams.say(file.read().rstrip())
    return 0

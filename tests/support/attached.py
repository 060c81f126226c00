"""People at terminals beside a job: a shell in tmux each, in which they run `bgjob attach`."""

from collections.abc import Mapping
from pathlib import Path

from tests.support.process_table import children_of
from tests.support.queueing import BGJOB
from tests.support.tmux import Terminal

PROMPT = "ready$ "


class Person(Terminal):
    """At the prompt of a shell, on a terminal of their own."""

    def __init__(
        self, cwd: Path, environment: Mapping[str, str], name: str, columns: int = 80, lines: int = 24
    ) -> None:
        variables = {**environment, "PS1": PROMPT, "USER": name, "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
        super().__init__(["bash", "--norc", "--noprofile"], cwd, variables, columns, lines)
        self.wait_for(PROMPT.strip())
        self.cwd = cwd

    def run(self, command: str) -> None:
        self.type(command)
        self.press("Enter")

    def enter(self, job_id: str, shows: str, *options: str) -> None:
        """Attached, and the screen has `shows`."""
        self.run(f"clear; {BGJOB} attach {' '.join(options)} {job_id}")
        self.wait_for(shows)

    def detach(self) -> None:
        self.press("C-]")
        self.wait_for("[detached from")

    def state(self) -> tuple[str, str]:
        """Of the terminal, at the prompt: its line settings and its modes."""
        file = self.cwd / "settings"
        file.unlink(missing_ok=True)
        self.run(f"stty -g > {file}.new; mv {file}.new {file}; clear")
        self.wait_until(file.exists, "stty has answered")
        self.wait_until(lambda: self.screen.strip() == PROMPT.strip(), "the prompt is there alone")
        return file.read_text(), self.modes

    def pids(self) -> tuple[int, int]:
        """Of `bgjob attach`: the process that the shell waits for, and the one that is at the terminal."""
        (shell,) = self.pane_pids()
        found: list[tuple[int, int]] = []

        def are_there() -> bool:
            parents = children_of(shell)
            children = children_of(parents[0]) if parents else []
            found[:] = [(parents[0], children[0])] if children else []
            return bool(found)

        self.wait_until(are_there, "both processes are there")
        return found[0]

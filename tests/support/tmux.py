"""A real terminal: a program runs in it under tmux, is typed to, and shows its screen."""

import contextlib
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.support.requires import skip_without
from tests.support.waiting import wait_until

PATIENCE_S = 120.0
"""For what a program shows: some take seconds to start, and longer on a busy machine."""
AGAIN_S = 0.5
"""Between two presses of a key that a program may not take at first."""
LOOK_EVERY_S = 0.02
"""Each look is a process of tmux: the program should have the processor."""


FLAGS = (
    *("alternate_on", "cursor_flag", "insert_flag", "keypad_cursor_flag", "keypad_flag", "mouse_any_flag"),
    *(
        "mouse_sgr_flag",
        "origin_flag",
        "wrap_flag",
        "scroll_region_upper",
        "scroll_region_lower",
        "pane_title",
    ),
)


class Terminal:
    """One program in one terminal, on a tmux server of its own."""

    def __init__(
        self,
        command: Sequence[str],
        cwd: Path,
        environment: Mapping[str, str],
        columns: int = 150,
        lines: int = 45,
    ) -> None:
        skip_without("tmux")
        self._directory = Path(tempfile.mkdtemp(prefix="bgjob-tmux-"))
        self._server = ["tmux", "-S", str(self._directory / "socket"), "-f", "/dev/null"]
        variables = [f"{name}={value}" for name, value in environment.items()]
        size = ["-x", str(columns), "-y", str(lines)]
        program = shlex.join(["env", "-i", "TERM=xterm-256color", *variables, *command])
        self._tmux("new-session", "-d", *size, "-c", str(cwd), program)

    def close(self) -> None:
        """Ends the program, as closing a terminal does."""
        self._tmux("kill-server", check=False)
        shutil.rmtree(self._directory, ignore_errors=True)  # tmux leaves its socket behind

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", "--", text)

    def press(self, *keys: str) -> None:
        """By tmux's names: Enter, Escape, Down, C-c."""
        self._tmux("send-keys", *keys)

    def resize(self, columns: int, lines: int) -> None:
        self._tmux("resize-window", "-x", str(columns), "-y", str(lines))

    def record(self, path: Path) -> None:
        """What the program writes from now on, byte for byte."""
        self._tmux("pipe-pane", f"exec cat >> {shlex.quote(str(path))}")

    def tell(self, variable: str) -> str:
        """What tmux knows of it, by its name of a format: pane_title, cursor_flag."""
        return self._tmux("display-message", "-p", f"#{{{variable}}}").removesuffix("\n")

    @property
    def screen(self) -> str:
        return self._tmux("capture-pane", "-p", check=False)

    @property
    def scrollback(self) -> str:
        """What has left the screen at its top."""
        return self._tmux("capture-pane", "-p", "-S", "-", "-E", "-1", check=False)

    @property
    def styled_screen(self) -> str:
        """With the sequences that set its colours."""
        return self._tmux("capture-pane", "-p", "-e", check=False)

    @property
    def modes(self) -> str:
        """Each mode that a program may have set, but for those that tmux does not tell."""
        return self._tmux("display-message", "-p", " ".join(f"{flag}=#{{{flag}}}" for flag in FLAGS))

    def pane_pids(self) -> list[int]:
        """Of the programs that run in it."""
        return [int(pid) for pid in self._tmux("list-panes", "-F", "#{pane_pid}").split()]

    @property
    def screen_with_colours(self) -> str:
        return self._tmux("capture-pane", "-p", "-e", check=False)

    @property
    def is_open(self) -> bool:
        return bool(self._tmux("list-panes", check=False))

    def wait_for(self, *texts: str) -> str:
        """Until the screen has one of these: which."""

        found: list[str] = []

        def is_shown() -> bool:
            screen = self.screen
            found[:] = [text for text in texts if text in screen]
            return bool(found)

        self.wait_until(is_shown, f"the screen has {' or '.join(texts)}")
        return found[0]

    def press_until(self, key: str, text: str) -> None:
        """For a key that does the same however often it is pressed: a program may not take it at first."""

        def is_shown() -> bool:
            self.press(key)
            return text in self.screen

        self.wait_until(is_shown, f"the screen has {text}")

    def wait_until(self, is_so: Callable[[], bool], what: str) -> None:
        wait_until(is_so, what, lambda: f"\n{self.screen}", PATIENCE_S, LOOK_EVERY_S)

    def _tmux(self, *arguments: str, check: bool = True) -> str:
        done = subprocess.run(
            [*self._server, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout


@contextlib.contextmanager
def terminal(
    command: Sequence[str], cwd: Path, environment: Mapping[str, str], columns: int = 150, lines: int = 45
) -> Iterator[Terminal]:
    with contextlib.closing(Terminal(command, cwd, environment, columns, lines)) as opened:
        yield opened

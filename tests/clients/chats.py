"""Clients in a real terminal: their user types a prompt, and sees when the client waits for the next one."""

import contextlib
import itertools
from collections.abc import Callable, Iterator

from tests.clients import packages
from tests.clients.model.script import Step, prompt
from tests.clients.sessions import HookCall, Setup
from tests.support.tmux import AGAIN_S, PATIENCE_S, Terminal
from tests.support.waiting import wait_until

_numbers = itertools.count(1)


class Chat:
    ready = ""
    """On the screen when the client takes a prompt."""
    busy = ""
    """On the screen as long as it works."""
    send: tuple[str, ...] = ("Enter",)

    def __init__(self, setup: Setup, *command: str) -> None:
        self.setup = setup
        program = [*packages.program(command[0]), *command[1:]]
        self.terminal = Terminal(program, setup.project, setup.environment)

    def close(self) -> None:
        self.terminal.close()

    def ask(self, *steps: Step, meanwhile: Callable[[], object] | None = None) -> None:
        """The turn is over then. `meanwhile` is done when the model is asked for the step that is held."""
        before = self.turns_over()
        self.submit(*steps)
        for step in steps:
            if step.held and meanwhile:
                self.setup.model.do_while_held(step.held, meanwhile)
        self.wait_for_turn(before + 1)

    def submit(self, *steps: Step) -> None:
        self.enter(f"{prompt(*steps)} #{next(_numbers)}")

    def enter(self, text: str) -> None:
        """In two parts: a client that shows the second part knows the first one also when Enter is pressed."""
        shown = ""
        for part in (text, " ."):
            self.terminal.type(part)
            shown += _compact(part)
            self._wait_until_shown(shown[-40:])
        self.terminal.press(*self.send)

    def _wait_until_shown(self, text: str) -> None:
        self.terminal.wait_until(lambda: text in _compact(self.terminal.screen), f"{text} is in the prompt")

    def wait_for_turn(self, count: int) -> None:
        self.terminal.wait_until(
            lambda: self.turns_over() >= count and self.busy not in self.terminal.screen,
            f"{count} turns are over",
        )

    def turns_over(self) -> int:
        raise NotImplementedError


class CodexChat(Chat):
    ready, busy = "Ask Codex to do anything", "esc to interrupt"

    def turns_over(self) -> int:
        """By its own records of its sessions."""
        records = (self.setup.home / ".codex" / "sessions").rglob("*.jsonl")
        return sum(path.read_text().count('"type":"task_complete"') for path in records)

    def trust_hooks(self) -> None:
        """As its user does who is asked. A key is not taken at once; this one may be pressed more than once."""
        self.terminal.wait_for("Hooks need review")
        self.terminal.press_until("2", "› 2. Trust all and continue")
        self.terminal.press("Enter")
        self.terminal.wait_for(self.ready)


class GeminiChat(Chat):
    ready, busy = "Type your message", "esc to cancel"
    send = ("End", "Enter")
    """An Enter that follows a letter within 30 ms is a new line."""

    def turns_over(self) -> int:
        return len(self.setup.hooks("AfterAgent"))

    def clear(self) -> HookCall:
        """The hook that its new session begins with.

        Enter may take the command from a list instead of running it: then it is pressed again. In an empty prompt
        it does nothing.
        """
        before = len(self.setup.hooks("SessionStart"))

        def has_begun() -> bool:
            if len(self.setup.hooks("SessionStart")) > before:
                return True
            self.terminal.press(*self.send)
            return False

        self.enter("/clear")
        wait_until(has_begun, "the session is cleared", lambda: self.terminal.screen, PATIENCE_S, AGAIN_S)
        return self.setup.hooks("SessionStart")[before]


class OpencodeChat(Chat):
    ready = "Ask anything"


@contextlib.contextmanager
def codex(setup: Setup, *arguments: str) -> Iterator[CodexChat]:
    with contextlib.closing(CodexChat(setup, "codex", *arguments)) as chat:
        yield chat


@contextlib.contextmanager
def gemini(setup: Setup, *arguments: str) -> Iterator[GeminiChat]:
    command = ["gemini", "--yolo", "--model", "gemini-2.5-pro", *arguments]
    with contextlib.closing(GeminiChat(setup, *command)) as chat:
        chat.terminal.wait_for(chat.ready)
        yield chat


@contextlib.contextmanager
def opencode(setup: Setup, *arguments: str) -> Iterator[OpencodeChat]:
    with contextlib.closing(OpencodeChat(setup, "opencode", *arguments)) as chat:
        chat.terminal.wait_for(chat.ready)
        yield chat


def _compact(text: str) -> str:
    """Without what a client adds to wrap and to frame it."""
    return "".join(letter for letter in text if letter.isascii() and not letter.isspace())

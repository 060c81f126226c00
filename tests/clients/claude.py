"""Claude Code with bgjob and a scripted model: in a terminal as a person runs it, and for one prompt (`-p`)."""

import contextlib
import itertools
import json
import os
import re
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bgjob.api import open_jobs
from bgjob.core.job import Running
from tests.clients import packages, seen
from tests.clients.client_user import BGJOB
from tests.clients.model.script import Step, prompt, say
from tests.clients.model.server import PATIENCE_S, Asked, Model
from tests.clients.tap import Tap
from tests.support.gate import Gate
from tests.support.process_table import every_pid, wait_until_gone
from tests.support.programs import run_to_its_end
from tests.support.tmux import AGAIN_S, LOOK_EVERY_S, Terminal, terminal
from tests.support.waiting import wait_until

NAME = "Claude Code"
TOOLS = "mcp__bgjob__"
"""The client waits with a call of this name until its server is connected."""
EXECUTE, WAIT = f"{TOOLS}execute_command", f"{TOOLS}wait_for_job"
OFFLINE = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
ALLOWED = ["mcp__bgjob", "mcp__plugin_bgjob_bgjob"]
EXIT_CODE = 3
JOB = re.compile(r'(?:server-side task |"job_id": *")([0-9a-f-]{36})')
PASTED = "[Pasted text #"
"""Shown in place of a long text."""


class GatedJob:
    """It says what its command does not contain, when the test lets it, and fails."""

    def __init__(self, directory: Path, number: int) -> None:
        self._gate = Gate(directory / f"gate-{number}")
        self.says = f"said-{1000 + number}"
        self.command = f"{self._gate.pause}; echo said-$((1000 + {number})); exit {EXIT_CODE}"

    def end(self) -> None:
        """It goes on from where it provably is."""
        self._gate.wait_until_reached()
        self._gate.open()


class Claude:
    """A new user of Claude Code, who has bgjob and sees no network."""

    def __init__(self, directory: Path, jobs_home: Path, model: Model, **variables: str) -> None:
        self.home, self.project = directory / "user", directory / "project"
        self.jobs_home, self.model = jobs_home, model
        self.tap = Tap(directory / "tap")
        self._servers = directory / "servers.json"
        self._options: list[str] = []
        self.home.mkdir()
        self.project.mkdir()
        self._know_the_project()
        self._allow_tools()
        self.environment = {
            **packages.bare_environment(self.home),
            **OFFLINE,
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": "test",
            "BGJOB_HOME": str(jobs_home),
            **variables,
        }
        programs = [str(packages.MODULES / ".bin"), str(Path(BGJOB).parent), self.environment["PATH"]]
        self.environment["PATH"] = os.pathsep.join(programs)

    @property
    def settings(self) -> Path:
        return self.home / ".claude" / "settings.json"

    def _know_the_project(self) -> None:
        trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
        known = {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "customApiKeyResponses": {"approved": ["test"], "rejected": []},
            "projects": {str(self.project): trusted},
        }
        (self.home / ".claude.json").write_text(json.dumps(known))

    def _allow_tools(self) -> None:
        self.settings.parent.mkdir()
        self.settings.write_text(json.dumps({"permissions": {"allow": ALLOWED}}))

    # -- what the user has set up -------------------------------------------------------------------

    def add_bgjob(self, *hooks: str) -> None:
        """By `bgjob client add claude --hooks`; then the user takes out the hooks that are not among these."""
        command = [BGJOB, "client", "add", "claude", "--hooks"]
        done = run_to_its_end(command, self.project, PATIENCE_S, self.environment)
        assert done.returncode == 0, done.stdout
        settings = json.loads(self.settings.read_text())
        settings["hooks"] = {event: settings["hooks"][event] for event in hooks or settings["hooks"]}
        self.settings.write_text(json.dumps(settings))

    def connect(self, *, is_tapped: bool = True) -> None:
        """To a server of whose wire a record may be kept, and to no other."""
        program, *arguments = self.tap.around([BGJOB, "mcp"]) if is_tapped else [BGJOB, "mcp"]
        server = {"command": program, "args": arguments}
        self._servers.write_text(json.dumps({"mcpServers": {"bgjob": server}}))
        self._options = ["--mcp-config", str(self._servers), "--strict-mcp-config"]

    # -- how it is run ------------------------------------------------------------------------------

    @contextlib.contextmanager
    def session(self, *steps: Step, options: Sequence[str] = ()) -> Iterator["Session"]:
        """In a terminal, with a first prompt."""
        first = prompt(*steps, say(last_words(1)))
        command = [*packages.program("claude"), *self._options, *options, first]
        with terminal(command, self.project, self.environment) as opened:
            yield Session(self, opened)

    def printed(self, *steps: Step) -> str:
        """By `claude -p`."""
        command = [*packages.program("claude"), *self._options, "-p", prompt(*steps)]
        done = run_to_its_end(command, self.project, PATIENCE_S, self.environment)
        assert done.returncode == 0, done.stdout
        return done.stdout

    # -- what is there ------------------------------------------------------------------------------

    def processes(self, word: str) -> list[int]:
        """Of `bgjob WORD` on this home."""
        return [pid for pid in every_pid() if self._runs(pid, word)]

    def _runs(self, pid: int, word: str) -> bool:
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            own = f"BGJOB_HOME={self.jobs_home}".encode()
            return own in variables and any(
                program.endswith(b"/bgjob") and first == word.encode()
                for program, first in itertools.pairwise(command)
            )
        return False

    def kill_server(self) -> None:
        (pid,) = self.processes("mcp")
        os.kill(pid, signal.SIGKILL)
        wait_until_gone(pid)

    def wait_until_no_hook_runs(self) -> None:
        wait_until(lambda: not self.processes("hook"), "no hook runs", within_s=PATIENCE_S)

    def tasks(self, status: str) -> list[dict[str, Any]]:
        """What the client was told of its tasks, where its wire is kept."""
        results = [message.get("result", {}) for message in self.tap.answered]
        return [result for result in results if "taskId" in result and result["status"] == status]

    def wait_for_task(self, status: str) -> None:
        wait_until(lambda: bool(self.tasks(status)), f"a task is {status}", within_s=PATIENCE_S)

    def is_running(self, job_id: str) -> bool:
        with contextlib.closing(open_jobs(self.environment)) as jobs:
            return isinstance(jobs.status(job_id).job.state, Running)

    def wait_until_ended(self, *job_ids: str) -> None:
        with contextlib.closing(open_jobs(self.environment)) as jobs:
            for job_id in job_ids:
                deque(jobs.follow(job_id, wait=True), maxlen=0)


class Session:
    """Claude Code in a terminal, and the person before it."""

    def __init__(self, claude: Claude, opened: Terminal) -> None:
        self.terminal, self.model = opened, claude.model
        self._turn = 1

    @property
    def over(self) -> str:
        """What the model says last in the turn."""
        return last_words(self._turn)

    def ask(self, *steps: Step) -> None:
        self._turn += 1
        self._enter(prompt(*steps, say(self.over)))

    def command(self, text: str, then: str) -> None:
        """A command of the client, and what its screen has when it is done."""
        self._enter(text)
        self.terminal.wait_for(then)

    def _enter(self, text: str) -> None:
        """Once the client shows all of it: a key that comes with a text may be taken for a part of it."""
        end = without_spaces(text)[-40:]
        self.terminal.type(text)
        self._wait(lambda screen: end in without_spaces(screen) or PASTED in screen, f"{text!r} is typed")
        self.terminal.press("Enter")

    def send_form(self, asking: str, button: str) -> None:
        """The client does not take a key that comes within about 0.1 s of another: then it is pressed again."""

        def is_sent() -> bool:
            screen = self.terminal.screen
            if asking in screen:
                self.terminal.press("Enter" if f"❯ {button}" in screen else "Down")
            return asking not in screen

        wait_until(is_sent, "the form is sent", self._details, PATIENCE_S, AGAIN_S)

    def wait_until_idle(self) -> None:
        """The turn that the person asked for is over: the model has spoken, and the hooks have run."""
        over_and_done = re.compile(rf"● {self.over}.*^✻ [^\n]* · done ", re.DOTALL | re.MULTILINE)
        self._wait(lambda screen: over_and_done.search(screen) is not None, "the session is idle")

    def _wait(self, is_so: Callable[[str], bool], what: str) -> None:
        wait_until(lambda: is_so(self.terminal.screen), what, self._details, PATIENCE_S, LOOK_EVERY_S)

    def _details(self) -> str:
        return f"\n{self.terminal.screen}\nThe model was told:\n{self.model.told()}"

    # -- what the model knows -----------------------------------------------------------------------

    def told(self, text: str) -> Asked:
        """The request by which the model is told this."""
        return self.model.wait_for_news(text)[0]

    def tellings(self, text: str) -> int:
        """How often the model was told it in the whole conversation."""
        return self._all_told().count(text)

    def _all_told(self) -> str:
        return "\n".join(turn.text for turn in self.model.asked[-1].conversation.turns if not turn.is_model)

    def found(self, pattern: str) -> str:
        match = re.search(pattern, self._all_told())
        assert match, self._details()
        return match[1]

    def find_jobs(self) -> list[str]:
        """Ids, in the order in which the model was told of them."""
        return list(dict.fromkeys(JOB.findall(self._all_told())))


def keep(way: str, situation: str, what: str) -> None:
    """For docs/clients.md."""
    seen.told(NAME, way, situation, what)


def last_words(turn: int) -> str:
    return f"TURN {turn} IS OVER"


def without_spaces(text: str) -> str:
    return "".join(text.split())

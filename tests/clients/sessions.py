"""Users of real clients with bgjob, its hooks and the scripted model, on loopback. What all of them say is kept."""

import contextlib
import json
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bgjob.api import Jobs, open_jobs
from bgjob.system.processes import read_if_there
from tests.clients import packages
from tests.clients.model.script import Step, call
from tests.clients.model.server import PATIENCE_S, Asked, Model, running_model
from tests.clients.tap import Message, Tap
from tests.support.gate import Gate
from tests.support.homes import end_all_jobs
from tests.support.hooks import is_held
from tests.support.process_table import every_pid
from tests.support.programs import run_to_its_end
from tests.support.waiting import wait_until

BGJOB = str(Path(sys.executable).with_name("bgjob"))
SOON_A_TASK = {"MCP_BG_TASK_AFTER": "0"}
"""Every wait would be answered with a task at once, if the client knew tasks."""


class HookCall(NamedTuple):
    pid: int
    event: str
    given: dict[str, Any]


class Setup:
    """A user with one client, to which bgjob and its hooks were added by `bgjob client add`."""

    def __init__(self, client: str, directory: Path, model: Model) -> None:
        self.client, self.directory, self.model = client, directory, model
        self.home, self.project, self.jobs_home = (directory / each for each in ("user", "project", "jobs"))
        self.tap = Tap(directory / "tap")
        for each in (self.home, self.project):
            each.mkdir()
        variables = CONFIGURE[client](self)
        self.environment = {**packages.bare_environment(self.home), **variables}
        self.environment["PATH"] = f"{packages.MODULES / '.bin'}{os.pathsep}{self.environment['PATH']}"
        self._add(directory / "bgjob")

    def _add(self, bgjob: Path) -> None:
        """By a copy of bgjob, which is then replaced: the client runs what keeps server and hooks on record."""
        shutil.copy(BGJOB, bgjob)
        variables = {"BGJOB_HOME": str(self.jobs_home), **SOON_A_TASK}
        pairs = [word for name, value in variables.items() for word in ("--env", f"{name}={value}")]
        command = [str(bgjob), "client", "add", self.client, "--hooks", *pairs]
        added = run_to_its_end(command, self.project, PATIENCE_S, self.environment)
        assert added.returncode == 0, added.stdout
        bgjob.write_text(
            "#!/bin/sh\n"
            f'if [ "$1" = mcp ]; then exec {shlex.join(self.tap.around([BGJOB, "mcp"]))}; fi\n'
            "given=$(cat)\n"
            f"printf '%s %s\\n' $$ \"$given\" >> {self._hooks_log}\n"
            f'exec {BGJOB} "$@" <<END\n$given\nEND\n'
        )

    @property
    def _hooks_log(self) -> Path:
        return self.directory / "hooks"

    def hooks(self, *events: str) -> list[HookCall]:
        """Those that have begun, of these events."""
        log = self._hooks_log
        lines = log.read_text().split("\n")[:-1] if log.exists() else []
        return [found for line in lines if (found := _hook_call(line)).event in events]

    def spec_of(self, job_id: str) -> dict[str, Any]:
        (path,) = self.jobs_home.rglob(f"{job_id}/spec.json")
        spec: dict[str, Any] = json.loads(path.read_text())
        return spec


def _hook_call(line: str) -> HookCall:
    pid, _, text = line.partition(" ")
    given = json.loads(text)
    return HookCall(int(pid), given["hook_event_name"], given)


@contextlib.contextmanager
def set_up(client: str, directory: Path) -> Iterator[Setup]:
    with running_model() as model:
        setup = Setup(client, directory, model)
        try:
            yield setup
        finally:
            end_all_jobs(setup.jobs_home)
            end_processes_of(setup.home)
            shutil.rmtree(setup.home)  # Codex keeps a copy of itself there


def end_processes_of(home: Path) -> None:
    """By their environment: Codex leaves a daemon behind, and Gemini CLI may outlive its terminal."""
    own = f"HOME={home}".encode()

    def left() -> list[int]:
        return [
            pid for pid in every_pid() if own in (read_if_there(f"/proc/{pid}/environ") or b"").split(b"\0")
        ]

    def are_gone() -> bool:
        for pid in left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not left()

    wait_until(are_gone, f"nothing of {home} runs", lambda: str(left()))


# -- what each client has to be told, beside bgjob --------------------------------------------------


def _codex(setup: Setup) -> Mapping[str, str]:
    """JSON strings are TOML strings too."""
    provider = {"name": "scripted", "base_url": f"{setup.model.url}/v1", "wire_api": "responses"}
    settings: Mapping[str, object] = {
        "model": "scripted",
        "model_provider": "scripted",
        "approval_policy": "never",
        "sandbox_mode": "danger-full-access",
        "check_for_update_on_startup": False,
        "disable_paste_burst": True,  # else an Enter right after the text is a new line
    }
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    lines += [
        "[model_providers.scripted]",
        *(f"{name} = {json.dumps(value)}" for name, value in provider.items()),
    ]
    lines += [
        'env_key = "SCRIPTED_KEY"',
        f"[projects.{json.dumps(str(setup.project))}]",
        'trust_level = "trusted"',
    ]
    path = setup.home / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text("\n".join([*lines, ""]))
    return {"SCRIPTED_KEY": "test"}


def _gemini(setup: Setup) -> Mapping[str, str]:
    settings = {
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False},
        "security": {"auth": {"selectedType": "gemini-api-key"}},
    }
    _write_json(setup.home / ".gemini" / "settings.json", settings)
    return {
        "GEMINI_API_KEY": "test",
        "GOOGLE_GEMINI_BASE_URL": setup.model.url,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }


def _opencode(setup: Setup) -> Mapping[str, str]:
    """It installs a package from npm beside a plugin, and waits for it, unless a lock says that it is there."""
    folder = setup.home / ".config" / "opencode"
    (folder / "node_modules").mkdir(parents=True)
    plugin = {"@opencode-ai/plugin": packages.versions()["opencode-ai"]}
    _write_json(folder / "package-lock.json", {"packages": {"": {"dependencies": plugin}}})
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "scripted",
        "options": {"baseURL": f"{setup.model.url}/v1", "apiKey": "test"},
        "models": {"scripted": {"name": "scripted"}},
    }
    settings = {
        "autoupdate": False,
        "share": "disabled",
        "permission": "allow",
        "provider": {"scripted": provider},
        "model": "scripted/scripted",
        "small_model": "scripted/scripted",
    }
    _write_json(folder / "opencode.json", settings)
    switches = (
        "OPENCODE_DISABLE_AUTOUPDATE",
        "OPENCODE_DISABLE_MODELS_FETCH",
        "OPENCODE_DISABLE_LSP_DOWNLOAD",
    )
    return dict.fromkeys(switches, "1")


def _write_json(path: Path, settings: object) -> None:
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(json.dumps(settings))


CONFIGURE: Mapping[str, Callable[[Setup], Mapping[str, str]]] = {
    "codex": _codex,
    "gemini": _gemini,
    "opencode": _opencode,
}
"""Writes the client's files, and gives the variables that it needs."""


# -- jobs -------------------------------------------------------------------------------------------


class HeldJob:
    """A job that the model is told to start. It ends when the test says so."""

    def __init__(self, setup: Setup, jobs: Jobs, name: str, exit_code: int = 0) -> None:
        self._setup, self._jobs, self.name = setup, jobs, name
        self._gate, self._has_begun = Gate(setup.directory / f"gate-{name}"), False
        self.command = f"{self._gate.pause}; echo {name} is over; exit {exit_code}"

    @property
    def start(self) -> Step:
        return call("execute_command", command=self.command, name=self.name)

    def run_by_hand(self) -> None:
        """In no session of a client."""
        command = [BGJOB, "run", "--name", self.name, self.command]
        variables = {**os.environ, "BGJOB_HOME": str(self._setup.jobs_home)}
        done = run_to_its_end(command, self._setup.project, PATIENCE_S, variables)
        assert done.returncode == 0, done.stdout

    def wait_until_begun(self) -> None:
        if not self._has_begun:
            wait_until(self._is_there, f"{self.name} is started", self._setup.model.told, PATIENCE_S)
            self._gate.wait_until_reached()
            self._has_begun = True

    def _is_there(self) -> bool:
        return any(row.spec.name == self.name for row in self._jobs.list(limit=1000).jobs)

    def end_once_waited_for(self) -> None:
        """By a call of the model, whose answer is to tell its end."""
        self.wait_until_begun()
        session = self._setup.spec_of(self.id)["by"]["session"]
        home, job_id = str(self._setup.jobs_home), self.id
        wait_until(
            lambda: is_held(home, session, job_id), f"a call waits for {self.name}", within_s=PATIENCE_S
        )
        self._open()

    def end(self) -> None:
        """Its end is on disk then."""
        self.wait_until_begun()
        self._open()

    def _open(self) -> None:
        self._gate.open()
        for _ in self._jobs.follow(self.name, wait=True):
            pass

    @property
    def id(self) -> str:
        return self._jobs.status(self.name).job.id

    @property
    def mark(self) -> str:
        """In each text that reports its end: a line of a hook and the line `news`, also as JSON."""
        return f'" ({self.id[:8]}) '

    @property
    def line(self) -> str:
        """How the line of a hook begins."""
        return f'bgjob: job "{self.name}{self.mark}'

    @property
    def tellings(self) -> list[Asked]:
        """Requests that tell the model of its end for the first time, one for each time that they do."""
        mark = self.mark
        return [asked for asked in self._setup.model.asked for _ in range(asked.news.count(mark))]


class HeldJobs:
    """Jobs of one client, by names that nobody else has."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self.api = open_jobs({**os.environ, "BGJOB_HOME": str(setup.jobs_home)})

    def close(self) -> None:
        self.api.close()

    def __call__(self, name: str, exit_code: int = 0) -> HeldJob:
        return HeldJob(self._setup, self.api, name, exit_code)


@contextlib.contextmanager
def held_jobs(setup: Setup) -> Iterator[HeldJobs]:
    with contextlib.closing(HeldJobs(setup)) as jobs:
        yield jobs


def tasks_in(tap: Tap) -> list[Message]:
    """Answers that are a task."""
    return [answer for answer in tap.answered if answer.get("result", {}).get("resultType") == "task"]


def declared(tap: Tap) -> set[str]:
    """What the client can do, as it has said to each server that it started."""
    hellos = [message for message in tap.asked if message.get("method") == "initialize"]
    return {word for hello in hellos for word in hello["params"]["capabilities"]}


def times_told(asked: Asked, job: HeldJob) -> int:
    """In all that the model was told up to this request."""
    return sum(turn.text.count(job.mark) for turn in asked.conversation.turns if not turn.is_model)

"""The hooks of clients that tell the model of the ends of jobs: each runs `bgjob hook CLIENT`."""

import copy
import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from bgjob.clients.command import Server, runs_bgjob
from bgjob.clients.plugin import PluginFile
from bgjob.clients.settings_file import NESTED, CannotEdit, Settings, SettingsFile
from bgjob.clients.table import path_in

Group = dict[str, Any]
SECTION = "hooks"
AT_ONCE_S = 10
A_DAY_S = 86400


@dataclass(frozen=True)
class Hook:
    event: str
    more: Mapping[str, object] = field(default_factory=dict)
    """Beside the command."""
    matcher: Callable[[str], str] | None = None
    """For which tools, by the name that the client has for the server."""


@dataclass(frozen=True)
class SettingsHooks:
    """Hooks in a file of JSON: `{"hooks": {EVENT: [{"matcher": …, "hooks": [{"command": …}]}]}}`."""

    word: str
    folder: tuple[str, str]
    file: str
    hooks: tuple[Hook, ...]
    off: tuple[tuple[str, ...], bool] | None = None
    """Where in the file all hooks can be turned off, and by which value."""
    then: str = ""
    """What the user has to do once they are added."""

    def path(self, environ: Mapping[str, str]) -> str:
        return path_in(self.folder, self.file, environ)

    def by_hand(self, server: Server) -> str:
        return json.dumps(self._added({}, server, self.file), indent=2, ensure_ascii=False)

    def add(self, server: Server, environ: Mapping[str, str]) -> bool:
        """False: the client has them already."""
        file = SettingsFile.read(self.path(environ))
        return file.write(self._added(file.settings, server, file.path))

    def remove(self, environ: Mapping[str, str]) -> bool:
        """False: there were none of ours."""
        file = SettingsFile.read(self.path(environ))
        return self._may_have_ours(file) and file.write(self._removed(file.settings, file.path))

    def commands(self, environ: Mapping[str, str]) -> list[list[str]]:
        """How our hooks run bgjob, one for each that is there."""
        file = SettingsFile.read(self.path(environ))
        if not self._may_have_ours(file):
            return []
        events = _events(file.settings, file.path)
        groups = (group for hook in self.hooks for group in _groups(events, hook.event, file.path))
        return [_words(each) for group in groups for each in _hooks(group) if self._is_ours(each)]

    def is_off(self, environ: Mapping[str, str]) -> bool:
        """Whether the user has turned off all hooks of the client."""
        if self.off is None:
            return False
        keys, value = self.off
        found: object = SettingsFile.read(self.path(environ)).settings
        for key in keys:
            found = found.get(key) if isinstance(found, dict) else None
        return found is value

    def _may_have_ours(self, file: SettingsFile) -> bool:
        """False also for a file that we could not edit, and that is none of our business."""
        return f" hook {self.word}" in (file.text or "")

    def _added(self, settings: Settings, server: Server, path: str) -> Settings:
        events = _events(settings, path)
        for hook in self.hooks:
            events[hook.event] = _groups(events, hook.event, path)
            self._put(events[hook.event], hook, server)
        return {**settings, SECTION: events}

    def _put(self, groups: list[Group], hook: Hook, server: Server) -> None:
        """In the place of one that is ours for the same tools, e.g. of a bgjob that was elsewhere."""
        command = {"type": "command", "command": shlex.join(server.hook(self.word)), **hook.more}
        matcher = hook.matcher(server.name) if hook.matcher else None
        for group in groups:
            for place, each in enumerate(_hooks(group)):
                if self._is_ours(each) and group.get("matcher") == matcher:
                    group["hooks"][place] = command
                    return
        groups.append({**({"matcher": matcher} if matcher else {}), "hooks": [command]})

    def _removed(self, settings: Settings, path: str) -> Settings:
        """What is empty without ours goes too."""
        events = _events(settings, path)
        for event in {hook.event for hook in self.hooks} & events.keys():
            groups = _groups(events, event, path)
            events[event] = [left for group in groups for left in self._without_ours(group)]
            if groups and not events[event]:
                del events[event]
        if events or not settings.get(SECTION):
            return {**settings, SECTION: events} if SECTION in settings else settings
        return {key: value for key, value in settings.items() if key != SECTION}

    def _without_ours(self, group: Group) -> list[Group]:
        """What is left of it: the group, or none if all of its hooks are ours."""
        if not any(map(self._is_ours, _hooks(group))):
            return [group]
        left = [each for each in group["hooks"] if not self._is_ours(each)]
        return [{**group, "hooks": left}] if left else []

    def _is_ours(self, hook: object) -> bool:
        return runs_bgjob(_words(hook), "hook", self.word)


def _events(settings: Settings, path: str) -> dict[str, Any]:
    """A copy that can be changed."""
    try:
        events = copy.deepcopy(settings.get(SECTION, {}))
    except RecursionError:
        raise CannotEdit(path, NESTED) from None
    if not isinstance(events, dict):
        raise CannotEdit(path, f"its {SECTION!r} are no JSON object")
    return events


def _groups(events: Mapping[str, Any], event: str, path: str) -> list[Group]:
    groups = events.get(event, [])
    if not isinstance(groups, list):
        raise CannotEdit(path, f"its hooks for {event} are no list")
    return groups


def _hooks(group: object) -> list[object]:
    hooks = group.get("hooks") if isinstance(group, dict) else None
    return hooks if isinstance(hooks, list) else []


def _words(hook: object) -> list[str]:
    command = hook.get("command") if isinstance(hook, dict) else None
    try:
        return shlex.split(command) if isinstance(command, str) else []
    except ValueError:  # a quote is open: it is not ours
        return []


def _waited_for(name: str) -> str:
    """The tools whose answers may leave a job running."""
    return "|".join(f"mcp__{name}__{tool}" for tool in ("execute_command", "wait_for_job"))


def _at_once(*events: str, **more: object) -> Iterator[Hook]:
    """They only look what has ended."""
    return (Hook(event, more) for event in events)


REWAKE = {
    "asyncRewake": True,
    "timeout": A_DAY_S,
    "rewakeMessage": "A background job has ended.",
    "rewakeSummary": "bgjob: a job has ended",
}
HOOKS: Mapping[str, SettingsHooks | PluginFile] = {
    "claude": SettingsHooks(
        "claude",
        ("CLAUDE_CONFIG_DIR", ".claude"),
        "settings.json",
        (
            *_at_once("SessionStart", "UserPromptSubmit", "Stop", timeout=AT_ONCE_S),
            Hook("PostToolUse", REWAKE, _waited_for),
        ),
        off=(("disableAllHooks",), True),
    ),
    "codex": SettingsHooks(
        "codex",
        ("CODEX_HOME", ".codex"),
        "hooks.json",
        tuple(_at_once("SessionStart", "UserPromptSubmit", "Stop", timeout=AT_ONCE_S)),
        then="Codex asks you to trust them when it is started next, and runs them from then on.",
    ),
    "gemini": SettingsHooks(
        "gemini",
        ("GEMINI_CLI_HOME", ""),
        ".gemini/settings.json",
        tuple(_at_once("SessionStart", "BeforeAgent", "AfterAgent", name="bgjob", timeout=AT_ONCE_S * 1000)),
        off=(("hooksConfig", "enabled"), False),
    ),
    "opencode": PluginFile("opencode", ("XDG_CONFIG_HOME", ".config"), "opencode/plugins/bgjob.js"),
}

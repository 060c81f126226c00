"""`bgjob client check`: is bgjob configured in the clients, does it start, and how is the model told of ends?"""

import os
import shutil
from collections.abc import Mapping, Sequence

from bgjob.cli.streams import say
from bgjob.clients.command import runs_bgjob, without_env
from bgjob.clients.hooks import HOOKS
from bgjob.clients.plugin import installed_plugin, server_command
from bgjob.clients.run import DoesNotStart, name_and_version, program_of
from bgjob.clients.settings_file import CannotEdit
from bgjob.clients.shown import shown_entry, shown_program
from bgjob.clients.table import CLIENTS, Entry, command_of, configured, read_servers, url_of, variables_of
from bgjob.core.errors import BgjobError

KNOW_TASKS = ("claude",)
"""Their idle sessions are told of an end without a hook."""
GIVE_FEW_VARIABLES = ("codex",)
"""Their servers do not have the variables of the client."""
FEW = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")


class Broken(BgjobError):
    """Configured, and does not work."""


def check(words: Sequence[str], name: str, environ: Mapping[str, str]) -> int:
    exit_code, lines = 0, []
    for word in words:
        try:
            line = _checked(word, name, environ)
        except Broken as problem:
            exit_code, line = 1, f"BROKEN: {problem}"
        lines += [f"{word}: {line}"] if line else []
    for line in lines or [f"not installed: {', '.join(words)}"]:
        say(line)
    return exit_code


def _checked(word: str, name: str, environ: Mapping[str, str]) -> str | None:
    """None: neither the client nor a configuration of it is here."""
    has_hooks = _has_hooks(word, environ)
    if word == "claude" and (plugin := installed_plugin(environ)):
        _check_that_it_has_no_other(plugin[0], name, has_hooks, environ)
        return f"{_plugin(*plugin, environ)}. {_told(word, True, environ)}"
    if found := configured(CLIENTS[word], name, environ):
        return f"{_server(word, name, *found, environ)}. {_told(word, has_hooks, environ)}"
    if has_hooks:
        raise Broken(
            f"it has hooks, but no server {name}.", f"Run bgjob client {_add(word)}, or remove {word}."
        )
    if program_of(CLIENTS[word], environ):
        return f"installed, without {name}. Run bgjob client {_add(word)}"
    return None


def _server(word: str, name: str, path: str, entry: Entry, environ: Mapping[str, str]) -> str:
    if entry.get("enabled") is False or entry.get("disabled") is True:
        raise Broken(f"{name} is turned off in {path}.", "Turn it on there.")
    if url_of(entry):
        return f"{name} {shown_entry(entry)}, and was not asked"
    command, env = command_of(entry), _environment(word, entry, environ)
    advice = f"Run bgjob client remove {word}, then bgjob client {_add(word)}."
    if not runs_bgjob(command, "mcp") and not runs_bgjob(command):
        advice = "Mend it there."
    return _started(command, env, _cwd(entry), f"{shown_program(command)} (in {path})", advice)


def _plugin(plugin: str, folder: str, environ: Mapping[str, str]) -> str:
    advice = "Install bgjob, e.g. by uv tool install bgjob."
    return _started(server_command(folder), environ, None, f"its plugin {plugin}", advice)


def _check_that_it_has_no_other(plugin: str, name: str, has_hooks: bool, environ: Mapping[str, str]) -> None:
    if has_hooks or configured(CLIENTS["claude"], name, environ):
        raise Broken(f"it has bgjob twice, also by its plugin {plugin}.", "Run bgjob client remove claude.")


def _started(command: Sequence[str], env: Mapping[str, str], cwd: str | None, by: str, advice: str) -> str:
    if _program(command, env) is None:
        raise Broken(f"{by} does not start: there is no program {shown_program(command)}.", advice)
    try:
        return f"{name_and_version(command, env, cwd)} starts by {by}"
    except DoesNotStart as problem:
        raise Broken(f"{by} does not start: {problem}.", advice) from None


def _environment(word: str, entry: Entry, environ: Mapping[str, str]) -> dict[str, str]:
    """What the client gives its server."""
    given = variables_of(entry)
    few = {key: value for key, value in environ.items() if key in FEW}
    own = {str(key): str(value) for key, value in given.items()} if isinstance(given, dict) else {}
    return {**(few if word in GIVE_FEW_VARIABLES else environ), **own}


def _cwd(entry: Entry) -> str | None:
    cwd = entry.get("cwd")
    return cwd if isinstance(cwd, str) and os.path.isdir(cwd) else None


def _has_hooks(word: str, environ: Mapping[str, str]) -> bool:
    if word not in HOOKS:
        return False
    hooks = HOOKS[word]
    try:
        commands = hooks.commands(environ)
        is_off = bool(commands) and hooks.is_off(environ)
    except CannotEdit as problem:
        raise Broken(f"its hooks cannot be read. {problem}") from None
    for command in commands:
        if _program(command, environ) is None:
            raise Broken(
                f"its hooks run {shown_program(command)} (in {hooks.path(environ)}), and there is no such program.",
                f"Run bgjob client {_add(word)}.",
            )
    if is_off:
        raise Broken(f"all hooks are turned off in {hooks.path(environ)}.", "Turn them on there.")
    return bool(commands)


def _program(command: Sequence[str], environ: Mapping[str, str]) -> str | None:
    own = without_env(command)
    return shutil.which(own[0], path=environ.get("PATH")) if own else None


def _told(word: str, has_hooks: bool, environ: Mapping[str, str]) -> str:
    ways = [*(["tasks"] if word in KNOW_TASKS else []), *(["hooks"] if has_hooks else [])]
    told = f"Told of ends by {' and '.join(ways)}" if ways else "Told of ends only in answers"
    if has_hooks and word == "codex" and not _is_reviewed(environ):
        return f"{told}, once you have trusted the hooks: start codex, which asks for it"
    if not has_hooks and word in HOOKS:
        return f"{told}; by hooks too after bgjob client {_add(word)}"
    return told


def _is_reviewed(environ: Mapping[str, str]) -> bool:
    """Codex keeps what its user has trusted by the path of the file; whether that was this text, it knows alone."""
    (config,) = CLIENTS["codex"].paths(environ)
    hooks = read_servers(config).get("hooks")
    trusted = hooks.get("state") if isinstance(hooks, dict) else None
    path = HOOKS["codex"].path(environ)
    return isinstance(trusted, dict) and any(key.startswith(f"{path}:") for key in trusted)


def _add(word: str) -> str:
    return f"add {word} --hooks" if word in HOOKS else f"add {word}"

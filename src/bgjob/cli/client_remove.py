"""`bgjob client remove`: take bgjob and its hooks out of a client, and nothing else."""

from collections.abc import Mapping

from bgjob.cli import streams
from bgjob.cli.streams import say
from bgjob.clients.command import runs_bgjob
from bgjob.clients.hooks import HOOKS
from bgjob.clients.run import run_client
from bgjob.clients.settings_file import CannotEdit, Settings, SettingsFile
from bgjob.clients.shown import shown_entry
from bgjob.clients.table import CLIENTS, Client, Entry, command_of, configured
from bgjob.core.errors import BgjobError


def remove(word: str, name: str, environ: Mapping[str, str], *, only_print: bool) -> int:
    client = CLIENTS[word]
    found = configured(client, name, environ)
    if found:
        _check_that_it_is_bgjob(client, name, *found)
    if only_print:
        _say_what_to_do(word, name, found, environ)
        return 0
    server = _remove_server(client, name, found[0], environ) if found else None
    hooks = _remove_hooks(word, environ) if word in HOOKS else None
    if server is hooks is None:
        say(f"{client.title} has no {name} and no hooks of it")
    return 1 if False in (server, hooks) else 0


def _check_that_it_is_bgjob(client: Client, name: str, path: str, entry: Entry) -> None:
    if runs_bgjob(command_of(entry), "mcp") or runs_bgjob(command_of(entry)):
        return
    raise BgjobError(
        f"{client.title} has another server called {name}, in {path}: it {shown_entry(entry)}.",
        "It was not removed. If bgjob has another name there, give it by --name.",
    )


def _remove_server(client: Client, name: str, path: str, environ: Mapping[str, str]) -> bool:
    problem = _problem_of_removing(client, name, path, environ)
    if problem:
        say(_by_hand(client, name, path))
        streams.complain(f"{problem} What to do by hand is printed above.")
        return False
    streams.tell(f"{client.title} no longer has {name}, in {path}", done=f"{name} was removed")
    return True


def _problem_of_removing(client: Client, name: str, path: str, environ: Mapping[str, str]) -> str | None:
    if client.remove:
        _, *arguments = client.remove.split()
        problem = run_client(client, [*arguments, name], environ)
    else:
        problem = _edited(client, name, path)
    if problem is None and configured(client, name, environ):
        return f"{client.program} said nothing of an error, but {path} still has {name}."
    return problem


def _edited(client: Client, name: str, path: str) -> str | None:
    """For clients without a command that removes a server."""
    try:
        file = SettingsFile.read(path)
        file.write(_without(file.settings, client.section, name))
    except CannotEdit as problem:
        return str(problem)
    return None


def _without(settings: Settings, section: str, name: str) -> Settings:
    servers = settings.get(section)
    if not isinstance(servers, dict):
        return settings
    return {**settings, section: {key: value for key, value in servers.items() if key != name}}


def _remove_hooks(word: str, environ: Mapping[str, str]) -> bool | None:
    """None: there were none."""
    hooks, title = HOOKS[word], CLIENTS[word].title
    try:
        if not hooks.remove(environ):
            return None
    except CannotEdit as problem:
        streams.complain(
            f"{problem} Take out the hooks that run bgjob hook {word} by hand, if there are any."
        )
        return False
    streams.tell(f"{title} no longer has the hooks, in {hooks.path(environ)}", done="the hooks were removed")
    return True


def _say_what_to_do(
    word: str, name: str, found: tuple[str, Entry] | None, environ: Mapping[str, str]
) -> None:
    client = CLIENTS[word]
    if found:
        say(_by_hand(client, name, found[0]))
    if word in HOOKS and HOOKS[word].commands(environ):
        say(f"{client.title}: take the hooks that run bgjob hook {word} out of {HOOKS[word].path(environ)}")
    elif not found:
        say(f"{client.title} has no {name} and no hooks of it")


def _by_hand(client: Client, name: str, path: str) -> str:
    out = f"take {name} out of {client.section} in {path}"
    if not client.remove:
        return f"{client.title}: {out}"
    return f"{client.title}: run\n\n  {client.remove} {name}\n\nor {out}"

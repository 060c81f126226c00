"""The MCP clients that bgjob can be added to: the command of each that adds a server, and its file of servers."""

import json
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from bgjob.clients.command import Server
from bgjob.clients.settings_file import CannotEdit, read_text

Entry = dict[str, object]


@dataclass(frozen=True)
class Client:
    title: str
    program: str
    folder: tuple[str, str]
    """The variable that says where it keeps its files, and where they are without it."""
    files: tuple[str, ...]
    """Any of them may be there; the last one is what a new user has."""
    section: str
    entry: Callable[[Server], Entry]
    add: Callable[[Server], list[str]] | None = None
    """The arguments of its own command; None: it has none."""
    remove: str = ""
    tells_its_file: bool = True
    """False: its command may write another file than ours, e.g. that of a profile."""

    def paths(self, environ: Mapping[str, str]) -> list[str]:
        return [path_in(self.folder, file, environ) for file in self.files]

    def configuration(self, server: Server) -> str:
        """What its file has to hold."""
        entry = self.entry(server)
        if self.files[-1].endswith(".toml"):
            return "\n".join(_toml(f"{self.section}.{server.name}", entry))
        return json.dumps({self.section: {server.name: entry}}, indent=2, ensure_ascii=False)


def path_in(folder: tuple[str, str], file: str, environ: Mapping[str, str]) -> str:
    variable, default = folder
    home = environ.get("HOME") or os.path.expanduser("~")
    return os.path.join(environ.get(variable) or os.path.join(home, default), file)


def configured(client: Client, name: str, environ: Mapping[str, str]) -> tuple[str, Entry] | None:
    """The file with the entry of this name, and the entry; None also where a file cannot be read."""
    for path in client.paths(environ):
        servers = read_servers(path).get(client.section)
        entry = servers.get(name) if isinstance(servers, dict) else None
        if isinstance(entry, dict):
            return path, entry
    return None


def command_of(entry: Entry) -> list[str]:
    command, arguments = entry.get("command", ""), entry.get("args", [])
    return [*_words(command), *_words(arguments)]


def url_of(entry: Entry) -> str:
    """Empty: it is no server that runs elsewhere."""
    return str(entry.get("url") or entry.get("httpUrl") or "")


def variables_of(entry: Entry) -> object:
    return entry.get("env") or entry.get("environment") or {}


def _words(value: object) -> list[str]:
    return list(map(str, value)) if isinstance(value, list | tuple) else [str(value)]


def read_servers(path: str) -> Mapping[str, object]:
    """All that the client's file of servers holds; nothing if it cannot be read."""
    try:
        text = read_text(path) or ""
        read = tomllib.loads(text) if path.endswith(".toml") else json.loads(_plain_json(text))
    except (CannotEdit, ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}


_STRING = r'"(?:\\.|[^"\\])*"'
_COMMENTS = re.compile(rf"({_STRING})|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMAS = re.compile(rf"({_STRING})|,(?=\s*[}}\]])", re.DOTALL)


def _plain_json(text: str) -> str:
    """Without the comments and last commas that editors and people leave in such files."""
    for superfluous in (_COMMENTS, _LAST_COMMAS):
        text = superfluous.sub(lambda found: found[1] or "", text)
    return text


def _toml(heading: str, entry: Entry) -> Iterator[str]:
    yield f"[{heading}]"
    for key, value in entry.items():
        if isinstance(value, dict):
            pairs = (f"{_quoted(name)} = {_quoted(each)}" for name, each in value.items())
            yield f"{key} = {{ {', '.join(pairs)} }}"
        else:
            yield f"{key} = {_quoted(value)}"


def _quoted(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _plain(server: Server) -> Entry:
    entry: Entry = {"command": server.command[0], "args": list(server.command[1:])}
    return entry | ({"env": dict(server.env)} if server.env else {})


def _typed(server: Server) -> Entry:
    return {"type": "stdio", **_plain(server)}


def _for_opencode(server: Server) -> Entry:
    entry: Entry = {"type": "local", "command": list(server.command)}
    return entry | ({"environment": dict(server.env)} if server.env else {})


def _add_to_claude(server: Server) -> list[str]:
    # the name first: what follows --env is taken for a variable
    return ["mcp", "add", "--scope", "user", server.name, *server.pairs, "--", *server.command]


def _add_to_codex(server: Server) -> list[str]:
    return ["mcp", "add", server.name, *server.pairs, "--", *server.command]


def _add_to_gemini(server: Server) -> list[str]:
    program, *arguments = server.command
    return ["mcp", "add", "--scope", "user", *server.pairs, server.name, program, "--", *arguments]


def _add_to_vscode(server: Server) -> list[str]:
    return ["--add-mcp", json.dumps({"name": server.name, **_plain(server)}, ensure_ascii=False)]


VSCODE_FOLDER = "Library/Application Support" if sys.platform == "darwin" else ".config"
CLIENTS: Mapping[str, Client] = {
    "claude": Client(
        "Claude Code",
        "claude",
        ("CLAUDE_CONFIG_DIR", ""),
        (".claude.json",),
        "mcpServers",
        _typed,
        _add_to_claude,
        "claude mcp remove --scope user",
    ),
    "codex": Client(
        "Codex",
        "codex",
        ("CODEX_HOME", ".codex"),
        ("config.toml",),
        "mcp_servers",
        _plain,
        _add_to_codex,
        "codex mcp remove",
    ),
    "gemini": Client(
        "Gemini CLI",
        "gemini",
        ("GEMINI_CLI_HOME", ""),
        (".gemini/settings.json",),
        "mcpServers",
        _plain,
        _add_to_gemini,
        "gemini mcp remove --scope user",
    ),
    "opencode": Client(
        "opencode",
        "opencode",
        ("XDG_CONFIG_HOME", ".config"),
        ("opencode/opencode.jsonc", "opencode/opencode.json"),
        "mcp",
        _for_opencode,
        _add_to_codex,
    ),
    "cursor": Client("Cursor", "cursor", ("", ".cursor"), ("mcp.json",), "mcpServers", _plain),
    "vscode": Client(
        "VS Code",
        "code",
        ("XDG_CONFIG_HOME", VSCODE_FOLDER),
        ("Code/User/mcp.json",),
        "servers",
        _typed,
        _add_to_vscode,
        tells_its_file=False,
    ),
}

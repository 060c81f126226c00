"""Plugins: that of opencode, a file of JavaScript which we write, and that of Claude Code, which it installs."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from bgjob.clients.command import Server
from bgjob.clients.settings_file import (
    CannotEdit,
    Settings,
    SettingsFile,
    check_that_it_may_change,
    read_text,
    write_text,
)
from bgjob.clients.table import path_in

SOURCE = os.path.join(os.path.dirname(__file__), "opencode_plugin.js")
COMMAND = re.compile(r"(?m)^const command = (\[.*\])$")
FIRST_WORDS = "// bgjob's plugin for opencode"
CLAUDE = ("CLAUDE_CONFIG_DIR", ".claude")
NAME_OF_OURS = "bgjob@"
"""What follows is the name of the marketplace."""


@dataclass(frozen=True)
class PluginFile:
    """That of opencode: it does what the hooks of other clients do."""

    word: str
    folder: tuple[str, str]
    file: str
    then: str = ""

    def path(self, environ: Mapping[str, str]) -> str:
        return path_in(self.folder, self.file, environ)

    def by_hand(self, server: Server) -> str:
        return self._text(server).rstrip("\n")

    def add(self, server: Server, environ: Mapping[str, str]) -> bool:
        """False: the client has it already."""
        path, text = self.path(environ), self._text(server)
        if (was := self._own_text(path)) == text:
            return False
        write_text(path, text, was=was)
        return True

    def remove(self, environ: Mapping[str, str]) -> bool:
        """False: there was none."""
        path = self.path(environ)
        if self._own_text(path) is None:
            return False
        check_that_it_may_change(path)
        try:
            os.unlink(path)
        except OSError as problem:
            raise CannotEdit(path, f"it cannot be removed: {problem.strerror}") from problem
        return True

    def commands(self, environ: Mapping[str, str]) -> list[list[str]]:
        """How it runs bgjob; none if it is not there."""
        found = COMMAND.search(self._own_text(self.path(environ)) or "")
        return [json.loads(found[1])] if found else []

    def is_off(self, environ: Mapping[str, str]) -> bool:
        return False

    def _text(self, server: Server) -> str:
        with open(SOURCE, encoding="utf-8") as file:
            line = f"const command = {json.dumps(server.hook(self.word), ensure_ascii=False)}"
            return COMMAND.sub(lambda _: line, file.read())

    def _own_text(self, path: str) -> str | None:
        text = read_text(path)
        if text is not None and not text.startswith(FIRST_WORDS):
            raise CannotEdit(path, "it is a plugin of another origin")
        return text


def installed_plugin(environ: Mapping[str, str]) -> tuple[str, str] | None:
    """That of Claude Code, with server and hooks: its id and folder. None if there is none, or it is turned off."""
    enabled = _part(_read("settings.json", environ), "enabledPlugins")
    plugins = _part(_read("plugins/installed_plugins.json", environ), "plugins")
    for plugin, installs in plugins.items():
        if plugin.startswith(NAME_OF_OURS) and enabled.get(plugin) is True and isinstance(installs, list):
            for install in installs:
                if isinstance(install, dict) and isinstance(install.get("installPath"), str):
                    return plugin, install["installPath"]
    return None


def server_command(folder: str) -> list[str]:
    return ["sh", f"{folder}/scripts/bgjob", "mcp"]


def _read(file: str, environ: Mapping[str, str]) -> Settings:
    try:
        return SettingsFile.read(path_in(CLAUDE, file, environ)).settings
    except CannotEdit:
        return {}


def _part(settings: Settings, key: str) -> Settings:
    part = settings.get(key)
    return part if isinstance(part, dict) else {}

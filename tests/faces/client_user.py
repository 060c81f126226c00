"""A user of MCP clients: a home with their files, and clients on PATH that record how they were called."""

import subprocess
from pathlib import Path

from bgjob.clients.command import Server
from bgjob.clients.table import CLIENTS
from tests.faces.command_line import BGJOB, Result

PROGRAMS = {word: client.program for word, client in CLIENTS.items() if client.add}
FILES = {
    "claude": ".claude.json",
    "codex": ".codex/config.toml",
    "gemini": ".gemini/settings.json",
    "opencode": ".config/opencode/opencode.json",
    "cursor": ".cursor/mcp.json",
}
HOOK_FILES = {
    "claude": ".claude/settings.json",
    "codex": ".codex/hooks.json",
    "gemini": ".gemini/settings.json",
    "opencode": ".config/opencode/plugins/bgjob.js",
}
OWN = [BGJOB, "mcp"]


class User:
    """A home, and a PATH with clients of our own on it."""

    def __init__(self, directory: Path) -> None:
        self.home, self._programs = directory / "home", directory / "bin"
        self.home.mkdir()
        self._programs.mkdir()
        self.environment = {"HOME": str(self.home), "PATH": f"{self._programs}:/usr/bin:/bin"}

    def client(self, *words: str, **variables: str) -> Result:
        return subprocess.run(
            [BGJOB, "client", *words],
            env=self.environment | variables,
            cwd=self._programs,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )

    def has(self, program: str, script: str) -> None:
        path = self._programs / program
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def has_recording(self, word: str, file: str | None = None) -> None:
        """The client writes down its arguments, and what it is to have in its file."""
        written = self.file_of(word, file)
        printed = self.client("--print", "--env", "A=b c", "add", word).stdout
        (self.home / "entry").write_text(printed.partition("put this into")[2].partition("\n\n")[2])
        record = f'pwd > {self.home}/where; printf "%s\\n" "$@" > {self.home}/arguments'
        self.has(PROGRAMS[word], f"{record}; mkdir -p {written.parent}; cat {self.home}/entry > {written}")

    def file_of(self, word: str, file: str | None = None) -> Path:
        return self.home / (file or FILES.get(word, "Code/User/mcp.json"))

    @property
    def arguments(self) -> list[str]:
        return (self.home / "arguments").read_text().splitlines()

    def configures(self, word: str, text: str) -> Path:
        return self.writes(self.file_of(word), text)

    def has_server(self, word: str, *words: str) -> Path:
        """As the client's own command leaves it."""
        printed = self.client("--print", *words, "add", word).stdout
        return self.configures(word, printed.partition("put this into")[2].partition("\n\n")[2])

    def server(self) -> Server:
        return Server("bgjob", OWN, {})

    def hooks_of(self, word: str) -> Path:
        return self.home / HOOK_FILES[word]

    def writes(self, path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

"""Homes with jobs of each kind, for the commands that show jobs."""

from collections.abc import Iterator
from pathlib import Path

from bgjob.api import Jobs, open_jobs
from tests.faces.command_line import Cli
from tests.faces.steady import steady
from tests.support.escapes import ESCAPES, as_text
from tests.support.stores import job_with
from tests.support.waiting import wait_until

ASK = "printf 'Go on? [y/N] '; read answer\n"
SERVE = """
import socket
listening = socket.create_server(("127.0.0.1", 0))
listening.accept()
"""


class World:
    """Jobs of each kind: one at a prompt, one that listens, one in the queue, one that failed."""

    def __init__(self, place: Path) -> None:
        self.home, self.cli = place / "home", Cli(place / "home")
        (place / "ask").write_text(ASK)
        (place / "serve").write_text(SERVE)
        self.bad = self.run("--name", "bad", "exit 3")
        self.later = self.run("--name", "later", "--delay", "1000000", "true")
        self.web = self.run("--name", "web", "--env", f"W={place / 'serve'}", "python3 $W")
        self.deploy = self.run("--name", "deploy-to-eu", "--env", f"A={place / 'ask'}", "sh $A")
        with_jobs = open_jobs(self.cli.environment, many=False)
        wait_until(lambda: with_jobs.status(self.bad).descendants == 0, "bad ends")
        wait_until(lambda: bool(with_jobs.status(self.deploy).prompt), "deploy asks")
        wait_until(lambda: bool(self._ports(with_jobs)), "web listens")
        (self.port,) = self._ports(with_jobs)

    def run(self, *arguments: str) -> str:
        return self.cli.run("--cwd", "/usr/bin", *arguments)

    def _ports(self, jobs: Jobs) -> list[int]:
        activity = jobs.status(self.web, detail=True).activity
        return [each.port for each in (activity.listening if activity else None) or ()]

    def steady(self, text: str) -> str:
        return steady(text.replace(str(self.port), "PORT"))


class Attacked:
    """Jobs whose names, commands, directories, starters, prompts and output are the whole corpus."""

    def __init__(self, place: Path) -> None:
        self.home, self.cli = place / "home", Cli(place / "home")
        text = "|".join(map(as_text, ESCAPES.values()))
        by = {"client": text, "version": text, "session": text}
        self.named = job_with(
            self.home, name=text[:150], command=text, cwd=text, by=by, group=text, watch=[text]
        )
        self.asking = [self._ask(place / str(number), prompt) for number, prompt in enumerate(_prompts())]
        jobs = open_jobs(self.cli.environment, many=False)
        wait_until(lambda: all(jobs.status(job_id).waits_for_input for job_id in self.asking), "all ask")

    def _ask(self, file: Path, prompt: bytes) -> str:
        file.write_bytes(prompt)
        return self.cli.run("--name", f"asks {file.name}", f"cat {file}; read answer")


def _prompts() -> Iterator[bytes]:
    """The corpus in pieces of the size of a prompt."""
    piece = b""
    for escape in ESCAPES.values():
        if len(piece) + len(escape) > 250:
            yield piece
            piece = b""
        piece += b"<" + escape + b">"
    yield piece

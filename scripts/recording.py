"""Records a person who answers the prompt of an agent's job by `bgjob attach`, and draws it as an SVG.

The shell, bgjob and the job are real, on a pseudo-terminal; keys are typed when the screen shows what they
answer. Each frame is a whole screen, drawn by bgjob's own emulator. See scripts/picture.
"""

import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from pathlib import Path

from picture import BAR, CELL, LINE, MARGIN, NAMESPACE, STYLE, escape

from bgjob.terminal.emulator import Terminal

ROWS, COLUMNS = 16, 92
PATIENCE_S = 60.0
PROMPT = "$ "
DEPLOY = """\
#!/bin/bash
echo 'Built 214 files.'
read -r -p 'Deploy to production? [y/N] ' answer
for part in api worker web; do echo "deploying $part ($answer)"; done
exec sleep 1000
"""
SAME_EACH_TIME = [
    (r"\b[0-9a-f]{8}\b", "6f1c0b4e"),
    (r"(?<=  )[ \d.]{3}s  ", " 41s  "),
    (r"(?<=  )[ \d]\d%  [ \d.]{3}[KMG]  ", " 0%  3.1M  "),
    (r"root at pts/\d+", "ann at pts/3"),
]
HOLD_S = {"typed": 1.2, "shown": 2.6, "last": 5.0}


class Session:
    """A shell on a terminal, its screen, and the frames that were taken of it."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (ROWS, COLUMNS))
        shell = ["bash", "--norc", "--noprofile"]
        streams = {"stdin": slave, "stdout": slave, "stderr": slave}
        self._shell = subprocess.Popen(shell, env=environment, start_new_session=True, **streams)  # type: ignore[call-overload]
        os.close(slave)
        self._terminal = Terminal(ROWS, COLUMNS)
        self.frames: list[tuple[str, list[str]]] = []

    def wait_for(self, text: str, *, at_end: bool = False) -> None:
        """at_end: in the last line, and nothing after it."""
        deadline = time.monotonic() + PATIENCE_S
        while not self._shows(text, at_end=at_end):
            if not select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise TimeoutError(f"{text!r} is not shown: {self._terminal.screen().lines}")
            self._terminal.feed(os.read(self._master, 1 << 16))

    def _shows(self, text: str, *, at_end: bool) -> bool:
        shown = "\n".join(self._terminal.screen().lines)
        return shown.endswith(text) if at_end else text in shown

    def type(self, text: str, then: str) -> None:
        """The text as it was typed, then what it brings about: `then` is how the screen ends."""
        os.write(self._master, text.encode())
        self.wait_for(text, at_end=True)
        self.frame("typed")
        self.press(b"\r", then)

    def press(self, key: bytes, then: str) -> None:
        os.write(self._master, key)
        self.wait_for(then, at_end=True)
        self.frame("shown")

    def frame(self, kind: str) -> None:
        lines = self._terminal.screen().lines
        for pattern, replacement in SAME_EACH_TIME:
            lines = [re.sub(pattern, replacement, line).rstrip() for line in lines]
        self.frames.append((kind, lines))

    def close(self) -> None:
        self._shell.kill()
        self._shell.wait()
        os.close(self._master)


def record() -> list[tuple[str, list[str]]]:
    binaries = str(Path(sys.executable).parent)
    with tempfile.TemporaryDirectory(prefix="bgjob-recording-") as home:
        environment = {
            "PATH": f"{home}:{binaries}:/usr/bin:/bin",
            "BGJOB_HOME": f"{home}/home",
            "HOME": home,
            "USER": "ann",
            "PS1": PROMPT,
            "TERM": "xterm-256color",
            "NO_COLOR": "1",
            "LC_ALL": "C.UTF-8",
        }
        (script := Path(home) / "deploy.sh").write_text(DEPLOY)
        script.chmod(0o755)
        run = [f"{binaries}/bgjob", "run", "--pty", "--until", "input", "--name", "deploy", "--cwd", "/srv"]
        subprocess.run([*run, "deploy.sh"], env=environment, check=True, capture_output=True)
        session = Session(environment)
        try:
            session.wait_for(PROMPT.strip(), at_end=True)
            play(session)
        finally:
            session.close()
            kill = [f"{binaries}/bgjob", "kill", "deploy"]
            subprocess.run(kill, env=environment, check=False, capture_output=True)
        return session.frames


def play(session: Session) -> None:
    session.type("bgjob ps --status running", "Deploy to production? [y/N]\n$")
    session.type("bgjob attach deploy", "Built 214 files.\nDeploy to production? [y/N]")
    session.type("yes", "deploying web (yes)")
    session.press(b"\x1d", "which runs on]\n$")
    session.frames[-1] = ("last", session.frames[-1][1])


def svg(frames: list[tuple[str, list[str]]]) -> str:
    width, height = COLUMNS * CELL + 2 * MARGIN, ROWS * LINE + BAR + MARGIN
    whole_s = sum(HOLD_S[kind] for kind, _ in frames)
    begins = list(_begins(frames))
    rules = [
        f"@keyframes f{n}{{0%,{100 * a / whole_s:.2f}%{{opacity:0}}{100 * a / whole_s + 0.01:.2f}%,"
        f"{100 * b / whole_s:.2f}%{{opacity:1}}{min(100, 100 * b / whole_s + 0.01):.2f}%,100%{{opacity:0}}}}"
        f".f{n}{{animation:f{n} {whole_s:.1f}s infinite}}\n"
        for n, (a, b) in enumerate(begins)
    ]
    still = "@media (prefers-reduced-motion){g{animation:none!important;opacity:0}g.last{opacity:1}}\n"
    groups = [_group(number, kind, lines) for number, (kind, lines) in enumerate(frames)]
    return "\n".join(
        [
            f'<svg xmlns="{NAMESPACE}" viewBox="0 0 {width:g} {height:g}" width="{width:g}" role="img">',
            "<title>A person enters an agent's job, answers its prompt and leaves it running</title>",
            f"<style>{STYLE}{''.join(rules)}{still}</style>",
            f'<rect width="{width:g}" height="{height:g}" rx="8" fill="#0d1117" stroke="#30363d"/>',
            *groups,
            "</svg>\n",
        ]
    )


def _begins(frames: list[tuple[str, list[str]]]) -> Iterator[tuple[float, float]]:
    at = 0.0
    for kind, _ in frames:
        yield at, at + HOLD_S[kind]
        at += HOLD_S[kind]


def _group(number: int, kind: str, lines: list[str]) -> str:
    texts = [
        f'<text{_class(line)} x="{MARGIN}" y="{BAR + LINE * row + 4}" textLength="{len(line) * CELL:.1f}" '
        f'xml:space="preserve">{escape(line)}</text>'
        for row, line in enumerate(lines)
        if line
    ]
    return f'<g class="f{number} {kind}">{"".join(texts)}</g>'


def _class(line: str) -> str:
    return ' class="command"' if line.startswith(PROMPT) else ""

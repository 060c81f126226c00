"""Records the tour of scripts/run and draws it as an SVG. See scripts/picture.

The terminal emulator is bgjob's own. What differs from run to run (ids, process numbers, ages) is replaced,
and lines appear at a pace of their own: the same tour gives the same file. Without animation all lines are
shown.
"""

import argparse
import difflib
import os
import pty
import re
import subprocess
import sys
import termios
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from xml.sax.saxutils import escape

from bgjob.terminal.screen import render

NAMESPACE = "http://www.w3.org/2000/svg"
ROWS, COLUMNS = 60, 100
FIRST, LAST = "An MCP server", "Connect your client"
CELL, LINE, MARGIN, BAR, FONT = 7.6, 18, 18, 34, 12.6
PAUSE_S = {"heading": 1.2, "command": 0.8, "kill": 0.8, "step": 1.0}
HOLD_S = 6.0
"""How long the whole picture stays, at first and after each replay."""
SAME_EACH_TIME = [
    (
        r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}",
        "6f1c0b4e-2a51-4c39-9d0f-5b8e7a1c2d3e",
    ),
    (r"^[0-9a-f]{8}  (?=running|exit)", "6f1c0b4e  "),
    (r"(process|kill -9) \d+", r"\1 4711"),
    (r"(?<=running  tour  )[ \d.]{3}s ", " 1.0s "[1:]),
    (r"(?<=exit 7  tour  )[ \d.]{3}s  +\ds ago", " 4.0s  0s ago"[1:]),
    (r"(?<=  )[ \d]\d%  [ \d.]{3}[KMG]  ", " 0%  3.1M  "),
    (r"after \d+\.\d s", "after 4.0 s"),
]
STYLE = f"""\
text{{font:{FONT}px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#c9d1d9;white-space:pre}}
.heading{{fill:#58a6ff;font-weight:bold}}.command{{fill:#7ee787}}.kill{{fill:#ff7b72;font-weight:bold}}
@media (prefers-reduced-motion){{text{{animation:none!important}}}}
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/picture")
    parser.add_argument("file", type=Path)
    parser.add_argument("--check", action="store_true", help="compare with the file instead of writing it")
    options = parser.parse_args()
    picture = drawn(options.file)
    if not options.check:
        options.file.write_text(picture)
        return 0
    old = options.file.read_text()
    if old == picture:
        return 0
    print(
        f"{options.file} does not show the tour as it is now: scripts/picture makes it anew", file=sys.stderr
    )
    print(*difflib.unified_diff(old.split("\n"), picture.split("\n"), n=0), sep="\n", file=sys.stderr)
    return 1


def drawn(file: Path) -> str:
    """By its name: the tour, or the recording of `bgjob attach`."""
    if file.stem == "attach":
        import recording  # beside this file

        return recording.svg(recording.record())
    return svg(list(shown(record())))


def record() -> bytes:
    """All that the tour writes to its terminal."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (ROWS, COLUMNS))
    # these would count more than the size of the terminal
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    with subprocess.Popen(["scripts/run"], stdin=theirs, stdout=theirs, stderr=theirs, env=environment):
        os.close(theirs)
        return b"".join(iter(lambda: _read(ours), b""))


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:
        # how Linux says that all have closed the other end
        return b""


def shown(recorded: bytes) -> Iterator[str]:
    """The lines of the part that the picture shows."""
    begin, end = recorded.index(f"\x1b[1m{FIRST}".encode()), recorded.index(f"\x1b[1m{LAST}".encode())
    for line in render([recorded[begin:end]], ROWS, COLUMNS).lines:
        for pattern, replacement in SAME_EACH_TIME:
            line = re.sub(pattern, replacement, line)
        yield line


def svg(lines: list[str]) -> str:
    width, height = COLUMNS * CELL + 2 * MARGIN, len(lines) * LINE + BAR + MARGIN
    kinds = [kind(line, before) for before, line in pairwise(["", *lines])]
    times = list(appear_at(kinds))
    whole_s = times[-1] + HOLD_S
    # it begins with the whole picture
    begin_s = times[-1] + 0.1
    timing = f"text{{animation:{whole_s:.1f}s -{begin_s:.1f}s infinite}}\n"
    rules = [_rule(number, 100 * time / whole_s) for number, time in enumerate(times)]
    texts = [_text(number, line, kinds[number]) for number, line in enumerate(lines) if line]
    return "\n".join(
        [
            f'<svg xmlns="{NAMESPACE}" viewBox="0 0 {width:g} {height:g}" width="{width:g}" role="img">',
            "<title>A job outlives kill -9 of the MCP server that started it</title>",
            f"<style>{STYLE}{timing}{''.join(rules)}</style>",
            f'<rect width="{width:g}" height="{height:g}" rx="8" fill="#0d1117" stroke="#30363d"/>',
            *(
                f'<circle cx="{MARGIN + 18 * number}" cy="17" r="5.5" fill="{fill}"/>'
                for number, fill in enumerate(["#ff5f56", "#ffbd2e", "#27c93f"])
            ),
            *texts,
            "</svg>\n",
        ]
    )


def appear_at(kinds: Sequence[str]) -> Iterator[float]:
    """Seconds, from 0 on: the pause comes before each line but the first."""
    return accumulate([0.0, *(PAUSE_S.get(kind, 0.05) for kind in kinds[1:])])


def kind(line: str, before: str) -> str:
    if line.startswith("$ kill"):
        return "kill"
    if line.startswith(("$ ", "> ")):
        return "command"
    if line.startswith("step"):
        return "step"
    return "heading" if line and not before else "printed"


def _rule(number: int, percent: float) -> str:
    frames = f"0%,{percent:.1f}%{{opacity:0}}{percent + 0.1:.1f}%,100%{{opacity:1}}"
    return f"@keyframes l{number}{{{frames}}}.l{number}{{animation-name:l{number}}}\n"


def _text(number: int, line: str, what: str) -> str:
    """The length is fixed: columns stand below each other in any font."""
    place = f'x="{MARGIN}" y="{BAR + LINE * number + 14}" textLength="{len(line) * CELL:.1f}"'
    return f'<text class="l{number} {what}" {place} xml:space="preserve">{escape(line)}</text>'


if __name__ == "__main__":
    sys.exit(main())

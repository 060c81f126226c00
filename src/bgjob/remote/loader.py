"""How an agent comes to be on another machine: a shell finds a Python, which takes its code from its stdin.

`python3 -` would read its program to the end of stdin, and leave no channel: the text of `bootstrap` is counted.
"""

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence

from bgjob.core.frozen import NOTHING, Frozen
from bgjob.remote import bootstrap
from bgjob.remote.archive import Archive, code_name

MARK = bootstrap.MARK
# python3 is what a host's user means by it; else the newest. Only if none of them is new enough, an older one.
PYTHONS = ("python3", "python3.14", "python3.13", "python3.12", "python3.11", "python3.10", "python3.9")
RUN = "import sys; i = sys.stdin.buffer; exec(i.read(int(i.readline())))"
# For any login shell: without ' and !, which some of them read between quotes. The look at a Python must not
# read our stdin. Python 2 knows no -I.
FIND_PYTHON = """\
become() { if "$2" -I -S -c "import sys; sys.exit(sys.version_info < (3, $1))" </dev/null 2>/dev/null; \
then exec "$2" -I -S -c "%(run)s"; fi; }; \
for least in %(leasts)s; do for python in %(pythons)s; do become $least "$python"; done; done; \
state=missing; for python in %(first)s; do if command -v "$python" >/dev/null 2>&1; then state=old; \
"$python" -c "" </dev/null >/dev/null 2>&1 || state=broken; fi; done; \
printf "\\n\\001bgjob %%s\\n" "{\\"error\\": {\\"kind\\": \\"NoPython\\", \\"text\\": \\"$state\\"}}\""""
NO_PYTHON = "NoPython"
STATES = {"missing": "is not there", "old": "is older than 3.9", "broken": "cannot be run"}


class Order(Frozen):
    """What an agent is started with."""

    target: str = "the target"
    """Its name, for errors."""
    environ: Mapping[str, str] = NOTHING
    """Beside the variables that it has over there, e.g. BGJOB_HOME. A ~ is the home directory over there."""
    python: str | None = None
    """The only Python to use: a configured one is never replaced by another. None: look for one."""
    code_root: str | None = None
    """Where the code is to live; None: in the home over there."""
    arguments: Sequence[str] = ()
    is_quoted: bool = True
    """False: the way there takes the words of a command, and not a line for a shell."""


def command(order: Order) -> list[str]:
    """What is run over there, as the last arguments of the way there."""
    pythons = [expanded(order.python)] if order.python else PYTHONS
    leasts = "9" if order.python else "11 9"
    names = {"pythons": " ".join(pythons), "first": pythons[0]}
    script = FIND_PYTHON % {"leasts": leasts, "run": RUN, **names}
    words = ["sh", "-c", script]
    return ["exec " + shlex.join(words)] if order.is_quoted else words


def lacks_python(order: Order, state: str) -> tuple[str, str]:
    """Return why no Python on the host can run the agent, and the word of core.target_trouble for it."""
    state = state if state in STATES else "broken"
    if order.python:
        return f"its python, set to {order.python}, {STATES[state]}", f"own_python_{state}"
    more = "" if state == "missing" else f": its python3 {STATES[state]}"
    return f"there is no python3 of 3.9 or newer there{more}", f"python_{state}"


def expanded(python: str) -> str:
    """A shell does not expand a quoted ~."""
    if python.startswith("~/"):
        return '"$HOME"' + shlex.quote(python[1:])
    return shlex.quote(python)


def first_words(order: Order) -> bytes:
    """What is written into the pipe at once: the program, and its order."""
    with open(bootstrap.__file__, "rb") as file:
        program = file.read()
    details = {
        "names": {"3.11": code_name(), "3.9": code_name(lowered=True)},
        "code_root": order.code_root,
        "environ": dict(order.environ),
        "arguments": list(order.arguments),
    }
    return b"%d\n" % len(program) + program + json.dumps(details).encode() + b"\n"


def sent_code(archive: Archive) -> bytes:
    digest = hashlib.sha256(archive.data).hexdigest()
    return b"%d %s\n" % (len(archive.data), digest.encode()) + archive.data

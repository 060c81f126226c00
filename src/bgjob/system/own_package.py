"""Our own package on disk: which build it is, and how to import all of it before an upgrade replaces it.

A process that keeps running after an upgrade must not import the rest of itself from another version. It imports the
rest as soon as it is idle, because clients would have to wait for that at the start.
"""

import importlib
import os
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from bgjob import __version__
from bgjob.system.own_argv import PACKAGE_ROOT

SHOWN_DIGITS = 8
LOOK_S = 0.5
IDLE_SHARE = 0.02
"""Share of a processor below which a process counts as idle."""
BUSY_FOR_S = 60.0
"""A server that has been busy for this long imports the rest anyway."""


def full_version() -> str:
    """Return the version and the build: two builds of one version differ."""
    build = build_in(PACKAGE_ROOT)
    return f"{__version__}+{build}" if build else __version__


def build_in(root: str) -> str:
    """Return the commit of a checkout, or a hash of what was installed. Empty for a bare copy of the files."""
    with suppress(OSError):  # first: it may be installed into the checkout of another project
        return _installed(os.path.join(root, f"bgjob-{__version__}.dist-info", "RECORD"))
    with suppress(OSError):
        return _commit(os.path.join(os.path.dirname(root), ".git"))[:SHOWN_DIGITS]
    return ""


def _commit(git: str) -> str:
    """Return the commit of HEAD without running git."""
    if os.path.isfile(git):  # of a further worktree
        git = os.path.join(os.path.dirname(git), _read(git).removeprefix("gitdir: "))
    head = _read(os.path.join(git, "HEAD"))
    if not head.startswith("ref: "):
        return head
    common = git
    with suppress(OSError):
        common = os.path.join(git, _read(os.path.join(git, "commondir")))
    with suppress(OSError):
        return _read(os.path.join(common, head[5:]))
    packed = _read(os.path.join(common, "packed-refs")).splitlines()
    return next((line.split()[0] for line in packed if line.endswith(" " + head[5:])), "")


def _installed(record: str) -> str:
    """Return a hash of the lines that are the same with every installer."""
    ours = sorted(
        line for line in _read(record).splitlines() if line.startswith("bgjob/") and ".pyc" not in line
    )
    return f"{zlib.crc32(chr(10).join(ours).encode()):08x}"


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read().strip()


def import_when_idle(
    folders: Sequence[str], others: Sequence[str], then: Callable[[], object] | None = None
) -> None:
    """Import these folders of the package, and other modules, in a thread and one by one. Then call `then`."""

    def work() -> None:
        _wait_until_idle()
        for name in [*others, *_modules_in(folders)]:
            with suppress(ImportError):  # it is not installed here
                importlib.import_module(name)
            time.sleep(0)  # threads with a request to answer come first
        if then:
            then()

    import threading  # `bgjob --version` does without it

    with suppress(RuntimeError):  # no more threads: late imports stay late
        threading.Thread(target=work, daemon=True).start()


def _wait_until_idle() -> None:
    until = time.monotonic() + BUSY_FOR_S
    used = -LOOK_S
    while time.process_time() - used > IDLE_SHARE * LOOK_S and time.monotonic() < until:
        used = time.process_time()
        time.sleep(LOOK_S)


def _modules_in(folders: Sequence[str]) -> Iterator[str]:
    for folder in folders:
        yield f"bgjob.{folder}"
        names = sorted(os.listdir(os.path.join(PACKAGE_ROOT, "bgjob", *folder.split("."))))
        yield from (
            f"bgjob.{folder}.{name[:-3]}" for name in names if name.endswith(".py") and name[0] != "_"
        )

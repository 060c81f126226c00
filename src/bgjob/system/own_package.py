"""Our own package on disk: which build of it this is, and all of it in memory before an upgrade replaces it.

A process that goes on after an upgrade must not import the rest of itself from another version. It imports that
as soon as it has nothing to do: at the start it would make clients wait.
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
"""Of a processor: a process that takes less has nothing to do."""
BUSY_FOR_S = 60.0
"""A server that is busy for so long imports the rest all the same."""


def full_version() -> str:
    """The version, and which build of it: two builds of one version differ."""
    build = build_in(PACKAGE_ROOT)
    return f"{__version__}+{build}" if build else __version__


def build_in(root: str) -> str:
    """The commit of a checkout, or a hash of what was installed. Empty for a bare copy of the files."""
    with suppress(OSError):
        return _commit(os.path.join(os.path.dirname(root), ".git"))[:SHOWN_DIGITS]
    with suppress(OSError):
        return _installed(os.path.join(root, f"bgjob-{__version__}.dist-info", "RECORD"))
    return ""


def _commit(git: str) -> str:
    """What HEAD names, without running git."""
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
    """Of the lines that every installer writes alike."""
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
            time.sleep(0)  # whoever has a request to answer comes first
        if then:
            then()

    import threading  # `bgjob --version` does without it

    with suppress(RuntimeError):  # no more threads: late imports are late
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

"""The code that travels: all of the package but its faces and the near half.

The same code has the same hash, on whatever machine it is packed: so it is sent once to a host, and lives
there in a directory of that name.
"""

import functools
import hashlib
import io
import os
import threading
import zipfile
from collections.abc import Iterable, Iterator, Mapping

from bgjob.core.frozen import Frozen

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Below `bgjob/`: what only a person, a client of ours or the near half uses.
LEFT_OUT = ("__main__.py", "cli", "clients", "mcp", "protocol", "web")
FAR_PARTS_OF_REMOTE = ("__init__.py", "bootstrap.py", "client.py", "codec.py", "shared_root.py")
# Any time will do that is always the same; a zip knows none before 1980.
MADE = (2020, 1, 1, 0, 0, 0)
HASH_CHARACTERS = 16
# Of several threads one makes it. Two that parse at once disturb each other, in Python 3.11.
_MAKING = threading.Lock()


class Archive(Frozen):
    name: str
    """The hash of the code."""
    data: bytes
    """A zip file."""


@functools.cache
def code_name(*, lowered: bool = False) -> str:
    """The hash of the code, by which a host knows whether it has it. Lowered: as older interpreters run it."""
    return hash_of({**dict(sources()), **(_lowering() if lowered else {})}.items())


def archive(*, lowered: bool = False) -> Archive:
    with _MAKING:
        return _archive(lowered=lowered)


@functools.cache
def _archive(*, lowered: bool) -> Archive:
    files = dict(sources())
    if lowered:
        from bgjob.remote.lowering import lowered_package

        files = lowered_package(files)
    return Archive(code_name(lowered=lowered), _zip(files))


def sources() -> Iterator[tuple[str, bytes]]:
    """(path in the archive, content) of each file, in order."""
    for folder, folders, names in os.walk(PACKAGE):
        inside = os.path.relpath(folder, PACKAGE)
        folders[:] = sorted(name for name in folders if _travels(inside, name) and name != "__pycache__")
        for name in sorted(names):
            if name.endswith(".py") and _travels(inside, name):
                with open(f"{folder}/{name}", "rb") as file:
                    yield os.path.normpath(f"bgjob/{inside}/{name}"), file.read()


def _travels(inside: str, name: str) -> bool:
    if inside == "remote":
        return name in FAR_PARTS_OF_REMOTE
    return inside != os.curdir or name not in LEFT_OUT


def hash_of(files: Iterable[tuple[str, bytes]]) -> str:
    found = hashlib.sha256()
    for name, data in sorted(files):
        found.update(b"%s %d\n" % (name.encode(), len(data)) + data)
    return found.hexdigest()[:HASH_CHARACTERS]


def _lowering() -> dict[str, bytes]:
    """What lowered code depends on, too."""
    from bgjob.remote.lowering import stand_ins

    with open(f"{PACKAGE}/remote/lowering.py", "rb") as file:
        return {"lowering": file.read(), **dict(stand_ins())}


def _zip(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        for name, data in sorted(files.items()):
            entry = zipfile.ZipInfo(name, MADE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(entry, data)
    return buffer.getvalue()

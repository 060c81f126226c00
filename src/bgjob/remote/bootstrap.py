"""Runs on the other machine before any of our code is there: takes the code in, and becomes the agent.

It is sent as text to `python3 -I -S -c`, so it needs no other module, and runs on Python 3.9. The agent, too, names
its trouble by `trouble_of`. First comes an order, on a line:

    {"names": {"3.9": hash, "3.11": hash}, "code_root": …, "environ": {…}, "arguments": […]}

It answers with a line that begins with a mark, which no login shell prints: which Python this is, and whether
the code is there. If it is not, `<bytes> <sha256>` comes, on a line, and a zip file. The code lives unpacked in
`<code root>/code/<hash>`, unpacked beside it and renamed. A file there tells its checksum, and in which boots, of
which machines, it was found right: what a power cut left of it is replaced. Codes that were not used for 30
days are removed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    Run = Callable[[], None]

MARK = b"\x01bgjob "
CHECKED = "checked.json"
DAY_S = 86400.0
UNUSED_DAYS, ABANDONED_DAYS = 30, 1
MOST_BOOTS = 500
TROUBLES = {
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST), "home_not_writable"),
    errno.EROFS: "home_read_only",
    errno.ENOSPC: "home_full",
    errno.EDQUOT: "home_full",
}


class NotOursAlone(OSError):
    pass


def main() -> None:
    order = json.loads(sys.stdin.buffer.readline())
    os.environ.update({name: os.path.expanduser(value) for name, value in order["environ"].items()})
    try:
        run = _code(order)
    except (OSError, ValueError, ImportError) as error:
        failure = {"kind": type(error).__name__, "text": str(error), "trouble": trouble_of(error)}
        return _say({"error": failure})
    run()


def trouble_of(error: BaseException | None) -> str:
    """Return the word of core.target_trouble for this error; empty if it has none."""
    if isinstance(error, NotOursAlone):
        return "home_unsafe"
    if isinstance(error, ImportError):
        return "python_broken"
    return TROUBLES.get(error.errno or 0, "") if isinstance(error, OSError) else ""


def _say(message: dict[str, Any]) -> None:
    # on a line of its own, whatever was printed before
    sys.stdout.buffer.write(b"\n" + MARK + json.dumps(message).encode() + b"\n")
    sys.stdout.buffer.flush()


def _code(order: dict[str, Any]) -> Run:
    """The function that becomes the agent, from code that was there or that was sent."""
    directory = _code_directory(order["code_root"])
    name = order["names"]["3.11" if sys.version_info >= (3, 11) else "3.9"]
    place = os.path.join(directory, name)
    run = _imported(place, order["arguments"]) if _is_whole(place) else None
    if run is None:
        _take_back_mark(place)
    _say({"python": list(sys.version_info[:3]), "code": name, "there": run is not None})
    if run is None:
        _unpack(_received(), place)
        run = _import(place, order["arguments"])
    os.utime(place)  # it is in use
    _sweep(directory, name)
    return run


def _code_directory(root: str | None) -> str:
    """makedirs' mode is for the last directory only: all of them are private by the umask."""
    directory = os.path.join(os.path.expanduser(root or _home()), "code")
    umask = os.umask(0o077)
    try:
        os.makedirs(directory, exist_ok=True)
    finally:
        os.umask(umask)
    found = os.lstat(directory)
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise NotOursAlone(directory + " is not ours alone: others could put code into it")
    return directory


def _home() -> str:
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.environ.get("BGJOB_HOME") or os.path.join(state, "bgjob")


def _imported(place: str, arguments: Sequence[str]) -> Run | None:
    """None: files of it are missing or damaged."""
    try:
        return _import(place, arguments)
    except Exception:  # noqa: BLE001 - whatever a damaged file raises
        sys.path.remove(place)
        for module in [each for each in sys.modules if each.partition(".")[0] == "bgjob"]:
            del sys.modules[module]
        return None


def _import(place: str, arguments: Sequence[str]) -> Run:
    from importlib import import_module, invalidate_caches

    sys.path.insert(0, place)
    invalidate_caches()
    run: Run = import_module("bgjob.agent.entry").program(arguments)
    return run


# -- whether it is whole ------------------------------------------------------------------------------


def _is_whole(place: str) -> bool:
    """In the boot in which it was unpacked or checked it is; after another one, a power cut may have torn it."""
    try:
        with open(os.path.join(place, CHECKED)) as file:
            known = json.load(file)
        boots, tag, expected = list(known["boots"]), str(known["compiled"]), known["sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    if _boot() in boots:
        return True
    is_whole = bool(_checksum(place, tag) == expected)
    if is_whole:
        _note_checked(place, tag, expected, boots)
    return is_whole


def _take_back_mark(place: str) -> None:
    """It is not whole, whatever the mark says: a file of it was deleted or overwritten."""
    with contextlib.suppress(OSError):  # there is no code at all
        os.unlink(os.path.join(place, CHECKED))


def _note_checked(place: str, tag: str, checksum: str, boots: Sequence[str] = ()) -> None:
    known = {"sha256": checksum, "compiled": tag, "boots": [*boots, _boot()][-MOST_BOOTS:]}
    draft = os.path.join(place, f"{CHECKED}.{os.uname().nodename}.{os.getpid()}")
    with open(draft, "w") as file:
        json.dump(known, file)
    os.rename(draft, os.path.join(place, CHECKED))


def _boot() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


def _checksum(place: str, tag: str) -> str:
    """Of the source, and of what one interpreter has compiled: others add what they compile."""
    found = hashlib.sha256()
    for folder, folders, names in os.walk(place):
        folders.sort()
        for name in sorted(each for each in names if each.endswith((".py", f".{tag}.pyc"))):
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                data = file.read()
            found.update(b"%s %d\n" % (os.path.relpath(path, place).encode(), len(data)) + data)
    return found.hexdigest()


# -- taking it in -------------------------------------------------------------------------------------


def _received() -> bytes:
    source = sys.stdin.buffer
    size, checksum = source.readline().split()
    data = source.read(int(size))
    if hashlib.sha256(data).hexdigest() != checksum.decode():
        raise ValueError(f"the code came damaged: {len(data)} bytes of {int(size)}")
    return data


def _unpack(data: bytes, place: str) -> None:
    import io
    import shutil
    import zipfile

    draft = f"{place}.{os.uname().nodename}.{os.getpid()}"
    umask = os.umask(0o077)
    try:
        os.mkdir(draft)
        zipfile.ZipFile(io.BytesIO(data)).extractall(draft)
        _compile(draft, place)
        tag = str(sys.implementation.cache_tag)
        _note_checked(draft, tag, _checksum(draft, tag))
        _put_in_place(draft, place)
    finally:
        os.umask(umask)
        shutil.rmtree(draft, ignore_errors=True)


def _compile(directory: str, place: str) -> None:
    import compileall

    compileall.compile_dir(directory, ddir=place, quiet=2, force=True)


def _put_in_place(draft: str, place: str) -> None:
    """What is there is torn, or another agent's that was faster."""
    import shutil

    torn = draft + ".torn"
    if os.path.lexists(place) and not _is_whole(place):
        os.rename(place, torn)
        shutil.rmtree(torn, ignore_errors=True)
    try:
        os.rename(draft, place)
    except OSError:
        if not _is_whole(place):
            raise


# -- old codes ----------------------------------------------------------------------------------------


def _sweep(directory: str, own: str) -> None:
    """A shim needs its code until its job has ended, however long that is."""
    import shutil

    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        days = UNUSED_DAYS if "." not in name else ABANDONED_DAYS
        try:
            if name != own and os.lstat(path).st_mtime < time.time() - days * DAY_S and not _is_used(path):
                shutil.rmtree(path, ignore_errors=True)
        except OSError:
            pass  # another agent has removed it


def _is_used(path: str) -> bool:
    """By a process of this machine: our processes have the place of their code among their arguments."""
    for pid in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else ()):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if os.fsencode(path) in file.read().split(b"\0"):
                    return True
        except OSError:
            pass  # it has ended, or is another user's
    return False


if __name__ == "__main__":
    main()

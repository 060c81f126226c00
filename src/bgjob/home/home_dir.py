"""A home that is safe to use: only we and root can replace it, or change what is in it.

Each directory above the home is ours or root's, and no other user may write into it unless it is sticky: the
rule of sshd's StrictModes. So no other user can put another home in its place. The home and the directories
in it are real directories, ours, and closed to other users. A process that is given the path of a home checks
it again. The shim imports this module.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

OTHERS_WRITE, GROUP_WRITES = stat.S_IWOTH, stat.S_IWGRP
OPEN_HOME = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
PRIVATE = 0o700


def home_from(environ: Mapping[str, str]) -> str:
    """The home that this environment names."""
    if home := environ.get("BGJOB_HOME"):
        return home
    state = environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(state, "bgjob")


class Unsafe(OSError):
    """The message says what is wrong with which directory, and what to do."""


class Home:
    """A home that was found safe. It is not held open, so that its file system can be unmounted."""

    def __init__(self, path: str) -> None:
        fd = open_safe(path)
        self._path, self._identity = path, _identity(os.fstat(fd))
        os.close(fd)

    def is_in_place(self) -> bool:
        """False: the home was deleted, replaced, or opened to other users since."""
        try:
            return _identity(os.lstat(self._path)) == self._identity
        except OSError:
            return False


def _identity(info: os.stat_result) -> tuple[int, ...]:
    """With the owner: another user's directory may get the inode number of a deleted one."""
    return info.st_dev, info.st_ino, info.st_uid, info.st_mode


def resolved(path: str) -> str:
    """Where a home really is. That place is checked and used, even if the links to it change later."""
    place = os.path.realpath(path)
    if os.path.islink(path) and not os.path.lexists(place):
        raise Unsafe(
            f"{path} is a link to {place}, which does not exist. Make that directory, with mode 700."
        )
    return place


def make(path: str) -> list[str]:
    """The directories that had to be made, innermost first: os.makedirs makes only the last one private."""
    missing = []
    while not os.path.lexists(path):
        missing.append(path)
        path = os.path.dirname(path)
    if missing:
        check_above(missing[-1])
    for directory in reversed(missing):
        _make_private(directory)
    return missing


def make_inside(home: str, names: Iterable[str]) -> None:
    for path in (f"{home}/{name}" for name in names):
        try:
            info = os.lstat(path)
        except FileNotFoundError:
            _make_private(path)
            info = os.lstat(path)
        _check_inside(path, info)


def open_safe(path: str) -> int:
    """A descriptor of this home, if the home and all directories above it are safe."""
    check_above(path)
    try:
        fd = os.open(path, OPEN_HOME)
    except NotADirectoryError:
        raise Unsafe(f"{path} is no directory.") from None
    try:
        _check_own(path, os.fstat(fd))
    except Unsafe:
        os.close(fd)
        raise
    return fd


def enter(path: str) -> bool:
    """Make a safe home our working directory: relative paths stay in it if its own path changes."""
    try:
        fd = open_safe(path)
    except OSError:
        return False
    os.fchdir(fd)
    os.close(fd)
    return True


def working_place() -> str | None:
    """Where the home that we have entered is now; None if it was deleted."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


def is_ours(info: os.stat_result) -> bool:
    """Made by us or by root. Anything else in a home came into it while the home was open to other users."""
    return info.st_uid in (os.geteuid(), 0)


def is_ours_alone(info: os.stat_result) -> bool:
    """Ours, and no other user can write into it."""
    return is_ours(info) and not info.st_mode & (OTHERS_WRITE | GROUP_WRITES)


def _make_private(path: str) -> None:
    try:
        os.mkdir(path, PRIVATE)
    except FileExistsError:
        pass  # made by another process meanwhile; the caller checks it


def check_above(path: str) -> None:
    """From the root down: a directory that was found safe cannot be replaced while we check those in it."""
    for directory in reversed(list(_above(path))):
        info = os.lstat(directory)
        if not stat.S_ISDIR(info.st_mode):
            raise Unsafe(f"{directory}, in which it is, is no directory.")
        if not is_ours(info) and not _is_unmapped(info.st_uid):
            raise Unsafe(
                f"{directory}, in which it is, belongs to uid {info.st_uid}, who could put another in its place."
            )
        if who := _who_else_writes(info):
            raise Unsafe(
                f"{directory}, in which it is, can be written by {who} (mode {_mode(info)}), who could put another in "
                f"its place. Run chmod {'o-w' if who == 'everybody' else 'g-w'} on it, if it is yours."
            )


def _above(path: str) -> Iterator[str]:
    while path != (above := os.path.dirname(path)):
        yield above
        path = above


def _who_else_writes(info: os.stat_result) -> str:
    """Into a directory, so that entries of ours could be replaced: in a sticky one others can only add."""
    return "" if info.st_mode & stat.S_ISVTX else other_writers(info)


def other_writers(info: os.stat_result) -> str:
    """Who else its mode lets write: everybody, a group, or the empty text for nobody."""
    if info.st_mode & OTHERS_WRITE:
        return "everybody"
    return f"group {info.st_gid}" if info.st_mode & GROUP_WRITES and not _is_private_group(info) else ""


def _is_private_group(info: os.stat_result) -> bool:
    """Many systems give each user a group of the same name, without others, that may write."""
    import grp
    import pwd

    try:
        owner, group = pwd.getpwuid(info.st_uid).pw_name, grp.getgrgid(info.st_gid)
    except KeyError:
        return False
    return group.gr_name == owner and set(group.gr_mem) <= {owner}


def _is_unmapped(uid: int) -> bool:
    """In a user namespace, as sandboxes use them, root's directories have the overflow uid."""
    try:
        with open("/proc/self/uid_map") as file:
            ranges = [tuple(map(int, line.split())) for line in file]
        with open("/proc/sys/kernel/overflowuid") as file:
            overflow = int(file.read())
    except (OSError, ValueError):
        return False
    return uid == overflow and not any(first <= uid < first + count for first, _, count in ranges)


def _check_own(path: str, info: os.stat_result) -> None:
    if info.st_uid != os.geteuid():
        raise Unsafe(f"{path} belongs to uid {info.st_uid}, and not to you (uid {os.geteuid()}).")
    if info.st_mode & 0o077:
        raise Unsafe(f"{path} is open to other users (mode {_mode(info)}). Run chmod 700 on it.")


def _check_inside(path: str, info: os.stat_result) -> None:
    if not stat.S_ISDIR(info.st_mode):
        raise Unsafe(f"{path} is no directory, or a link to one. Move it away.")
    if not is_ours_alone(info):
        raise Unsafe(
            f"{path} belongs to uid {info.st_uid} and has mode {_mode(info)}: others could have put jobs into it. "
            "Move it away."
        )


def _mode(info: os.stat_result) -> str:
    return f"{stat.S_IMODE(info.st_mode):o}"

"""Reads the config file, if there is one: `bgjob/config.toml` in $XDG_CONFIG_HOME, else in ~/.config.

It may set the allow-list, and commands that are run. So a file that another user could have written is an error:
the rule for the file and the directories above it is that for a home. A link to the file is followed.
"""

import errno
import os
import stat
from collections.abc import Callable, Mapping
from typing import Any

from bgjob.core.config import NO_FILE, ConfigFile
from bgjob.core.errors import BadConfigFile, BgjobError
from bgjob.home.home_dir import Unsafe, check_above, is_ours, other_writers

MOST_BYTES = 1 << 20
# O_NONBLOCK: a FIFO of that name must not block us
OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def config_path(environ: Mapping[str, str]) -> str:
    """A relative XDG_CONFIG_HOME does not count, says its specification."""
    directory = environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(directory):
        directory = os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".config")
    return os.path.join(directory, "bgjob", "config.toml")


def read_config_file(environ: Mapping[str, str]) -> ConfigFile:
    """BadConfigFile: it cannot be read, could be another user's, or is no TOML."""
    path = config_path(environ)
    table = read_toml(path, lambda problem: BadConfigFile(f"The config file {path} {problem}"))
    if table is None:
        return NO_FILE
    from bgjob.core.config_file import config_file  # here: most have no config file

    return config_file(path, table)


def read_toml(path: str, error: Callable[[str], BgjobError]) -> dict[str, Any] | None:
    """None: there is none. `error`: of what is wrong with it, which follows its name."""
    try:
        os.lstat(path)
    except OSError:
        return None  # also if its directory is closed to us: then it is another user's
    try:
        return _parsed(_read(path))
    except Unsafe as problem:
        raise error(f"is not safe to use: {problem}") from None
    except OSError as problem:
        raise error(f"cannot be read: {problem.strerror}.") from None
    except UnicodeDecodeError as problem:
        raise error(f"is not UTF-8: {problem}.") from None
    except (ValueError, RecursionError) as problem:  # RecursionError: lists in lists in lists
        raise error(f"is not valid TOML: {problem}.") from None


def _read(path: str) -> bytes:
    place = os.path.realpath(path)
    check_above(place)
    fd = os.open(place, OPEN_FILE)
    try:
        _check(os.fstat(fd))
        return os.read(fd, MOST_BYTES)
    finally:
        os.close(fd)


def _check(info: os.stat_result) -> None:
    if not stat.S_ISREG(info.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file")
    if info.st_size >= MOST_BYTES:
        raise OSError(errno.EFBIG, f"it has more than {MOST_BYTES} bytes")
    if not is_ours(info):
        raise Unsafe(f"it belongs to uid {info.st_uid}, and not to you (uid {os.geteuid()}).")
    if who := other_writers(info):
        raise Unsafe(f"it can be written by {who}. Run chmod go-w on it.")


def _parsed(data: bytes) -> dict[str, Any]:
    import tomllib  # here: most have no such file

    # lines after the last: tomllib tells no line number of an error at the end
    return tomllib.loads(data.decode("utf-8-sig") + "\n\n")

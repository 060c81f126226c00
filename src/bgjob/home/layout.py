"""What is where in a home. The shim and the dispatcher find it here, without the store."""

import os
import stat

AUDIT = "audit"
JOBS, INDEX, DRAFTS, TRASH, SLOTS = "jobs", "index", "drafts", "trash", "slots"
TOKENS, TOKENS_LOCK = "tokens.json", "tokens.lock"
LOGINS, LOGINS_LOCK, SERVERS = "logins.json", "logins.lock", "servers"
NOTIFY, NOTIFY_LOCK, NOTIFIED = "notify.json", "notify.lock", "notified.json"
LOOKED, NAMES = "looked.json", "names"
ID_CHARACTERS = 36
# Never follows a symlink out of a home, and never blocks on a FIFO.
READ_ONLY = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# From a job's directory, the working directory of its shim.
HOME = "../.."


def names_in(directory: str) -> list[str]:
    """The names in a directory; a symlink in its place is an error."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return os.listdir(fd)
    finally:
        os.close(fd)


def is_directory(path: str) -> bool:
    """A symlink is none: it may lead out of the home. OSError: that cannot be known."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False

"""The directories of a home; shims and the drainer find them without the store."""

import os
import stat

JOBS, INDEX, DRAFTS, TRASH, SLOTS = "jobs", "index", "drafts", "trash", "slots"
HOME = "../.."  # from a job's directory, in which its shim works


def names_in(directory: str) -> list[str]:
    """Of that directory itself."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return os.listdir(fd)
    finally:
        os.close(fd)


def is_directory(path: str) -> bool:
    """Itself: a symlink in a home leads out of it, and is followed by nobody. OSError: nobody can tell."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False

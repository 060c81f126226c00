"""The settings files of clients: read, changed and written whole. What is not ours in them stays as it is."""

import contextlib
import json
import math
import os
import re
import stat
import tempfile
from dataclasses import dataclass

from bgjob.core.errors import BgjobError

Settings = dict[str, object]
NEW_FILE_MODE = 0o600
ANYBODY_WRITES = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
INDENT = re.compile(r'\n([ \t]+)"')
BLANKS = " \t\r\n"
NESTED = "it is nested too deeply"


class CannotEdit(BgjobError):
    """The file is as it was, and the user has to edit it."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path} was not changed: {why}.")


@dataclass(frozen=True)
class SettingsFile:
    """A file of JSON. One with comments or last commas is not read: they would be lost when it is written."""

    path: str
    text: str | None
    """None: there is no such file."""

    @classmethod
    def read(cls, path: str) -> "SettingsFile":
        return cls(path, read_text(path))

    @property
    def settings(self) -> Settings:
        if self.text is None:
            return {}
        try:
            read = json.loads(self.text, parse_constant=_refuse)
        except (ValueError, RecursionError):
            raise CannotEdit(self.path, "it is not plain JSON, perhaps for comments in it") from None
        if not isinstance(read, dict):
            raise CannotEdit(self.path, "it holds no JSON object")
        return read

    def write(self, settings: Settings) -> bool:
        """False: the file says so already, and was not touched."""
        try:
            if settings == self.settings:
                return False
            self._check_that_nothing_is_lost()
            text = self._as_text(settings)
        except RecursionError:
            raise CannotEdit(self.path, NESTED) from None
        write_text(self.path, text, was=self.text)
        return True

    def _check_that_nothing_is_lost(self) -> None:
        """A client can read what is refused here, and so can we, but we could not write it again."""
        try:
            json.loads(self.text or "{}", parse_float=_finite, object_pairs_hook=_with_each_key_once)
        except _WouldBeLost as why:
            raise CannotEdit(self.path, str(why)) from None

    def _as_text(self, settings: Settings) -> str:
        """With the indentation and the line ends that the file has."""
        if self.text is None:
            return f"{json.dumps(settings, indent=2, ensure_ascii=False)}\n"
        found = INDENT.search(self.text)
        text = json.dumps(settings, indent=found[1] if found else None, ensure_ascii=False)
        if 2 * self.text.count("\r\n") > self.text.count("\n"):
            text = text.replace("\n", "\r\n")  # not within a string: a line end is escaped there
        return text + self.text[len(self.text.rstrip(BLANKS)) :]


class _WouldBeLost(Exception):
    pass


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is no JSON")


def _finite(number: str) -> float:
    if math.isinf(read := float(number)):
        raise _WouldBeLost(f"its number {number[:20]} is too large to be written again")
    return read


def _with_each_key_once(pairs: list[tuple[str, object]]) -> Settings:
    settings: Settings = {}
    for key, value in pairs:
        if key in settings:
            raise _WouldBeLost(f"it has {key[:40]!r} twice in one object, and the first would be lost")
        settings[key] = value
    return settings


def read_text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", newline="", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise CannotEdit(path, "it is no plain file")
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise CannotEdit(path, f"it cannot be read: {problem.strerror}") from problem
    except UnicodeDecodeError:
        raise CannotEdit(path, "it is not UTF-8") from None


def _without_waiting(path: str, flags: int) -> int:
    """The opening of a FIFO waits for its writer."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def check_that_it_may_change(path: str) -> None:
    """By its mode: root may write into any file, and a file can be replaced without being written to."""
    with contextlib.suppress(FileNotFoundError):
        if not os.stat(path).st_mode & ANYBODY_WRITES:
            raise CannotEdit(
                path, "it is read-only; run chmod u+w on it if it may be changed, and call again"
            )


def write_text(path: str, text: str, *, was: str | None) -> None:
    """By renaming a draft: a client sees the old file or the new one. `was` is the text that was read before."""
    check_that_it_may_change(path)
    real = os.path.realpath(path)  # a link stays a link
    try:
        os.makedirs(os.path.dirname(real), mode=0o700, exist_ok=True)
        draft = _draft(real, text.encode())
    except UnicodeEncodeError:
        raise CannotEdit(path, "it has half a character (a lone surrogate)") from None
    except OSError as problem:
        raise CannotEdit(path, f"it cannot be written: {problem.strerror}") from problem
    try:
        if read_text(path) != was:
            raise CannotEdit(path, "it changed while we read it; call again")
        os.rename(draft, real)
    except OSError as problem:  # e.g. a file that is mounted into a container
        os.unlink(draft)
        raise CannotEdit(path, f"it cannot be replaced: {problem.strerror}") from problem
    except CannotEdit:
        os.unlink(draft)
        raise


def _draft(real: str, data: bytes) -> str:
    """A file beside it with its mode and owner."""
    fd, draft = tempfile.mkstemp(prefix=f".{os.path.basename(real)}.", dir=os.path.dirname(real))
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            _take_after(real, fd)
            file.flush()
            os.fsync(fd)
    except BaseException:
        os.unlink(draft)
        raise
    return draft


def _take_after(real: str, fd: int) -> None:
    mode = NEW_FILE_MODE
    with contextlib.suppress(FileNotFoundError):
        old, new = os.stat(real), os.fstat(fd)
        mode = stat.S_IMODE(old.st_mode)
        if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
            os.fchown(fd, old.st_uid, old.st_gid)
    os.fchmod(fd, mode)

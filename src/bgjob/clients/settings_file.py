"""The settings files of clients: read, changed and written whole. What is not ours in them stays as it is."""

import contextlib
import json
import os
import re
import stat
import tempfile
from dataclasses import dataclass

from bgjob.core.errors import BgjobError

Settings = dict[str, object]
NEW_FILE_MODE = 0o600
INDENT = re.compile(r'\n([ \t]+)"')


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
        if settings == self.settings:
            return False
        write_text(self.path, self._as_text(settings), was=self.text)
        return True

    def _as_text(self, settings: Settings) -> str:
        """With the indentation that the file has."""
        if self.text is None:
            return f"{json.dumps(settings, indent=2, ensure_ascii=False)}\n"
        found = INDENT.search(self.text)
        end = "\n" if self.text.endswith("\n") else ""
        return json.dumps(settings, indent=found[1] if found else None, ensure_ascii=False) + end


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is no JSON")


def read_text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise CannotEdit(path, f"it cannot be read: {problem.strerror}") from problem
    except UnicodeDecodeError:
        raise CannotEdit(path, "it is not UTF-8") from None


def write_text(path: str, text: str, *, was: str | None) -> None:
    """By renaming a draft: a client sees the old file or the new one. `was` is the text that was read before."""
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

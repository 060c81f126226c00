"""Who is logged in to the page: one-time keys and logins, in the home.

    logins.json   mode 0600: {"format": 1, "logins": {SHA-256: {"kind": "key" or "login", "scopes": [...], ...}}}

A person gets an address with a key; their browser exchanges the key for a login, once, and keeps that in a
cookie. Only hashes are stored. They outlive the server: an open page goes on after its server was killed.
"""

import hashlib
import os
import secrets
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bgjob.core.scopes import SCOPES
from bgjob.home.layout import LOGINS, LOGINS_LOCK
from bgjob.store.row_file import changing, rows_in

ROWS = "logins"
KEY_S = 3600.0
LOGIN_S = 30 * 86400.0

Kind = Literal["key", "login"]


@dataclass(frozen=True)
class Login:
    sha256: str
    scopes: frozenset[str]


class Logins:
    """As the file says at the moment: all servers of a home know the same ones."""

    def __init__(self, home: str) -> None:
        self._path, self._lock_path = os.path.join(home, LOGINS), os.path.join(home, LOGINS_LOCK)
        self._read_from: tuple[int, ...] | None = None
        self._rows: Mapping[str, Any] = {}

    def add_key(self, scopes: Collection[str] = tuple(SCOPES)) -> str:
        """To be exchanged for a login once, within an hour."""
        return self._add("key", KEY_S, scopes)

    def exchange(self, key: str) -> str | None:
        """The login that a key is exchanged for; None: it was used, is too old, or never was one."""
        with changing(self._path, self._lock_path, ROWS) as rows:
            row = rows.pop(_digest(key), None)
            if row is None or not _is_valid(row, "key"):
                return None
            return _add(rows, "login", LOGIN_S, row["scopes"])

    def matching(self, login: str) -> Login | None:
        digest = _digest(login)
        row = self._current().get(digest)
        if row is None or not _is_valid(row, "login"):
            return None
        return Login(digest, frozenset(row["scopes"]))

    def is_known(self, login: Login) -> bool:
        row = self._current().get(login.sha256)
        return row is not None and _is_valid(row, "login")

    def remove(self, login: Login) -> None:
        with changing(self._path, self._lock_path, ROWS) as rows:
            rows.pop(login.sha256, None)

    def remove_all(self) -> int:
        """How many were logged in. Keys that are not used yet are gone as well."""
        with changing(self._path, self._lock_path, ROWS) as rows:
            count = sum(_is_valid(row, "login") for row in rows.values())
            rows.clear()
        return count

    def _add(self, kind: Kind, valid_s: float, scopes: Collection[str]) -> str:
        with changing(self._path, self._lock_path, ROWS) as rows:
            return _add(rows, kind, valid_s, scopes)

    def _current(self) -> Mapping[str, Any]:
        if (found := _identity(self._path)) != self._read_from:
            self._rows, self._read_from = rows_in(self._path, ROWS), found
        return self._rows


def page_address(mcp_address: str, key: str) -> str:
    """The key is in the fragment, which browsers send to no server: no log and no proxy sees it."""
    return f"{mcp_address.removesuffix('mcp')}#key={key}"


def _add(rows: dict[str, Any], kind: Kind, valid_s: float, scopes: Collection[str]) -> str:
    for digest in [digest for digest, row in rows.items() if not _is_valid(row)]:
        del rows[digest]
    plain = secrets.token_urlsafe(32)
    rows[_digest(plain)] = {
        "kind": kind,
        "scopes": [scope for scope in SCOPES if scope in scopes],
        "until": time.time() + valid_s,
    }
    return plain


def _is_valid(row: Any, kind: Kind | None = None) -> bool:
    try:
        return (kind is None or row["kind"] == kind) and bool(time.time() < row["until"])
    except (KeyError, TypeError):
        return False


def _digest(plain: str) -> str:
    return hashlib.sha256(plain.encode(errors="surrogatepass")).hexdigest()


def _identity(path: str) -> tuple[int, ...] | None:
    """Every change gives the file another inode."""
    try:
        info = os.stat(path)
    except OSError:
        return None
    return info.st_ino, info.st_mtime_ns, info.st_size

"""Who is logged in to the page: one-time keys and logins, in the home.

    logins.json   mode 0600: {"format": 1, "logins": {SHA-256: {"kind": "key" or "login", "scopes": [...], ...}}}

A person gets an address with a key; their browser exchanges the key for a login, once, and keeps that in a
cookie. Only hashes are stored. They outlive the server: an open page goes on after its server was killed.

Other users can read the arguments of a browser. So a browser that is started is given a file, mode 0600, that
leads to the address. The row of the key has its path, and the file is removed with the row.
"""

import base64
import contextlib
import hashlib
import hmac
import json
import os
import secrets
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bgjob.core.scopes import SCOPES
from bgjob.home.layout import LOGINS, LOGINS_LOCK
from bgjob.store.row_file import changing, identity, rows_in

ROWS = "logins"
KEY_S = 600.0
LOGIN_S = 30 * 86400.0
HANDED = "bgjob-page-"
"""Prefix of the names of files that hold a key."""
LEADING_TO = """\
<!doctype html><meta charset="utf-8"><title>bgjob</title>
<p>This page needs JavaScript.</p>
<script>location.replace(%s)</script>
"""

Kind = Literal["key", "login"]

LABEL_CHARACTERS = 8


@dataclass(frozen=True)
class Login:
    sha256: str
    own: str
    """Below which path its cookie is sent."""
    scopes: frozenset[str]

    @property
    def label(self) -> str:
        """The name of this login in the audit trail."""
        return self.own[:LABEL_CHARACTERS]


class Logins:
    """As the file says at the moment: all servers of a home know the same ones."""

    def __init__(self, home: str) -> None:
        self.home = home
        self._path, self._lock_path = os.path.join(home, LOGINS), os.path.join(home, LOGINS_LOCK)
        # one value, as several threads ask
        self._read: tuple[tuple[int, ...] | None, Mapping[str, Any]] = None, {}

    def add_key(self, scopes: Collection[str] = tuple(SCOPES), *, file: str | None = None) -> str:
        """Add a key to exchange for a login once, within ten minutes. `file`: a file with it, which is removed then."""
        with changing(self._path, self._lock_path, ROWS) as rows:
            return _add(rows, "key", KEY_S, scopes, **({"file": file} if file else {}))

    def exchange(self, key: str) -> str | None:
        """The login that a key is exchanged for; None: it was used, is too old, or never was one.

        A guess takes no lock and writes nothing.
        """
        if not _is_valid(self._current().get(_digest(key)), "key"):
            return None
        with changing(self._path, self._lock_path, ROWS) as rows:
            row = _removed(rows, _digest(key))
            return _add(rows, "login", LOGIN_S, row["scopes"]) if _is_valid(row, "key") else None

    def matching(self, plain: str, own: str) -> Login | None:
        """The login, if `own` is its own path."""
        row = self._current().get(digest := _digest(plain), {})
        if not _is_valid(row, "login") or not hmac.compare_digest(own_path(plain).encode(), own.encode()):
            return None
        return Login(digest, own, frozenset(map(str, row["scopes"])))

    def is_known(self, login: Login) -> bool:
        return _is_valid(self._current().get(login.sha256), "login")

    def remove(self, login: Login) -> None:
        with changing(self._path, self._lock_path, ROWS) as rows:
            rows.pop(login.sha256, None)

    def remove_all(self) -> int:
        """How many were logged in. Keys that are not used yet are gone as well."""
        with changing(self._path, self._lock_path, ROWS) as rows:
            count = sum(_is_valid(row, "login") for row in rows.values())
            for digest in list(rows):
                _removed(rows, digest)
        return count

    def _current(self) -> Mapping[str, Any]:
        found, (read_from, rows) = identity(self._path), self._read
        if found != read_from:
            rows = rows_in(self._path, ROWS)
            self._read = found, rows
        return rows


def own_path(plain: str) -> str:
    """A login's part of the path; who knows it does not know the login."""
    return base64.urlsafe_b64encode(hashlib.sha256(f"path {plain}".encode()).digest()).decode()[:22]


def keyed(address: str, key: str) -> str:
    """The key is in the fragment, which browsers send to no server: no log and no proxy sees it."""
    return f"{address}#key={key}"


def hand_over(path: str, address: str) -> None:
    """Write the file that leads a browser to this address. FileExistsError: another one is there already."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(fd, "w", encoding="utf-8") as file:
        file.write(LEADING_TO % json.dumps(address).replace("<", "\\u003c"))


def _removed(rows: dict[str, Any], digest: str) -> Any:
    row = rows.pop(digest, {})
    file = row.get("file") if isinstance(row, dict) else None
    if isinstance(file, str) and os.path.basename(file).startswith(HANDED):
        with contextlib.suppress(OSError):
            os.unlink(file)
    return row


def _add(rows: dict[str, Any], kind: Kind, valid_s: float, scopes: Collection[str], **more: object) -> str:
    for digest in [digest for digest, row in rows.items() if not _is_valid(row)]:
        _removed(rows, digest)
    plain = secrets.token_urlsafe(32)
    rows[_digest(plain)] = {
        "kind": kind,
        "scopes": [scope for scope in SCOPES if scope in scopes],
        "until": time.time() + valid_s,
        **more,
    }
    return plain


def _is_valid(row: Any, kind: Kind | None = None) -> bool:
    """A row that cannot be read lets no browser in."""
    try:
        is_of_kind = kind is None or row["kind"] == kind
        return is_of_kind and isinstance(row["scopes"], list) and bool(time.time() < row["until"])
    except (KeyError, TypeError):
        return False


def _digest(plain: str) -> str:
    return hashlib.sha256(plain.encode(errors="surrogatepass")).hexdigest()

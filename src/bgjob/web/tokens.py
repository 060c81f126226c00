"""The file of tokens: who may use the HTTP server, and what each may do.

    tokens.json   in the home, mode 0600: {"format": 1, "tokens": {name: {"sha256": ..., "scopes": [...], ...}}}
    tokens.lock   held by the process that changes it

Only the hash of a token is stored: the token itself is shown once, when it is made. All servers of a home know
the same tokens, and see a change at their next request.
"""

import contextlib
import hashlib
import hmac
import os
import re
import secrets
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bgjob.core.errors import InvalidArgument
from bgjob.core.scopes import SCOPES
from bgjob.home.layout import TOKENS, TOKENS_LOCK
from bgjob.store.row_file import changing, identity, rows_in

DEFAULT = "default"
NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
ROWS = "tokens"


@dataclass(frozen=True)
class Rules:
    """What jobs get that are started with a token."""

    cwd: str | None = None
    env: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Token:
    name: str
    sha256: str
    scopes: frozenset[str]
    rules: Rules
    created_at: float


def environment_under(rules: Rules, environ: Mapping[str, str]) -> dict[str, str]:
    """As if the server had been started so: also a setting of bgjob may be among the variables."""
    place = {"MCP_BG_WORKING_DIR": rules.cwd} if rules.cwd else {}
    return {**environ, **dict(rules.env), **place}


class Tokens:
    """The tokens of a home, as the file says at the moment."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.path = os.path.join(home, TOKENS)
        self._lock_path = os.path.join(home, TOKENS_LOCK)
        self._read_from: tuple[int, ...] | None = None
        self._tokens: Sequence[Token] = ()

    def all(self) -> Sequence[Token]:
        """In the order in which they were added."""
        if (found := identity(self.path)) != self._read_from:
            self._tokens = _tokens_in(rows_in(self.path, ROWS))
            self._read_from = found
        return self._tokens

    def matching(self, plain: str) -> Token | None:
        """Compares with every token, each in constant time: how long it takes tells nothing of them."""
        digest, found = _digest(plain), None
        for token in self.all():
            if hmac.compare_digest(token.sha256, digest):
                found = token
        return found

    def add(self, name: str, scopes: Collection[str] = tuple(SCOPES), rules: Rules | None = None) -> str:
        """The token, which is not stored and cannot be shown again."""
        _check_name(name)
        with self._changing() as stored:
            if name in stored:
                advice = f"bgjob token remove {name} first, or choose another name."
                raise InvalidArgument(f"There is a token named {name} already.", advice)
            plain = f"bgjob_{secrets.token_urlsafe(32)}"
            stored[name] = _row(plain, scopes, rules or Rules())
        return plain

    def add_first(self) -> str | None:
        """The token of a home that had none; None if it has one already."""
        with contextlib.suppress(InvalidArgument):
            return None if self.all() else self.add(DEFAULT)
        return None

    def remove(self, name: str) -> None:
        with self._changing() as stored:
            if name not in stored:
                raise InvalidArgument(
                    f"There is no token named {name!r}.", "bgjob token list shows those that exist."
                )
            del stored[name]

    def _changing(self) -> "contextlib.AbstractContextManager[dict[str, Any]]":
        """The rows of the file, which are written when the block ends well."""
        return changing(self.path, self._lock_path, ROWS)


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise InvalidArgument(
            f"{name!r} is no name for a token.", "Use 1 to 64 letters, digits, dots, dashes and underscores."
        )


def _digest(plain: str) -> str:
    return hashlib.sha256(plain.encode(errors="surrogateescape")).hexdigest()


def _row(plain: str, scopes: Collection[str], rules: Rules) -> dict[str, Any]:
    return {
        "sha256": _digest(plain),
        "scopes": [scope for scope in SCOPES if scope in scopes],
        "cwd": rules.cwd,
        "env": dict(rules.env),
        "created_at": time.time(),
    }


def _tokens_in(rows: Mapping[str, Any]) -> Sequence[Token]:
    return [token for name, row in rows.items() if (token := _token(name, row))]


def _token(name: str, row: Any) -> Token | None:
    """None: it cannot be read, and lets no client in."""
    try:
        rules = Rules(row["cwd"], tuple(sorted(row["env"].items())))
        return Token(name, str(row["sha256"]), frozenset(row["scopes"]), rules, float(row["created_at"]))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None

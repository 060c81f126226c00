"""Who may ask, other than the page: bgjob.web.page.guard. The checks, in their order: the first that fails answers.

    421  Host      is none of this server's names: a page of another site, whose name leads here (DNS rebinding)
    403  Origin    is there, and not this server itself: a page of another site
         /healthz  is open from here on
    401  token     is missing or unknown; also where there is nothing at the path, so that nothing is learnt of it
    404  path      there is nothing here
    405  method    the path has others: Allow names them
    403  scope     the token lacks a right: WWW-Authenticate names it; for /mcp, once its message has been read

Then come the checks of the endpoint itself: bgjob.web.mcp_endpoint.
"""

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from bgjob.api.audit import acting, note
from bgjob.web.metrics import Meters
from bgjob.web.tokens import Token, Tokens

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]/@]+)(:[0-9]+)?")
OPEN_PATHS = frozenset({"/healthz"})
REFUSALS = {401: "login or token", 403: "origin or scope", 421: "host"}
REALM = 'Bearer realm="bgjob"'
NO_TOKEN = "This server needs a token: send the header `Authorization: Bearer TOKEN`. bgjob token add NAME makes one."
WRONG_TOKEN = "This token is not known here, or was removed. bgjob token add NAME makes a new one."


class Refused(HTTPException):
    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(status, message, {name.replace("_", "-"): text for name, text in headers.items()})


class Head(NamedTuple):
    """Of a request, all that access depends on."""

    hosts: Sequence[str]
    origins: Sequence[str]
    scheme: str
    authorizations: Sequence[str]
    arrived_at: str | None
    """The address of ours that the client has connected to."""

    @classmethod
    def of(cls, scope: Scope) -> "Head":
        server = scope.get("server")
        address = server[0] if server and server[1] is not None else None
        return cls(
            values(scope, b"host"),
            values(scope, b"origin"),
            scope["scheme"],
            values(scope, b"authorization"),
            f"[{address}]" if address and ":" in address else address,
        )


class Access:
    """Lets pass what may ask, and says in the scope which token it has."""

    def __init__(self, app: ASGIApp, tokens: Tokens, meters: Meters, names: Collection[str]) -> None:
        """`names`: as those of `check_host`."""
        self._app, self._tokens, self._meters, self._names = app, tokens, meters, names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self  # starlette then raises its 404 and 405
        try:
            self._check(scope, Head.of(scope))
            await self._app(scope, receive, send)
        except HTTPException as refused:
            self._meters.refused(refused.status_code)
            note_refused(self._tokens.home, scope, refused.status_code)
            await refusal(refused, has_body=has_body(scope))(scope, receive, send)

    def _check(self, scope: Scope, head: Head) -> None:
        check_host(head, self._names)
        check_origin(head, self._names)
        if scope["path"] not in OPEN_PATHS:
            scope["state"]["token"] = token = self._token(head)
            with acting({"client": "http", "token": token.name}):
                note(self._tokens.home, "token_used")

    def _token(self, head: Head) -> Token:
        if not head.authorizations:
            raise Refused(401, NO_TOKEN, WWW_Authenticate=REALM)
        scheme, _, plain = head.authorizations[0].partition(" ")
        is_usable = len(head.authorizations) == 1 and scheme.lower() == "bearer"
        token = self._tokens.matching(plain.strip()) if is_usable else None
        if token is None:
            raise Refused(401, WRONG_TOKEN, WWW_Authenticate=f'{REALM}, error="invalid_token"')
        return token


def note_refused(home: str, scope: Scope, status: int) -> None:
    """Note a refusal for lack of rights. A wrong path or method is only a mistake."""
    if status not in REFUSALS:
        return
    peer, who = scope.get("client") or ("unix socket",), _credentials(scope)
    unknown = {} if who else {"uid": None}  # our own uid would be that of the wrong user
    with acting({"client": "http", **who}):
        note(home, "refused", why=REFUSALS[status], address=str(peer[0]), **unknown)


def note_refused_user(home: str, uid: int) -> None:
    """Note that connections of another user are closed."""
    with acting({"client": "http"}):
        note(home, "refused", why="user", uid=uid)


def _credentials(scope: Scope) -> dict[str, str]:
    """Return the token or the login of a request, for the audit trail; empty if it has none that is valid."""
    state = scope["state"]
    if "login" in state:
        return {"client": "page", "login": state["login"].label}
    return {"token": state["token"].name} if "token" in state else {}


def refusal(problem: HTTPException, *, has_body: bool) -> PlainTextResponse:
    """A body that may not have been read ends the connection. Else the client may go on with it."""
    closing = {"Connection": "close"} if has_body else {}
    headers = {**closing, "Cache-Control": "no-store", **(problem.headers or {})}
    return PlainTextResponse(f"{problem.detail}\n", problem.status_code, headers)


def has_body(scope: Scope) -> bool:
    return values(scope, b"content-length") not in ([], ["0"]) or bool(values(scope, b"transfer-encoding"))


def check_host(head: Head, names: Collection[str]) -> None:
    """With any port: it may have been forwarded.

    `names`: by which the server may be called besides those of this machine, in small letters.
    """
    name = _name(head) if len(head.hosts) == 1 else None
    if name is None or name not in {*LOOPBACK_NAMES, *names, head.arrived_at}:
        raise Refused(
            421, "This server does not go by this Host. bgjob serve --allow-host NAME gives it another name."
        )


def check_origin(head: Head, names: Collection[str]) -> None:
    """Streamable HTTP, Security & Endpoint. Only browsers send it; ours is the Host that was asked.

    By one of `names` a proxy may call us that its clients reach over TLS, while we are asked without.
    """
    if not head.origins:
        return
    scheme, _, authority = head.origins[0].lower().partition("://")
    schemes = {head.scheme, "https"} if _name(head) in names else {head.scheme}
    if len(head.origins) > 1 or scheme not in schemes or authority != head.hosts[0].lower():
        raise Refused(403, "Pages of other sites may not use this server.")


def _name(head: Head) -> str | None:
    """The Host without its port."""
    whole = AUTHORITY.fullmatch(head.hosts[0].lower())
    return whole[1] if whole else None


def check_scope(token: Token, scope: str) -> None:
    if scope not in token.scopes:
        raise Refused(403, needed_scope(scope), WWW_Authenticate=challenge(scope))


def needed_scope(scope: str) -> str:
    return f"This needs a token with the scope {scope}."


def challenge(scope: str) -> str:
    """RFC 6750, 3.1."""
    return f'{REALM}, error="insufficient_scope", scope="{scope}"'


def values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]

"""Who may ask for the page. The checks, in their order: the first that fails answers, as JSON.

    421  Host            is none of this server's names: a page of another site, whose name leads here (DNS rebinding)
    403  Origin          is there, and not this server itself: a page of another site, or of another port
                         the files of the page are open from here on: they know nothing
    403  Sec-Fetch-Site  the browser says that another page asks, or leads here, or for a POST no page at all
    403  Origin          a POST without one: browsers send it
    403  X-Bgjob         a POST without it: a form of another page cannot send a header
    415  Content-Type    a POST that is not JSON: a form can send three other types
    401  login           its cookie and its path are missing, or do not belong together; /api/login needs none
    404  path            there is nothing here
    405  method          the path has others: Allow names them
    403  scope           the login lacks a right
    413, 408, 400        the body is too large, too slow, or no JSON object

A cookie knows no port: a browser sends it to every server of this machine, and each of them can set one of the
same name. So the cookie of a login is for a path of its own, /api/OWN/..., which the browser keeps for pages of
this port alone (localStorage). What is asked at /api/OWN/lines is routed as /api/lines.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import Message, Receive, Scope, Send

from bgjob.mcp.stderr import report
from bgjob.protocol.jsonrpc import encoded
from bgjob.web.access import Head, Refused, check_host, check_origin, has_body, note_refused, values
from bgjob.web.metrics import Meters
from bgjob.web.page import files
from bgjob.web.page.logins import LOGIN_S, Login, Logins

API = "/api/"
LOGIN_PATH = f"{API}login"
COOKIE = "bgjob"
HEADER = b"x-bgjob"
HEADERS: Mapping[str, str] = {
    **files.HEADERS,
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}
NOT_LOGGED_IN = "This browser is not logged in, or not any more. bgjob page gives you a new address."
OTHER_PAGE = "Only the page of this server may ask this."
SAID = {
    404: "There is nothing here.",
    405: "This path has other methods, which the header Allow names.",
    500: "Internal error; the server's log has the details.",
}
"""Of what is not refused by our own words."""


def is_of_page(path: str) -> bool:
    return path.startswith(API) or files.is_file(path)


class Guard:
    """Lets pass what may ask, and says in the scope which login it has. Every answer has the headers of the page."""

    def __init__(
        self, routes: Sequence[Route], logins: Logins, meters: Meters, names: Collection[str]
    ) -> None:
        """`names`: as those of `check_host`."""
        self._app = Router(routes, redirect_slashes=False)
        self._logins, self._meters, self._names = logins, meters, names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self  # starlette then raises its 404 and 405
        answer = Answer(send, files.HEADERS if files.is_file(scope["path"]) else HEADERS)
        try:
            self._check(scope, Head.of(scope))
            await self._app(scope, receive, answer.send)
        except ClientDisconnect:
            pass
        except HTTPException as refused:
            self._meters.refused(refused.status_code)
            note_refused(self._logins.home, scope, refused.status_code)
            await refusal(refused, scope)(scope, receive, answer.send)
        except Exception:
            report(f"Internal error in {scope['method']} {scope['path']}")
            if answer.has_begun:
                raise  # only the end of the connection can tell it
            await refusal(HTTPException(500), scope)(scope, receive, answer.send)

    def _check(self, scope: Scope, head: Head) -> None:
        check_host(head, self._names)
        check_origin(head, self._names)
        if not files.is_file(scope["path"]):
            check_page(scope, head)
            if scope["path"] != LOGIN_PATH:
                scope["path"], scope["state"]["login"] = self._login(scope)

    def _login(self, scope: Scope) -> tuple[str, Login]:
        """What is asked of the login, and the login."""
        own, _, rest = scope["path"].removeprefix(API).partition("/")
        for plain in cookies(scope):
            if login := self._logins.matching(plain, own):
                return f"{API}{rest}", login
        raise Refused(401, NOT_LOGGED_IN)


class Answer:
    """Adds the headers that it does not have by itself."""

    def __init__(self, send: Send, headers: Mapping[str, str]) -> None:
        self._send, self._headers = send, headers
        self.has_begun = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_begun = True
            own = {name.lower() for name, _ in message["headers"]}
            added = ((name.lower().encode(), text.encode()) for name, text in self._headers.items())
            message["headers"] = [*message["headers"], *(each for each in added if each[0] not in own)]
        await self._send(message)


def refusal(problem: HTTPException, scope: Scope) -> Response:
    """A body that may not have been read ends the connection. Else the browser may go on with it."""
    closing = {"Connection": "close"} if has_body(scope) else {}
    headers = {"Cache-Control": "no-store", **closing, **(problem.headers or {})}
    said = problem.detail if isinstance(problem, Refused) else SAID.get(problem.status_code, problem.detail)
    return Response(encoded({"error": said}), problem.status_code, headers, media_type="application/json")


def check_page(scope: Scope, head: Head) -> None:
    """Whether it comes from the page itself. A GET may also be typed into the address bar."""
    is_post = scope["method"] == "POST"
    asked_by = values(scope, b"sec-fetch-site")
    if asked_by not in ([], ["same-origin"]) and (asked_by != ["none"] or is_post):
        raise Refused(403, OTHER_PAGE)
    if is_post and (not head.origins or values(scope, HEADER) != ["1"]):
        raise Refused(403, OTHER_PAGE)
    if is_post and values(scope, b"content-type") != ["application/json"]:
        raise Refused(415, "Send JSON, with Content-Type: application/json.")


def cookies(scope: Scope) -> Iterator[str]:
    """All of our name: servers of other ports can set some."""
    for header in values(scope, b"cookie"):
        for pair in header.split(";"):
            name, _, value = pair.strip().partition("=")
            if name == COOKIE:
                yield value


def cookie(scope: Scope, plain: str, own: str, valid_s: float = LOGIN_S) -> str:
    """For its own path alone; over TLS also if only a proxy has that, of which the Origin tells."""
    secure = "; Secure" if values(scope, b"origin")[0].lower().startswith("https:") else ""
    limits = f"Path={API}{own}; HttpOnly; SameSite=Strict; Max-Age={valid_s:.0f}"
    return f"{COOKIE}={plain}; {limits}{secure}"

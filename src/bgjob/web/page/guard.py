"""Which requests may be of the page. The checks, in their order, after Host and Origin; the first that fails answers.

    403  Sec-Fetch-Site  the browser says that another page asks, also one of another port of this machine
    403  Origin          a POST without one: browsers send it
    403  X-Bgjob         a POST without it: a form of another page cannot send a header
    415  Content-Type    a POST that is not JSON: a form can send three other types
    401  cookie          no login

A cookie knows no port: every server of this machine is sent ours. So it alone proves nothing.
"""

from collections.abc import Sequence
from http.cookies import CookieError, SimpleCookie

from starlette.types import Scope

from bgjob.web.access import Refused, values
from bgjob.web.page.logins import LOGIN_S, Login, Logins

API = "/api/"
LOGIN_PATH = "/api/login"
HEADER = "x-bgjob"
NOT_LOGGED_IN = "This browser is not logged in, or not any more. bgjob page gives you a new address."
OTHER_PAGE = "Only the page of this server may ask this."


def is_of_page(path: str) -> bool:
    return path.startswith(API)


def check_request(scope: Scope, logins: Logins) -> Login | None:
    """The login that it has; None: it is about to log in."""
    sites = values(scope, b"sec-fetch-site")
    if sites not in ([], ["same-origin"]) and (sites != ["none"] or scope["method"] != "GET"):
        raise Refused(403, OTHER_PAGE)
    if scope["method"] == "POST":
        _check_post(scope)
    login = logins.matching(login_in(scope))
    if login is None and scope["path"] != LOGIN_PATH:
        raise Refused(401, NOT_LOGGED_IN)
    return login


def _check_post(scope: Scope) -> None:
    if not values(scope, b"origin") or values(scope, HEADER.encode()) != ["1"]:
        raise Refused(403, OTHER_PAGE)
    if values(scope, b"content-type") != ["application/json"]:
        raise Refused(415, "Send JSON, with Content-Type: application/json.")


def cookie_name(scope: Scope) -> str:
    """With the port, which a cookie itself does not know: two servers of a machine have two logins."""
    return f"bgjob-{_port(values(scope, b'host'), scope['scheme'])}"


def _port(hosts: Sequence[str], scheme: str) -> str:
    _, colon, port = hosts[0].rpartition(":")
    return port if colon and port.isdecimal() else {"https": "443"}.get(scheme, "80")


def login_in(scope: Scope) -> str:
    cookies: SimpleCookie = SimpleCookie()
    try:
        cookies.load("; ".join(values(scope, b"cookie")))
    except CookieError:
        return ""
    found = cookies.get(cookie_name(scope))
    return found.value if found else ""


def cookie(scope: Scope, login: str, *, valid_s: float = LOGIN_S) -> str:
    secure = "; Secure" if scope["scheme"] == "https" else ""
    return (
        f"{cookie_name(scope)}={login}; Path=/api; HttpOnly; SameSite=Strict; Max-Age={valid_s:.0f}{secure}"
    )

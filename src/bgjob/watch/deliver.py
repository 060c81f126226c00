"""Delivers one notice, as a process of its own: what hangs is killed with it.

    stdin        a request: JSON, see Request
    exit code    0: delivered; 1: not, and stderr says why in one line

The request comes by stdin because all users can see arguments, and a URL or a header may be a secret. Only
the standard library is imported.
"""

import html
import http.client
import json
import os
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NoReturn, TypedDict
from urllib.parse import SplitResult, urljoin, urlsplit

if TYPE_CHECKING:
    from bgjob.core.notify import NotifyRule

PROGRAM_S = 8.0
ANSWER_S = 10.0
PAUSES_S = (0.5, 2.0, 8.0)
MOST_REDIRECTS = 3
# With another method than ours, or to an answer that is elsewhere: not to be followed by a POST.
REDIRECTS = (301, 302, 307, 308)
TOO_MANY_REQUESTS = 429
ON_A_MAC = sys.platform == "darwin"
MAC_SCRIPT = (
    *("-e", "on run argv"),
    *("-e", "display notification (item 3 of argv) with title (item 1 of argv) subtitle (item 2 of argv)"),
    *("-e", "end run"),
)


class Request(TypedDict):
    way: str
    target: str
    terminal_ctime_ns: int
    headers: dict[str, str]
    environment: dict[str, str]
    title: str
    body: str
    payload: dict[str, object]


class Undeliverable(Exception):
    """The message says why, in one line."""


class NotNow(Exception):
    """The same, and another try may succeed."""


def main() -> NoReturn:
    try:
        deliver(json.load(sys.stdin.buffer))
    except Undeliverable as why:
        print(why, file=sys.stderr)
        sys.exit(1)
    sys.exit(0)


def deliver(request: Request) -> None:
    WAYS[request["way"]](request)


def check(rule: "NotifyRule") -> None:
    """Undeliverable: what can be seen without sending anything is not as it must be."""
    if rule.way == "desktop":
        desktop(rule.environment)
    elif rule.way == "bell" and rule.target:
        os.close(_open_again(rule.target, rule.terminal_ctime_ns))


# -- desktop ------------------------------------------------------------------------------------------


def _show(request: Request) -> None:
    command, environment = desktop(request["environment"])
    text = [request["title"], request["body"]]
    arguments = [*MAC_SCRIPT, "bgjob", *text] if ON_A_MAC else ["--", text[0], _as_markup(text[1])]
    try:
        done = subprocess.run(
            [command, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=PROGRAM_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Undeliverable(f"{command} did not end within {PROGRAM_S:.0f} s") from None
    except (OSError, ValueError) as why:
        raise Undeliverable(f"{command} could not be run: {why}") from None
    if done.returncode:
        raise Undeliverable(
            f"{command} failed with {done.returncode}: {done.stderr.decode(errors='replace').strip()}"
        )


def desktop(kept: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The program that shows a notification, and its environment."""
    name = "osascript" if ON_A_MAC else "notify-send"
    program = shutil.which(name, path=kept.get("PATH"))
    if program is None:
        package = "" if ON_A_MAC else "; it is in the package libnotify-bin or libnotify"
        raise Undeliverable(f"{name} is not on the PATH{package}")
    return program, dict(kept) if ON_A_MAC else {**kept, "DBUS_SESSION_BUS_ADDRESS": _session_bus(kept)}


def _session_bus(kept: Mapping[str, str]) -> str:
    """The address that was kept may be that of an earlier login: most systems have one for all logins."""
    address, common = kept.get("DBUS_SESSION_BUS_ADDRESS", ""), f"/run/user/{os.getuid()}/bus"
    path = address.removeprefix("unix:path=").partition(",")[0]
    if address and (path == address or os.path.exists(path)):
        return address
    if os.path.exists(common):
        return f"unix:path={common}"
    raise Undeliverable("there is no session bus: is the user logged in to a desktop?")


def _as_markup(text: str) -> str:
    """Plain text for notify-send: it reads tags and entities, and escapes with a backslash before them."""
    return html.escape(text, quote=False).replace("\\", "\\\\")


# -- bell ---------------------------------------------------------------------------------------------


def _ring(request: Request) -> None:
    fd = _open_again(request["target"], request["terminal_ctime_ns"])
    try:
        os.write(fd, b"\a")
    except OSError as why:
        raise Undeliverable(f"{request['target']} cannot be written: {why.strerror}") from None
    finally:
        os.close(fd)


def terminal_ctime_ns(path: str) -> int:
    """When this terminal of the user was made. Undeliverable: it is none."""
    fd = _open_terminal(path)
    try:
        return os.fstat(fd).st_ctime_ns
    finally:
        os.close(fd)


def _open_again(path: str, ctime_ns: int) -> int:
    """To write to. Another terminal that has the name by now may be that of a job: it is left alone."""
    fd = _open_terminal(path)
    if os.fstat(fd).st_ctime_ns != ctime_ns:
        os.close(fd)
        raise Undeliverable(f"{path} is another terminal now; run bgjob notify add bell in yours")
    return fd


def _open_terminal(path: str) -> int:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError) as why:
        raise Undeliverable(f"{path} cannot be opened: {getattr(why, 'strerror', why)}") from None
    problem = ""
    if not os.isatty(fd):
        problem = "is no terminal"
    elif os.fstat(fd).st_uid != os.getuid():
        problem = "is the terminal of another user"
    if problem:
        os.close(fd)
        raise Undeliverable(f"{path} {problem}")
    return fd


# -- webhook ------------------------------------------------------------------------------------------


def _post(request: Request) -> None:
    """Tried again where the host cannot be reached, or says that it has trouble of its own."""
    for pause_s in (*PAUSES_S, None):
        try:
            return _post_once(request, request["target"], MOST_REDIRECTS)
        except NotNow as why:
            if pause_s is None:
                raise Undeliverable(f"{why}, {len(PAUSES_S) + 1} times") from None
        time.sleep(pause_s)


def _post_once(request: Request, url: str, redirects_left: int) -> None:
    status, location = _answer(request, urlsplit(url))
    if status in REDIRECTS and location:
        there = urljoin(url, location)
        if not is_same_host(urlsplit(url), urlsplit(there)):
            raise Undeliverable(f"it answered {status}: it sends us to another host, which is not followed")
        if redirects_left == 0:
            raise Undeliverable(f"it answered {status} more than {MOST_REDIRECTS} times")
        return _post_once(request, there, redirects_left - 1)
    if status == TOO_MANY_REQUESTS or status >= 500:
        raise NotNow(f"it answered {status}")
    if not 200 <= status < 300:
        raise Undeliverable(f"it answered {status}")


def _answer(request: Request, url: SplitResult) -> tuple[int, str | None]:
    """Its status, and where it redirects us to."""
    connection = _connected(url)
    try:
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        connection.request("POST", path, json.dumps(request["payload"]).encode(), _headers(request))
        answer = connection.getresponse()
        return answer.status, answer.getheader("location")
    except TimeoutError:  # not tried again: it may have taken the notice
        raise Undeliverable(f"it did not answer within {ANSWER_S:.0f} s") from None
    except OSError as why:
        raise NotNow(f"the connection broke ({why})") from None
    except http.client.HTTPException as why:
        raise Undeliverable(f"it does not speak HTTP ({type(why).__name__})") from None
    finally:
        connection.close()


def _connected(url: SplitResult) -> http.client.HTTPConnection:
    make = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    try:
        connection = make(url.hostname or "", url.port, timeout=ANSWER_S)
        connection.connect()
    except ssl.SSLCertVerificationError as why:
        raise Undeliverable(f"its certificate is not accepted: {why.verify_message}") from None
    except OSError as why:
        raise NotNow(f"it cannot be reached ({why.strerror or why})") from None
    except (ValueError, http.client.HTTPException) as why:
        raise Undeliverable(f"it is no URL that can be called ({why})") from None
    return connection


def _headers(request: Request) -> dict[str, str]:
    """Those of the rule replace ours, however they are written."""
    own = {"Content-Type": "application/json", "User-Agent": "bgjob"}
    given = {name.lower() for name in request["headers"]}
    return {name: value for name, value in own.items() if name.lower() not in given} | request["headers"]


def is_same_host(here: SplitResult, there: SplitResult) -> bool:
    """The same server, or the same name with TLS instead of without: the headers may be sent there."""
    try:
        is_same_server = (here.scheme, here.hostname, here.port) == (there.scheme, there.hostname, there.port)
        ports = (here.port or 80, there.port or 443)
    except ValueError:
        return False
    is_upgrade = (here.scheme, there.scheme, here.hostname, ports) == (
        "http",
        "https",
        there.hostname,
        (80, 443),
    )
    return is_same_server or is_upgrade


WAYS: Mapping[str, Callable[[Request], None]] = {"desktop": _show, "bell": _ring, "webhook": _post}

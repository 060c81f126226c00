"""bgjob page: the page of a running `bgjob serve`, in the browser, logged in."""

import argparse
import contextlib
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from urllib.parse import quote

from bgjob.api.context import Context, open_context
from bgjob.cli import streams
from bgjob.cli.browser import BROWSER_NOTE, open_in_browser
from bgjob.cli.chosen import job_meant
from bgjob.cli.token import SCOPES_SHOWN
from bgjob.core.errors import BgjobError
from bgjob.core.scopes import SCOPES

EPILOG = f"""\
The address logs one browser in, once, within ten minutes; the browser stays logged in for 30 days, on every server
of this store. {BROWSER_NOTE.rstrip()}

Other users can read the arguments of a browser, so it is given a file that only you can read, bgjob-page-….html in
your home directory, which leads it to the address and is removed when the browser has logged in. A browser that
cannot read that file, e.g. one on another machine, can be given the printed address instead.

  bgjob page                              the list of all jobs
  bgjob page tests                        the job named tests
  bgjob page --print --scope read         an address for a browser that may only look
  bgjob page --address https://jobs.example.com --print           the server is behind a proxy

{SCOPES_SHOWN}
"""


class NoServer(BgjobError):
    def __init__(self) -> None:
        super().__init__(
            "No server of this store runs that a browser could open.",
            "bgjob serve starts one; --address URL names one that is reached in another way.",
        )


class NotHandedOver(BgjobError):
    def __init__(self, problem: Exception) -> None:
        super().__init__(
            f"No browser could be opened: {problem}", "Open the printed address in one yourself."
        )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--print", action="store_true", help="only print the address")
    parser.add_argument(
        "--scope",
        action="append",
        choices=SCOPES,
        help="what the browser may do; may be repeated (default: all)",
    )
    parser.add_argument(
        "--address",
        type=_address,
        metavar="URL",
        help="of the server, e.g. of a proxy before it (default: the server that was started last)",
    )
    parser.add_argument("--forget", action="store_true", help="log out all browsers, and do nothing else")
    parser.add_argument(
        "id", nargs="?", metavar="ID", help="a job to show: the beginning of its id, or its name"
    )


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    context = open_context(environ, many=False)
    if options.forget:
        return _forget(context)
    from bgjob.web.page.logins import Logins, hand_over, keyed

    address = f"{options.address or _running(context)}{_view(context, options.id)}"
    streams.check_stdout()
    file = None if options.print else _new_file(environ, context)
    with_key = keyed(address, Logins(context.store.home).add_key(options.scope or list(SCOPES), file=file))
    streams.say(with_key)
    if file:
        with _kept_only_if_opened(file):
            hand_over(file, with_key)
            open_in_browser(f"file://{quote(file)}")
    return 0


@contextlib.contextmanager
def _kept_only_if_opened(file: str) -> Iterator[None]:
    try:
        yield
    except (OSError, BgjobError) as problem:
        with contextlib.suppress(OSError):
            os.unlink(file)
        raise NotHandedOver(problem) from None


def _new_file(environ: Mapping[str, str], context: Context) -> str:
    """Return a path that a browser can read. In a sandbox (snap, flatpak) it sees no hidden directory and no /tmp."""
    from bgjob.web.page.logins import HANDED

    own = environ.get("HOME", "")
    directory = own if os.path.isabs(own) and os.access(own, os.W_OK) else context.store.home
    return os.path.join(directory, f"{HANDED}{secrets.token_hex(8)}.html")


def _forget(context: Context) -> int:
    from bgjob.web.page.logins import Logins

    count = Logins(context.store.home).remove_all()
    done = f"{count} {'browser' if count == 1 else 'browsers'} logged out"
    streams.tell(done, done=done)
    return 0


def _running(context: Context) -> str:
    from bgjob.web.servers import newest_address

    address = newest_address(context.store.home)
    if address is None:
        raise NoServer
    return address


def _view(context: Context, word: str | None) -> str:
    return "/" if word is None else f"/?job={job_meant(context, word).id}"


def _address(text: str) -> str:
    """Without a path: the page is at the top of its server."""
    if not re.fullmatch(r"https?://[^\s/?#@\\]+/?", text, re.IGNORECASE):
        raise argparse.ArgumentTypeError(f"{text!r} is no address. Accepted: e.g. https://jobs.example.com")
    return text.removesuffix("/")

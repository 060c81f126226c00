"""bgjob page: the page of a running `bgjob serve`, in the browser, logged in."""

import argparse
import os
import re
from collections.abc import Mapping

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
    from bgjob.web.page.logins import Logins, keyed

    address = f"{options.address or _running(context)}{_view(context, options.id)}"
    streams.check_stdout()
    # The arguments of a browser can be seen by other users. Behind a proxy it cannot be known who asks.
    user = None if options.print or options.address else os.getuid()
    with_key = keyed(address, Logins(context.store.home).add_key(options.scope or list(SCOPES), user))
    streams.say(with_key)
    if not options.print:
        open_in_browser(with_key)
    return 0


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

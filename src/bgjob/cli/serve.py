"""bgjob serve: MCP over HTTP, and the page."""

import argparse
import os
from collections.abc import Mapping

from bgjob.cli import streams

PORT = 7878
EPILOG = """\
Clients send the header `Authorization: Bearer TOKEN`. The first start makes a token and shows it, once; bgjob token
adds and removes others. Jobs and clients of other servers on the same store are the same ones. For people there is
a page of all jobs: bgjob page opens it in the browser.

  bgjob serve                                             this machine, this user only
  bgjob serve --unix ~/.bgjob.sock                        the same, without a port
  bgjob serve --host 0.0.0.0 --tls-cert c.pem --tls-key k.pem --allow-host jobs.example.com
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="default: 127.0.0.1")
    parser.add_argument("--port", type=_port, default=PORT, metavar="N", help=f"default: {PORT}; 0: any")
    parser.add_argument("--unix", metavar="PATH", help="a unix socket (mode 0600) instead of an address")
    parser.add_argument("--tls-cert", metavar="FILE", help="serve HTTPS with this certificate (PEM)")
    parser.add_argument("--tls-key", metavar="FILE", help="... and its key")
    parser.add_argument(
        "--insecure-network",
        action="store_true",
        help="let other machines connect without TLS: what is sent can be read on the way, the tokens too",
    )
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a name by which clients may call this server, e.g. behind a proxy; may be repeated",
    )
    parser.add_argument(
        "--allow-other-users",
        action="store_true",
        help="let other users of this machine connect, e.g. a proxy that runs as www-data; by default only processes "
        "of this user and root can. Anyone with a stolen token or browser cookie can then run commands as this "
        "user, and any user can use up all connections",
    )
    parser.add_argument("--metrics", action="store_true", help="numbers for Prometheus, at /metrics")


def run(options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    if bool(options.tls_cert) != bool(options.tls_key):
        streams.complain("--tls-cert and --tls-key belong together: give both, or neither.")
        return 2
    from bgjob.web.server import Options, serve

    serve(
        environ,
        Options(
            host=options.host,
            port=options.port,
            unix=os.path.expanduser(options.unix) if options.unix else None,
            tls_cert=options.tls_cert,
            tls_key=options.tls_key,
            insecure_network=options.insecure_network,
            allow_other_users=options.allow_other_users,
            metrics=options.metrics,
            names=options.allow_host,
        ),
        streams.note,
    )
    return 0


def _port(text: str) -> int:
    if not 0 <= (number := int(text)) <= 65535:
        raise ValueError
    return number

"""A server with TLS, and its clients."""

import contextlib
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.support.http_server import HttpServer

SELF_SIGNED = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"


@contextlib.contextmanager
def tls_server(directory: Path, first: str = "") -> Iterator[tuple[HttpServer, ssl.SSLContext]]:
    """Needs openssl. `first`: statements as of HttpServer."""
    cert, key = directory / "cert.pem", directory / "key.pem"
    named = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(["openssl", *SELF_SIGNED.split(), *named], check=True, capture_output=True)
    arguments = "--tls-cert", str(cert), "--tls-key", str(key)
    with HttpServer(directory / "home", *arguments, first=first) as server:
        yield server, ssl.create_default_context(cafile=str(cert))

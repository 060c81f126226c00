"""Put pip into an environment that was made without it: python get_pip.py LOCK

Debian ships ensurepip apart from the interpreter, in python3-venv. Where that is missing, the wheel of pip comes
from the package index, in the version and with one of the hashes of the lock file.
"""

import configparser
import hashlib
import io
import os
import re
import sys
import sysconfig
import urllib.parse
import urllib.request
import zipfile
from pathlib import Path

PYPI = "https://pypi.org/simple"
CONFIGURED = ("/etc/pip.conf", "~/.pip/pip.conf", "~/.config/pip/pip.conf")
TIMEOUT_S = 60


def index() -> str:
    files = configparser.RawConfigParser()
    files.read([Path(path).expanduser() for path in CONFIGURED])
    configured = files.get("global", "index-url", fallback=PYPI)
    return os.environ.get("PIP_INDEX_URL", configured).rstrip("/")


def wheel(version: str) -> bytes:
    page = f"{index()}/pip/"
    links = re.findall(r'href="([^"#]+)', fetch(page).decode())
    name = f"pip-{version}-py3-none-any.whl"
    return fetch(urllib.parse.urljoin(page, next(link for link in links if link.endswith(name))))


def fetch(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
        content: bytes = answer.read()
    return content


def main(lock: str) -> None:
    locked = Path(lock).read_text()
    content = wheel(re.findall(r"^pip==(\S+)", locked, re.MULTILINE)[0])
    if hashlib.sha256(content).hexdigest() not in re.findall(r"sha256:(\w+)", locked):
        sys.exit(f"the pip of {index()} is not the one of {lock}")
    zipfile.ZipFile(io.BytesIO(content)).extractall(sysconfig.get_path("purelib"))


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except (OSError, StopIteration) as error:
        sys.exit(f"pip cannot be downloaded from {index()}: {error or 'not there'}")

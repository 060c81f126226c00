"""What the last output of a failed job tells, if it is something to which we can add a fact."""

import re

_IN_USE = re.compile(
    r"EADDRINUSE|address already in use|port (?:\d+ )?is (?:already )?(?:in use|allocated|taken)|"
    r"only one usage of each socket address|bind: .*in use",
    re.IGNORECASE,
)
_PORT = re.compile(r"(?:port[ =:]*|:::|[\w\])]:|\()(\d{2,5})\b", re.IGNORECASE)


def port_in_use(last_words: str) -> int | None:
    """The port that a server could not have, if the text complains of that."""
    for line in reversed(last_words.splitlines()):
        if _IN_USE.search(line):
            ports = [int(text) for text in _PORT.findall(line) if int(text) <= 65535]
            return ports[-1] if ports else None
    return None

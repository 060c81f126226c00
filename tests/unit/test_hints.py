"""Which port a server could not have, by its last words and its command."""

import pytest

from bgjob.api.hints import ports_in_question

NODE = """\
Error: listen EADDRINUSE: address already in use 127.0.0.1:3000
    at Server.setupListenHandle [as _listen2] (node:net:1817:16)
  code: 'EADDRINUSE',
  errno: -98,
  syscall: 'listen',
  address: '127.0.0.1',
  port: 3000
}
"""
PYTHON = "OSError: [Errno 98] Address already in use\n"


@pytest.mark.parametrize(
    ("last_words", "command", "ports"),
    [
        (NODE, "node server.js 4000", {3000}),
        ("Error: Port 5173 is already in use\n", "vite", {5173}),
        (PYTHON, "python3 -m http.server 8000", {8000}),
        (PYTHON, "uvicorn app:app --port=8000 --host 127.0.0.1", {8000}),
        (PYTHON, "PORT=8000 python3.11 serve.py :8001", {8000, 8001}),
        (PYTHON, "python3 serve.py 99999 v1.25 a42", set()),
        (PYTHON, " ".join(map(str, range(100, 200))), set()),
        ("all is well\n", "serve --port 8000", set()),
    ],
)
def test_the_port_is_read_from_the_message_or_else_from_the_command(
    last_words: str, command: str, ports: set[int]
) -> None:
    assert ports_in_question(last_words, command) == ports

"""`codex app-server`, which its editors talk to: it tells what its other commands do not."""

import contextlib
import json
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.clients import packages

LIMIT_S = 400
"""Ends what hangs: an answer takes a few seconds."""
HELLO = [
    {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "bgjob-tests", "version": "1"}}},
    {"method": "initialized"},
]


def app_server_answer(
    method: str, params: dict[str, Any], cwd: Path, environment: Mapping[str, str]
) -> dict[str, Any]:
    """Its stdin stays open until it has answered: at the end of stdin it leaves."""
    with (
        subprocess.Popen(
            [*packages.program("codex"), "app-server"],
            cwd=cwd,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as codex,
        ended_after(codex, LIMIT_S),
    ):
        assert codex.stdin
        assert codex.stdout
        requests = [*HELLO, {"id": 2, "method": method, "params": params}]
        codex.stdin.write("".join(json.dumps(request) + "\n" for request in requests))
        codex.stdin.flush()
        answers = (json.loads(line) for line in codex.stdout)
        result: dict[str, Any] = next(answer["result"] for answer in answers if answer.get("id") == 2)
        codex.stdin.close()
        return result


@contextlib.contextmanager
def ended_after(process: subprocess.Popen[str], limit_s: float) -> Iterator[None]:
    timer = threading.Timer(limit_s, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()

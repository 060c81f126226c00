"""Programs that are run: a client's own commands, and a server as the client starts it."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence

from bgjob.clients.table import Client

RUN_S = 120
START_S = 30
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "bgjob client check", "version": "1"},
    },
}


def run_client(client: Client, arguments: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """What went wrong, if anything."""
    program = program_of(client, environ)
    if program is None:
        return f"{client.title} is not installed: there is no {client.program} on PATH."
    try:
        done = _ended([program, *arguments], environ.get("HOME", ""))
    except subprocess.TimeoutExpired:
        return f"{client.program} did not end within {RUN_S} seconds, and was killed."
    except OSError as problem:
        return f"{program} could not be run: {problem.strerror}."
    if done.returncode:
        return f"{client.program} failed with exit code {done.returncode}: {done.stdout.strip()[:1000]}"
    return None


def program_of(client: Client, environ: Mapping[str, str]) -> str | None:
    return shutil.which(client.program, path=environ.get("PATH"))


def _ended(command: list[str], home: str) -> subprocess.CompletedProcess[str]:
    """In the home: some clients change the files of a project that they are run in."""
    return subprocess.run(
        command,
        cwd=home if os.path.isdir(home) else None,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        timeout=RUN_S,
        check=False,
    )


class DoesNotStart(Exception):
    pass


def name_and_version(command: Sequence[str], env: Mapping[str, str], cwd: str | None) -> str:
    """What the server calls itself."""
    stdout, stderr = _spoken(command, env, cwd)
    for line in stdout.splitlines():
        if info := _server_info(line):
            return f"{info.get('name')} {info.get('version')}"
    last = next((line for line in reversed(stderr.splitlines()) if line.strip()), "it said nothing")
    raise DoesNotStart(f"it gave no answer: {last.strip()[:300]}")


def _spoken(command: Sequence[str], env: Mapping[str, str], cwd: str | None) -> tuple[str, str]:
    """What it writes before it ends, as it must when its stdin ends."""
    try:
        process = subprocess.Popen(
            command,
            env=env,
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
    except OSError as problem:
        raise DoesNotStart(problem.strerror) from problem
    try:
        return process.communicate(json.dumps(INITIALIZE) + "\n", START_S)
    except subprocess.TimeoutExpired:
        raise DoesNotStart(f"it gave no answer within {START_S} seconds") from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def _server_info(line: str) -> dict[str, object] | None:
    try:
        info = json.loads(line)["result"]["serverInfo"]
    except (ValueError, KeyError, TypeError):
        return None
    return info if isinstance(info, dict) else None

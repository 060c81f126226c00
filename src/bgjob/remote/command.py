"""Runs a command of a cluster, here or on its login node, and gives up on it in time."""

import asyncio
import contextlib
import os
import shlex
import signal
from collections.abc import Mapping, Sequence

from bgjob.core.frozen import Frozen

# Login shells print, too: what a command prints comes after this line.
MARK = "\1bgjob"
AFTER_MARK = ("sh", "-c", f'printf "\\n{MARK}\\n"; exec "$@"', "sh")


class Done(Frozen):
    code: int
    out: str
    err: str


class Commands:
    """`login`: what runs a command line on the login node, e.g. ssh with its options; empty: it is this machine."""

    def __init__(self, login: Sequence[str] = (), environ: Mapping[str, str] | None = None) -> None:
        self._login, self._environ = login, environ

    def argv(self, *command: str) -> list[str]:
        """To run it from here. A login node hands one line to a shell of the user's: quoted, it is the same words."""
        return [*self._login, shlex.join(command)] if self._login else [*command]

    async def run(self, *command: str, stdin: bytes = b"", within_s: float) -> Done:
        """TimeoutError: it has not ended in time, and has been killed. OSError: it cannot be run."""
        process = await asyncio.create_subprocess_exec(
            *self.argv(*(AFTER_MARK if self._login else ()), *command),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._environ,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(within_s):
                out, err = await process.communicate(stdin)
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # with what it has started, e.g. by a shell
                await process.wait()
        return Done(process.returncode or 0, _own(out.decode(errors="replace")), err.decode(errors="replace"))


def _own(text: str) -> str:
    return text.rpartition(f"\n{MARK}\n")[2]

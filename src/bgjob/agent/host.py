"""What this machine is, and has."""

import contextlib
import os
import shutil
import sys
from collections.abc import Mapping
from typing import Any

from bgjob import __version__
from bgjob.system import processes

ASK_S = 5.0
GPU_WORDS = ("name", "memory.total", "memory.used", "utilization.gpu")
MIB = 1 << 20
# Of the connection that has brought us, which jobs outlive. A bash that finds them takes itself for one that was
# started by ssh, and runs ~/.bashrc before its command.
CONNECTION = ("SSH_CLIENT", "SSH2_CLIENT", "SSH_CONNECTION", "SSH_TTY")


def hello(home: str) -> dict[str, Any]:
    """The first line of an agent."""
    return {
        "hello": 1,
        "version": __version__,
        "host": os.environ.get("SLURMD_NODENAME") or os.uname().nodename,
        "boot_id": processes.boot_id(),
        "python": ".".join(map(str, sys.version_info[:3])),
        "home": home,
        "pid": os.getpid(),
    }


def own_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """What jobs have of the environment of an agent."""
    return {name: value for name, value in environ.items() if name not in CONNECTION}


def facts() -> dict[str, Any]:
    """What is not known is None."""
    memory = _memory()
    return {
        "cpus": _cpus(),
        "load": _load(),
        "memory_bytes": memory.get("MemTotal"),
        "memory_available_bytes": memory.get("MemAvailable"),
        "gpus": _gpus(),
    }


def _cpus() -> int | None:
    """Those that we may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _load() -> list[float] | None:
    with contextlib.suppress(OSError):
        return [round(each, 2) for each in os.getloadavg()]
    return None


def _memory() -> dict[str, int]:
    lines = (processes.read_if_there("/proc/meminfo") or b"").decode().splitlines()
    return {name: int(rest.split()[0]) << 10 for name, _, rest in (line.partition(":") for line in lines)}


def _gpus() -> list[dict[str, Any]] | None:
    """None: there is nobody to ask."""
    asked = shutil.which("nvidia-smi")
    if asked is None:
        return None
    import subprocess

    argv = [asked, f"--query-gpu={','.join(GPU_WORDS)}", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(
            argv, capture_output=True, text=True, timeout=ASK_S, check=True, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return [_gpu(line) for line in answer.stdout.splitlines() if line.count(",") == len(GPU_WORDS) - 1]


def _gpu(line: str) -> dict[str, Any]:
    name, total, used, busy = (part.strip() for part in line.split(","))
    return {
        "name": name,
        "memory_bytes": int(total) * MIB if total.isdecimal() else None,
        "memory_used_bytes": int(used) * MIB if used.isdecimal() else None,
        "busy_percent": int(busy) if busy.isdecimal() else None,
    }

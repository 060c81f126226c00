"""What the kernel and the environment offer: the part of `doctor` that needs no home."""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping

from bgjob.api.activity import can_ask_for_listeners
from bgjob.api.results import Check
from bgjob.api.spec import SMALLEST_SHELL
from bgjob.system import cgroup, processes
from bgjob.system.inotify import Inotify

LIMITS = {cgroup.MEMORY: "memory", cgroup.PROCESSES: "processes", cgroup.CPU: "cpu"}
DELEGATE = (
    "Start bgjob where control groups are delegated, e.g. by systemd-run --user --scope -p Delegate=yes."
)


def checks(environ: Mapping[str, str]) -> Iterator[Check]:
    yield _pidfd()
    yield _subreaper()
    yield _splice()
    yield _inotify()
    yield _control_groups()
    yield _proc()
    yield _sock_diag()
    yield _shell(environ)
    yield _locale(environ)
    yield _terminal(environ)


def _pidfd() -> Check:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (OSError, AttributeError):
        return Check(
            "pidfd", "degraded", "none: ends are seen by looking, and pids are not pinned", _newer("5.3")
        )
    return Check("pidfd", "ok", "ends of processes are seen at once, and only ours are signalled")


def _subreaper() -> Check:
    if not processes.adopt_orphans():  # of this process alone, which ends soon
        found = "none: processes that leave a job are not seen, and no guard replaces a killed shim"
        return Check("subreaper", "degraded", found, _newer("3.4"))
    return Check("subreaper", "ok", "no process leaves its job, and a guard replaces a killed shim")


def _splice() -> Check:
    if not hasattr(os, "splice"):
        found = "none: a shim copies output, and what it holds is lost if it is killed"
        return Check("splice", "degraded", found, _newer("2.6.17"))
    return Check("splice", "ok", "output goes to the log without a copy that could be lost")


def _newer(kernel: str) -> str:
    return f"Needs Linux {kernel} or newer." if processes.LINUX else "Only Linux has it."


def _inotify() -> Check:
    inotify = Inotify()
    is_available = inotify.is_available
    inotify.close()
    if is_available:
        return Check("inotify", "ok", "waits wake when something happens")
    found = "none, or no more for this user: waits look ten times a second"
    return Check("inotify", "degraded", found, "Raise fs.inotify.max_user_instances by sysctl.")


def _control_groups() -> Check:
    enforced = cgroup.enforceable()
    others = [word for kind, word in LIMITS.items() if kind not in enforced]
    if not others:
        return Check("control groups", "ok", "the kernel holds jobs to their limits exactly")
    found = f"none for {', '.join(others)}: such limits are held by looking, so that a job exceeds them for a moment"
    return Check("control groups", "degraded", found, DELEGATE)


def _proc() -> Check:
    if not processes.read_if_there("/proc/self/stat"):
        found = "cannot be read: processes, CPU, memory and ports of jobs are not known"
        return Check("/proc", "degraded", found, "Mount it.")
    try:
        with open("/proc/self/syscall", "rb") as file:
            file.read()
    except OSError:
        return Check("/proc", "degraded", "tells no system calls: prompts are found less surely")
    return Check("/proc", "ok", "tells what processes do, and whether one waits for input")


def _sock_diag() -> Check:
    if can_ask_for_listeners():
        return Check("sock_diag", "ok", "the ports of jobs are found at once")
    return Check(
        "sock_diag", "degraded", "none: the ports of jobs are read from /proc/net, which takes longer"
    )


def _shell(environ: Mapping[str, str]) -> Check:
    if found := shutil.which("bash", path=environ.get("PATH")):
        return Check("shell", "ok", f"jobs run by {found}")
    if os.access(SMALLEST_SHELL, os.X_OK):
        found = f"no bash on PATH: jobs run by {SMALLEST_SHELL}, which does not know all that bash does"
        return Check("shell", "degraded", found, "Install bash.")
    return Check("shell", "broken", f"neither bash nor {SMALLEST_SHELL}", "Install bash.")


def _locale(environ: Mapping[str, str]) -> Check:
    name = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or "C"
    if name.lower().replace("-", "").endswith("utf8"):
        return Check("locale", "ok", name)
    found = f"{name} is not UTF-8: programs in jobs may print ? for letters"
    return Check("locale", "degraded", found, "Set LANG, e.g. to C.UTF-8.")


def _terminal(environ: Mapping[str, str]) -> Check:
    if not os.isatty(1):
        return Check("terminal", "ok", "none here")
    import curses

    name = environ.get("TERM", "")
    try:
        curses.setupterm(name, 1)
    except curses.error:
        advice = "Set TERM to what this terminal is, or install its terminfo entry."
        return Check("terminal", "degraded", f"TERM={name} is not known: bgjob top cannot be shown", advice)
    size = os.get_terminal_size(1)
    return Check("terminal", "ok", f"{name}, {size.columns}x{size.lines}, {sys.stdout.encoding}")

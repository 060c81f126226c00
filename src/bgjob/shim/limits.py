"""What a job may use, and its end when it uses more.

    memory, processes, cpu      by the kernel's groups where one can be made, else by looking at the tree
    open files, file size       by the kernel, per process; so is CPU time, in case the shim is killed
    output, silence             by the shim, which sees all of it

`limits.json` tells readers which of these is at work. Only zygotes and shims of jobs with limits import this
module.
"""

from __future__ import annotations

import math
import os
import signal
import time

from bgjob.home import event_log, jobdir
from bgjob.shim.cause import Cause
from bgjob.shim.events import EVENTS
from bgjob.shim.limited_child import Bounds
from bgjob.system import cgroup, processes
from bgjob.system.cgroup import CPU, MEMORY, PROCESSES
from bgjob.system.processes import TICKS_PER_S

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from bgjob.home.jobdir import Record
    from bgjob.shim.child import Exit
    from bgjob.shim.loop import Loop
    from bgjob.system.cgroup import Group

    EndBy = Callable[[Cause, int, float], None]

GRACE_S = 5.0
OPEN_FILES, FILE_SIZE, SILENCE = "open_files", "file_bytes", "silence_s"
NAMES = {MEMORY: "memory", FILE_SIZE: "file_size"}  # as a caller says them, where the spec does not
WORDS = {MEMORY: "memory", PROCESSES: "processes", CPU: "cpu"}  # as the outcome says them
RUN_AWAY = ("memory", "processes")  # these would grow further during a grace
NEAR = 0.8
LOOK_MIN_S, LOOK_NEAR_S, WATCHED_S, LOOK_MAX_S = 0.02, 0.1, 0.25, 1.0
SHARE_OF_TIME = 20  # looking takes at most one part in so many of the time
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
CPU_TICKS, WAITED_TICKS, TASKS, PAGES = slice(11, 15), slice(13, 15), 17, 21  # places in /proc/<pid>/stat


class Limits:
    def __init__(self, spec: Record, loop: Loop, end_by: EndBy) -> None:
        self._job_id, self._loop, self._end_by = spec["id"], loop, end_by
        self._most = {kind: most for kind, most in spec.get("limits", {}).items() if kind != "cgroup"}
        self._may_group = bool(spec.get("limits", {}).get("cgroup", 1))
        self._most_output = spec["max_output_bytes"] if spec.get("on_output_limit") == "stop" else None
        self._groups: dict[str, Group] = {}
        self._told: set[str] = set()
        self._hit: set[str] = set()
        self._peak_bytes, self._spent_s = 0, 0.0
        self._ncpu = os.cpu_count() or 1
        self._began = time.monotonic()

    # -- before it runs, and after ------------------------------------------------------------------

    def around(self, start: Callable[[Bounds | None], int]) -> int:
        """Start the job within its limits. For each start, groups are made and recorded anew before it."""
        self._hit, self._told, self._peak_bytes = set(), set(), 0
        self._remove_groups_left()
        self._make_groups()
        self._began = time.monotonic()
        self._spent_s = 0.0
        self._spent_s = self._used().get(CPU, 0.0)
        self._record()
        bounds = Bounds(self._rlimits(), sorted({group.processes_file for group in self._groups.values()}))
        try:
            pid = start(bounds if bounds.rlimits or bounds.join else None)
        except (OSError, ValueError):
            self.close()
            raise
        if bounds.not_joined:  # without a group the limit is held by looking at the tree
            self._keep_groups(lambda _, group: group.processes_file not in bounds.not_joined)
            self._record()
        return pid

    def resume(self, cause: str | None) -> None:
        """Go on with limits that a killed shim has set. Without its record all groups count as in use."""
        if limit := Cause(cause or "").limit:
            self._hit.add(limit)
        self._make_groups()
        record = jobdir.read_record(jobdir.LIMITS) or {}
        by = record.get("limited_by", {})
        self._keep_groups(lambda kind, _: "cgroup" in by.get(NAMES.get(kind, kind), "cgroup"))

    def close(self) -> None:
        for directory in {group.directory for group in self._groups.values()}:
            cgroup.remove(directory)

    def _remove_groups_left(self) -> None:
        """Groups of an earlier start, which have counted what that start has used."""
        cgroup.remove_left((jobdir.read_record(jobdir.LIMITS) or {}).get("groups"), self._job_id)

    def _make_groups(self) -> None:
        self._groups = cgroup.make_groups(self._job_id, self._most) if self._may_group else {}

    def _keep_groups(self, is_kept: Callable[[str, Group], bool]) -> None:
        kept = {kind: group for kind, group in self._groups.items() if is_kept(kind, group)}
        for directory in {g.directory for g in self._groups.values()} - {g.directory for g in kept.values()}:
            cgroup.remove(directory, tries=1)
        self._groups = kept

    def _rlimits(self) -> list[tuple[str, int, int]]:
        """CPU time is counted for each process, and a bit above the limit: mostly the shim is earlier."""
        asked = []
        if (files := self._most.get(OPEN_FILES)) is not None:
            asked.append(("RLIMIT_NOFILE", int(files), int(files)))
        if (size_bytes := self._most.get(FILE_SIZE)) is not None:
            asked.append(("RLIMIT_FSIZE", int(size_bytes), int(size_bytes)))
        if (cpu_s := self._most.get(CPU)) is not None:
            soft_s = math.ceil(cpu_s) + 1
            asked.append(("RLIMIT_CPU", soft_s, soft_s + int(GRACE_S)))
        return asked

    def _record(self) -> None:
        directories = sorted({group.directory for group in self._groups.values()})
        record = {
            "format": jobdir.FORMAT_VERSION,
            "limited_by": self._limited_by(),
            "groups": directories,
        }
        try:
            jobdir.write_record(jobdir.LIMITS, record)
        except OSError:
            pass  # a full disk: the limits hold all the same

    def _limited_by(self) -> dict[str, str]:
        by = {NAMES.get(kind, kind): self._mechanism(kind) for kind in self._most}
        return by if self._most_output is None else {**by, "output": "watched"}

    def _mechanism(self, kind: str) -> str:
        if kind in (OPEN_FILES, FILE_SIZE):
            return "rlimit"
        watched = "watched" if processes.LINUX or kind in (SILENCE, PROCESSES) else "none"
        seen_by = "cgroup" if kind in self._groups else watched
        return f"{seen_by}+rlimit" if kind == CPU else seen_by

    # -- while it runs ------------------------------------------------------------------------------

    def watch(self, last_output_at: Callable[[], float], is_running: Callable[[], bool]) -> None:
        """Processes that an ended job leaves behind have the same limits, except that they may be silent."""
        self._last_output_at, self._is_running = last_output_at, is_running
        if any(kind in WORDS for kind in self._most):
            self._look()
        if SILENCE in self._most:
            self._listen()

    def on_output(self, printed_bytes: int) -> None:
        if self._most_output is None:
            return
        self._consider_near("output", printed_bytes, self._most_output)
        if printed_bytes > self._most_output:
            self._end("output", printed_bytes, self._most_output)

    def _listen(self) -> None:
        silent_s = time.monotonic() - max(self._last_output_at(), self._began)
        left_s = self._most[SILENCE] - silent_s
        if left_s <= 0 and self._is_running():
            self._end("silence", round(silent_s, 1), self._most[SILENCE])
        again_s = left_s if left_s > 0 else self._most[SILENCE]  # it may be run again
        self._loop.call_later(again_s, self._listen)

    def _look(self) -> None:
        began = time.monotonic()
        used = self._used()
        for kind, amount in used.items():
            self._judge(kind, amount)
        took_s = time.monotonic() - began
        self._loop.call_later(max(self._next_look_s(used), SHARE_OF_TIME * took_s), self._look)

    def _used(self) -> dict[str, float]:
        watched = [kind for kind in WORDS if kind in self._most and kind not in self._groups]
        used = {kind: group.used(kind) for kind, group in self._groups.items()}
        if watched:
            tree = Tree(self._most.get(PROCESSES, math.inf))
            used |= {kind: tree.used(kind, self._most) for kind in watched}
        self._peak_bytes = max(self._peak_bytes, int(used.get(MEMORY, 0)))
        if CPU in used:
            used[CPU] -= self._spent_s
        return used

    def _judge(self, kind: str, used: float) -> None:
        most, group = self._most[kind], self._groups.get(kind)
        self._consider_near(WORDS[kind], used, most)
        if kind == CPU:
            if used >= most:
                self._end("cpu", round(used, 2), most)
        elif (group.refusals(kind) > 0) if group else (used > most):
            self._end(WORDS[kind], used, most)

    def _next_look_s(self, used: dict[str, float]) -> float:
        """Soon if a limit is near, or could be reached soon."""
        delay_s = LOOK_MAX_S if len(self._groups) == len(used) else WATCHED_S
        for kind, amount in used.items():
            if kind == CPU:
                delay_s = min(delay_s, max(LOOK_MIN_S, (self._most[CPU] - amount) / self._ncpu))
            elif amount >= NEAR * self._most[kind]:
                delay_s = min(delay_s, LOOK_NEAR_S)
        return delay_s

    def _consider_near(self, word: str, used: float, most: float) -> None:
        if used >= NEAR * most and word not in self._told:
            self._told.add(word)
            event_log.append(EVENTS, "limit_near", self._job_id, limit=word, used=used, of=most)

    def _end(self, word: str, used: float, most: float) -> None:
        """Once for each limit. With a grace, unless memory or processes would grow during it."""
        if word in self._hit:
            return
        self._hit.add(word)
        event_log.append(EVENTS, "limit_hit", self._job_id, limit=word, used=used, of=most)
        if word in RUN_AWAY:
            self._end_by(Cause.over_limit(word), signal.SIGKILL, 0.0)
        else:
            self._end_by(Cause.over_limit(word), signal.SIGTERM, GRACE_S)

    # -- at its end ---------------------------------------------------------------------------------

    def end_by_kernel(self, dead: Exit) -> None:
        """The kernel ends one process for a limit; we end all of the job."""
        if word := self._kernels_limit(dead):
            kind = next(kind for kind in (*WORDS, FILE_SIZE) if WORDS.get(kind, "file_size") == word)
            self._end(word, self._most[kind], self._most[kind])

    def _kernels_limit(self, dead: Exit) -> str | None:
        """The limit for which the kernel ended this process, if it did."""
        if dead.exit_code == 0:
            return None
        for kind, group in self._groups.items():
            if group.refusals(kind) > 0:
                return WORDS[kind]
        by = dead.signal or (dead.exit_code or 0) - 128  # a shell reports a signal to its last command so
        if by == signal.SIGXFSZ and FILE_SIZE in self._most:
            return "file_size"
        if CPU in self._most and (by == signal.SIGXCPU or (by == signal.SIGKILL and self._cpu_is_used_up())):
            return "cpu"
        return None

    def _cpu_is_used_up(self) -> bool:
        return bool(self._used().get(CPU, 0.0) >= self._most[CPU])

    def peak_memory_bytes(self) -> int | None:
        group = self._groups.get(MEMORY)
        return (group.peak_memory_bytes() if group else None) or self._peak_bytes or None


class TooManyProcesses(Exception):
    """More than the limit: the rest need not be counted."""


class Tree:
    """What our descendants use. Parents are looked at first: no child's CPU time is counted twice."""

    def __init__(self, most_processes: float) -> None:
        self._pids: list[int] = []
        self._most = most_processes
        try:
            processes.descendants(os.getpid(), self._see)
        except TooManyProcesses:
            pass  # a fork bomb grows faster than it can be counted
        own = processes.stat_of(os.getpid())
        self._stats = [processes.stat_of(pid) for pid in self._pids]
        self._ticks = sum(own[WAITED_TICKS])  # of the orphans that we have reaped

    def _see(self, pid: int) -> None:
        self._pids.append(pid)
        if len(self._pids) > self._most:
            raise TooManyProcesses

    def used(self, kind: str, most: dict[str, float]) -> float:
        if kind == MEMORY:
            return self._memory_bytes(most[MEMORY])
        if kind == PROCESSES:
            return sum(max(1, stat[TASKS]) for stat in self._stats)
        return (self._ticks + sum(sum(stat[CPU_TICKS]) for stat in self._stats)) / TICKS_PER_S

    def _memory_bytes(self, most: float) -> int:
        """Resident pages count shared ones in each process: a sum above the limit is measured exactly."""
        resident = sum(stat[PAGES] for stat in self._stats) * PAGE_BYTES
        if resident <= most:
            return resident
        return sum(map(_memory_of, self._pids, self._stats))


def _memory_of(pid: int, stat: list[int]) -> int:
    share = processes.pss_bytes(pid) if stat[PAGES] else 0
    return stat[PAGES] * PAGE_BYTES if share is None else share

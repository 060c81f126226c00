"""A job's control groups, of version 2 or of version 1: made, read and removed.

Each limit belongs to a controller, and a controller to one hierarchy: of version 1 if it has one there, else
of version 2. In version 1 a job's group is made below our own group. In version 2 a group that has processes
cannot hand out controllers, so a job's group is made in the nearest group above that hands them out. A group
above that limits memory is never left that way; a limit on processes is copied. In the allocation of an engine
none is made. The shim imports this module.
"""

from __future__ import annotations

import os
import time

from bgjob.system.allocation import Allocation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Tops = Mapping[str, tuple[str, str]]
    """By controller ("": version 2): the top of its hierarchy as we see it, and our own group in it."""

MEMORY, PROCESSES, CPU = "memory_bytes", "processes", "cpu_s"
CONTROLLERS = {MEMORY: "memory", PROCESSES: "pids", CPU: "cpuacct"}
PREFIX = "bgjob-"
NANOSECONDS, MICROSECONDS = 1e9, 1e6
TRIES, TRY_AGAIN_S = 50, 0.002
# Characters that a JSON record would have to quote.
QUOTED = '"\\'


class Group:
    """One directory."""

    def __init__(self, directory: str, version: int) -> None:
        self.directory, self._version = directory, version

    @property
    def processes_file(self) -> str:
        """A process that writes "0" into this file is moved into the group."""
        return f"{self.directory}/cgroup.procs"

    def limit(self, kind: str, most: float) -> None:
        if kind == MEMORY:
            self._limit_memory(int(most))
        elif kind == PROCESSES:
            _write(f"{self.directory}/pids.max", int(most))

    def used(self, kind: str) -> float:
        """Memory without caches that the kernel would free at once; tasks; or seconds of CPU."""
        if kind == MEMORY:
            name = "memory.usage_in_bytes" if self._version == 1 else "memory.current"
            cache = "total_inactive_file" if self._version == 1 else "inactive_file"
            return max(0, self._number(name) - self._entry("memory.stat", cache))
        if kind == PROCESSES:
            return self._number("pids.current")
        if self._version == 1:
            return self._number("cpuacct.usage") / NANOSECONDS
        return self._entry("cpu.stat", "usage_usec") / MICROSECONDS

    def refusals(self, kind: str) -> int:
        """How often the kernel killed a process for lack of memory, or refused to fork one."""
        if kind == MEMORY:
            return self._entry("memory.oom_control" if self._version == 1 else "memory.events", "oom_kill")
        return self._entry("pids.events", "max") if kind == PROCESSES else 0

    def peak_memory_bytes(self) -> int | None:
        # A kernel before 5.19 does not tell.
        return self._number("memory.max_usage_in_bytes" if self._version == 1 else "memory.peak") or None

    def _limit_memory(self, most: int) -> None:
        if self._version == 1:
            _write(f"{self.directory}/memory.limit_in_bytes", most)
            _write_if_there(f"{self.directory}/memory.memsw.limit_in_bytes", most)
        else:
            _write(f"{self.directory}/memory.max", most)
            _write_if_there(f"{self.directory}/memory.swap.max", 0)
            _write_if_there(f"{self.directory}/memory.oom.group", 1)

    def _number(self, name: str) -> int:
        text = _read(f"{self.directory}/{name}").strip()
        return int(text) if text.isdigit() else 0

    def _entry(self, name: str, key: str) -> int:
        for line in _read(f"{self.directory}/{name}").splitlines():
            word, _, number = line.partition(" ")
            if word == key:
                return int(number)
        return 0


def make_groups(job_id: str, limits: Mapping[str, float], tops: Tops | None = None) -> dict[str, Group]:
    """The group that enforces each limit, as far as the system lets us. A second call finds the same."""
    if Allocation.is_ours:
        return {}
    tops = find_tops() if tops is None else tops
    wanted = [kind for kind in CONTROLLERS if kind in limits]
    in_one = {kind: limits[kind] for kind in wanted if CONTROLLERS[kind] not in tops}
    groups = _in_version_2(job_id, in_one, tops[""]) if in_one and "" in tops else {}
    for kind in wanted:
        if kind not in in_one:
            directory = f"{tops[CONTROLLERS[kind]][1]}/{PREFIX}{job_id}"
            groups |= _make(Group(directory, 1), {kind: limits[kind]})
    return groups


def kills_for_memory(tops: Tops | None = None) -> int:
    """How often the kernel has killed a process of our own group for lack of memory; 0 if it does not tell."""
    tops = find_tops() if tops is None else tops
    here, version = (tops["memory"][1], 1) if "memory" in tops else (tops.get("", ("", ""))[1], 2)
    return Group(here, version).refusals(MEMORY)


def enforceable(tops: Tops | None = None) -> list[str]:
    """The limits for which the kernel lets us make a group. Makes none."""
    tops = find_tops() if tops is None else tops
    return [kind for kind, controller in CONTROLLERS.items() if _is_enforceable(kind, controller, tops)]


def _is_enforceable(kind: str, controller: str, tops: Tops) -> bool:
    if controller in tops:
        return os.access(tops[controller][1], os.W_OK)
    return "" in tops and _place(*tops[""], set() if kind == CPU else {controller}) is not None


def _in_version_2(job_id: str, limits: Mapping[str, float], top: tuple[str, str]) -> dict[str, Group]:
    """One group for all limits; failing that, for those that some place above can enforce."""
    for kinds in (list(limits), [MEMORY, CPU], [PROCESSES, CPU]):
        some = {kind: limits[kind] for kind in kinds if kind in limits}
        place = _place(*top, {CONTROLLERS[kind] for kind in some if kind != CPU}) if some else None
        if place is not None:
            directory, most_processes = place
            bounded = dict(some)
            if most_processes is not None:
                bounded[PROCESSES] = min(most_processes, limits.get(PROCESSES, most_processes))
            groups = _make(Group(f"{directory}/{PREFIX}{job_id}", 2), bounded)
            return {kind: group for kind, group in groups.items() if kind in some}
    return {}


def _place(top: str, here: str, controllers: set[str]) -> tuple[str, int | None] | None:
    """Where a group with these controllers can be made, and the limit on processes to copy there."""
    most_processes: int | None = None
    while not (controllers <= _handed_out(here) and os.access(here, os.W_OK)):
        if here == top or _is_a_number(_read(f"{here}/memory.max")):
            return None
        if _is_a_number(bound := _read(f"{here}/pids.max")):
            most_processes = min(int(bound), most_processes or int(bound))
        here = os.path.dirname(here)
    if most_processes is not None and "pids" not in _handed_out(here):
        return None
    return here, most_processes


def _handed_out(directory: str) -> set[str]:
    return set(_read(f"{directory}/cgroup.subtree_control").split())


def _make(group: Group, limits: Mapping[str, float]) -> dict[str, Group]:
    try:
        try:
            os.mkdir(group.directory)
        except FileExistsError:
            pass  # made by the shim before us
        for kind, most in limits.items():
            group.limit(kind, most)
    except OSError:
        remove(group.directory, tries=1)
        return {}
    return dict.fromkeys(limits, group)


def place_without_limits(tops: Tops | None = None) -> str | None:
    """Where a group without limits can be made: below our own, in some hierarchy."""
    tops = find_tops() if tops is None else tops
    places = [tops[""], *tops.values()] if "" in tops else tops.values()
    for _, here in places:
        if here.isprintable() and not {*here} & {*QUOTED} and _lets_us_move(here):
            return here
    return None


def _lets_us_move(directory: str) -> bool:
    return os.access(directory, os.W_OK) and os.access(f"{directory}/cgroup.procs", os.W_OK)


def gather(directory: str, pids: Callable[[], Iterable[int]]) -> bool:
    """Make a group, and move processes into it until `pids` gives no others. False: it cannot be made."""
    try:
        if not os.path.isdir(directory):
            os.mkdir(directory)
        fd = os.open(f"{directory}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        moved: set[int] = set()
        for _ in range(TRIES):
            others = {*pids()} - moved
            if not others:
                break
            for pid in others:
                _move(pid, fd)
            moved |= others
    finally:
        os.close(fd)
    return True


def _move(pid: int, processes_file: int) -> None:
    try:
        os.write(processes_file, b"%d" % pid)
    except OSError:
        pass  # the process is gone, or dead and not reaped


def remove(directory: str, tries: int = TRIES) -> None:
    """Tried often: the kernel takes a moment to see that the last process is gone."""
    for _ in range(tries):
        try:
            return os.rmdir(directory)
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(TRY_AGAIN_S)


def is_member(pid: int, job_id: str) -> bool:
    """Whether a process is in a group of this job, or in a group below it."""
    name = f"{PREFIX}{job_id}"
    return any(name in line.split("/") for line in _read(f"/proc/{pid}/cgroup").splitlines())


def remove_left(directories: object, job_id: str) -> None:
    """Remove the directories of a record, if they are control groups of this job."""
    for directory in directories if isinstance(directories, list) else ():
        is_of_job = isinstance(directory, str) and os.path.basename(directory) == f"{PREFIX}{job_id}"
        if is_of_job and os.path.exists(f"{directory}/cgroup.procs"):
            remove(directory)


# -- where we are -----------------------------------------------------------------------------------


def find_tops() -> Tops:
    return tops_of(_read("/proc/self/mountinfo"), _read("/proc/self/cgroup"))


def tops_of(mounts: str, own: str) -> Tops:
    """From what the kernel says about our mounts and groups."""
    paths = {name: path for name, path in map(_membership, own.splitlines()) for name in name.split(",")}
    found: dict[str, tuple[str, str]] = {}
    for line in mounts.splitlines():
        fields, _, system = line.partition(" - ")
        root, point = fields.split()[3:5]
        kind, _, options = [*system.split(), "", "", ""][:3]
        names = [""] if kind == "cgroup2" else options.split(",") if kind == "cgroup" else []
        for name in names:
            if name in paths and (here := _within(root, paths[name])) is not None:
                found.setdefault(name, (point, f"{point}{here}".rstrip("/")))
    return found


def _membership(line: str) -> tuple[str, str]:
    _, names, path = line.split(":", 2)
    return names, path


def _within(root: str, path: str) -> str | None:
    """A path as seen through a mount that shows only a part of the hierarchy."""
    root = root.rstrip("/")
    return path[len(root) :] if path == root or path.startswith(f"{root}/") else None


def _is_a_number(text: str) -> bool:
    return text.strip().isdigit()


def _write(path: str, number: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, b"%d" % number)
    finally:
        os.close(fd)


def _write_if_there(path: str, number: int) -> None:
    try:
        _write(path, number)
    except OSError:
        pass  # an older kernel, or a kernel without accounting of swap


def _read(path: str) -> str:
    """Empty if the file cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        data = b""
        while part := os.read(fd, 1 << 16):
            data += part
        return data.decode(errors="replace")
    except OSError:
        return ""
    finally:
        os.close(fd)

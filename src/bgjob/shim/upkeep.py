"""Checks every few seconds that clients can reach the shim: its socket, its directory and its guard. Puts the
job's processes into a control group, by which they are found when shim and guard are gone.

All of it belongs to the job's user, so the job can remove it.
"""

from __future__ import annotations

import os

from bgjob.home import jobdir
from bgjob.shim.handoff import listen, publish
from bgjob.system import cgroup, processes
from bgjob.system.allocation import Allocation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from bgjob.shim.control_server import ControlServer
    from bgjob.shim.handoff import HandoffSender, Held
    from bgjob.shim.loop import Loop

PLACE = cgroup.place_without_limits()  # at import: looked up after a fork, it would cost each shim 100 KB
# The kernel takes up to 10 ms to move a process: not while a job starts, and not for a short job.
GATHER_AFTER_S = 0.25
LOOK_EVERY_S = 5.0
GROUPS = b'{"format": %d, "limited_by": {}, "groups": ["%s"]}'  # by hand: see child.run_record


class Upkeep:
    def __init__(
        self,
        job_id: str,
        loop: Loop,
        held: Held,
        handoff: HandoffSender,
        server: ControlServer,
        on_removed: Callable[[], None],
    ) -> None:
        self._loop, self._held, self._handoff, self._server = loop, held, handoff, server
        self._on_removed = on_removed
        self._socket_id = _socket_id()
        self._job_id = job_id
        self._group = group_of(job_id)
        self._may_group = False

    def begin(self, *, may_group: bool) -> None:
        """`may_group`: the job's limits have made no control group."""
        self._may_group = may_group
        self.gather_soon()
        self._loop.call_later(LOOK_EVERY_S, self._look)

    def close(self) -> None:
        """Also a group of an earlier run, that a killed shim made: it has the same name."""
        if self._may_group:
            cgroup.remove_left([self._group], self._job_id)

    # -- whose processes these are ------------------------------------------------------------------

    def gather_soon(self) -> None:
        """After each start of the job."""
        if self._may_group:
            self._loop.call_later(GATHER_AFTER_S, self._gather)

    def _gather(self) -> None:
        """All processes of the job. Those that they start later are in the group from the beginning."""
        if self._group and self._record(self._group):
            cgroup.gather(self._group, lambda: processes.descendants(os.getpid()))

    def _record(self, group: str) -> bool:
        """Before the group is made: so that it is found even if we are killed now."""
        try:
            jobdir.write_whole(jobdir.LIMITS, GROUPS % (jobdir.FORMAT_VERSION, group.encode()))
        except OSError:
            return False  # a full disk
        return True

    # -- how we are reached -------------------------------------------------------------------------

    def _look(self) -> None:
        self.look_now()
        self._loop.call_later(LOOK_EVERY_S, self._look)

    def look_now(self) -> None:
        self._handoff.wake_guard()
        try:
            directory = os.getcwd()
        except FileNotFoundError:
            return self._on_removed()
        try:
            if _mode(directory) & 0o700 != 0o700:
                os.chmod(directory, 0o700)
            self._check_socket()
        except OSError:
            pass  # a full disk, perhaps: the next look tries again

    def _check_socket(self) -> None:
        """If the published socket is not ours any more, make a new one and hand it to the guard too."""
        if self._socket_id is not None and self._socket_id == _socket_id():
            return
        control = listen()
        try:
            publish(control)
        except OSError:
            control.close()
            raise
        self._held.control = control
        self._server.move_to(control)
        self._handoff.new_control(control.fileno())
        self._socket_id = _socket_id()


def group_of(job_id: str) -> str | None:
    return f"{PLACE}/{cgroup.PREFIX}{job_id}" if PLACE and not Allocation.is_ours else None


def _socket_id() -> tuple[int, int] | None:
    try:
        found = os.lstat(jobdir.CONTROL)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _mode(path: str) -> int:
    return os.stat(path).st_mode

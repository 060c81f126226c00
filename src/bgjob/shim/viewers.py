"""People who are attached to the job: who types, whose terminal the size is taken from, who holds the job.

    a viewer       a connection that has attached; it ends with the connection
    the holder     the viewer who typed last. While there is one, input comes from viewers only
    in control     the holder, else the viewer who came first: its terminal has the job's size, and answers
                   the questions that the job asks a terminal

A viewer that only looks is never holder or in control. A holder that sends signs of life loses the job after a
minute without one: its process may be stopped.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from bgjob.home.jobdir import Record
    from bgjob.shim.control_server import Connection

    Size = tuple[int, int]


SILENT_S = 60.0


class Viewer:
    number = 0

    def __init__(self, by: str, only_looks: bool, size: Size | None, *, beats: bool = False) -> None:
        """`beats`: it sends signs of life, which clients of older versions do not."""
        self.by, self.only_looks, self.size, self._beats = by, only_looks, size, beats
        self._heard_at = time.monotonic()
        self.typed_bytes = 0
        self.held_since = self.typed_at = 0.0

    def go_on(self, held_since: float, typed_bytes: int) -> None:
        """This person held the job by a connection to the shim before this one."""
        self.held_since = self.typed_at = held_since
        self.typed_bytes = typed_bytes

    def heard(self) -> None:
        self._heard_at = time.monotonic()

    @property
    def is_silent(self) -> bool:
        return self._beats and time.monotonic() > self._heard_at + SILENT_S

    def typed(self, count: int) -> None:
        self.typed_at = time.time()
        self.held_since = self.held_since or self.typed_at
        self.typed_bytes += count


class Viewers:
    def __init__(self, resize: Callable[[Size], None], on_gone: Callable[[Viewer], None]) -> None:
        """`resize` gives the job's terminal a size. `on_gone`: a viewer who has typed is gone."""
        self._resize, self._on_gone = resize, on_gone
        self._viewers: dict[Connection, Viewer] = {}
        self._last_number = 0

    def add(self, connection: Connection, viewer: Viewer) -> None:
        self.forget(connection)
        self._last_number += 1
        viewer.number = self._last_number
        connection.is_kept = True
        self._viewers[connection] = viewer
        if viewer is self.in_control:
            self.take_size()

    def get(self, connection: Connection) -> Viewer | None:
        return self._viewers.get(connection)

    def heard(self, connection: Connection) -> None:
        """Note a request of this viewer. A job that it lost while it was silent stays lost."""
        if viewer := self._viewers.get(connection):
            if viewer.is_silent:
                viewer.held_since = 0.0
            viewer.heard()

    def forget(self, connection: Connection) -> None:
        before, viewer = self.in_control, self._viewers.pop(connection, None)
        if viewer is None:
            return
        if viewer.typed_bytes:
            self._on_gone(viewer)
        if viewer is before:
            self.take_size()

    @property
    def holder(self) -> Viewer | None:
        typists = [viewer for viewer in self._present() if viewer.held_since]
        return max(typists, key=lambda viewer: viewer.typed_at, default=None)

    def _present(self) -> list[Viewer]:
        """A viewer that waits for an answer sends nothing until it comes."""
        return [
            viewer
            for connection, viewer in self._viewers.items()
            if connection.is_owed_an_answer or not viewer.is_silent
        ]

    @property
    def in_control(self) -> Viewer | None:
        able = (viewer for viewer in self._present() if not viewer.only_looks)
        return self.holder or next(able, None)

    def holds(self) -> Record | None:
        """Who holds the job, since when, and when they typed last; None: nobody does."""
        holder = self.holder
        if holder is None:
            return None
        return {"by": holder.by, "since": holder.held_since, "typed_at": holder.typed_at}

    def typed(self, viewer: Viewer, count: int) -> None:
        was_in_control = viewer is self.in_control
        viewer.typed(count)
        if not was_in_control:
            self.take_size()

    def resized(self, viewer: Viewer, size: Size) -> None:
        viewer.size = size
        if viewer is self.in_control:
            self.take_size()

    def take_size(self) -> None:
        """Of the terminal of the viewer who is in control now."""
        viewer = self.in_control
        if viewer and viewer.size:
            self._resize(viewer.size)

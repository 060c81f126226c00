"""Events of a stream, as they are sent to a page (HTML, Server-sent events)."""

import json
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

MOST_WAITING_BYTES = 1 << 18


def event(kind: str, data: Any) -> bytes:
    return encoded_event(kind, json.dumps(data, separators=(",", ":")).encode())


def encoded_event(kind: str, data: bytes) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)


class EventQueue:
    """From a thread to the stream of a page. The thread looks whether there is room before it adds more."""

    def __init__(self, on_event: Callable[[], None], on_room: Callable[[], None]) -> None:
        """Called when there is an event to take, and when there is room again."""
        self._on_event, self._on_room = on_event, on_room
        self._mutex = threading.Lock()
        self._events: deque[bytes] = deque()
        self._waiting_bytes = 0

    @property
    def has_room(self) -> bool:
        return self._waiting_bytes < MOST_WAITING_BYTES

    def put(self, kind: str, data: Any) -> None:
        encoded = event(kind, data)
        with self._mutex:
            self._events.append(encoded)
            self._waiting_bytes += len(encoded)
        self._on_event()

    def take(self) -> bytes:
        """All that there is."""
        with self._mutex:
            was_full = not self.has_room
            taken, self._waiting_bytes = b"".join(self._events), 0
            self._events.clear()
        if was_full:
            self._on_room()
        return taken

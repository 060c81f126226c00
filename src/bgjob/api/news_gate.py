"""Whether a job has ended since the last look for news: by the size of the log of events, nearly free."""

import os

from bgjob.home import event_log
from bgjob.home.event_log import Cursor
from bgjob.store import event_reader

MOST_SESSIONS = 1000


class NewsGate:
    """Of each session, the place in the log of events up to which this process has looked for it.

    An end that is in no event is found by a look for another reason. A process that has forgotten a place looks.
    """

    def __init__(self, events: str) -> None:
        self._events = events
        self._places: dict[str, Cursor] = {}

    def open(self, session: str) -> None:
        """Look the next time, whatever the log says."""
        self._places.pop(session, None)

    def is_open(self, session: str) -> bool:
        """True: look now. The next time only if a job has ended after this call."""
        place = self._places.get(session)
        try:
            if place is None:
                self._note(session, event_log.end(self._events))
                return True
            return not self._is_quiet(place) and self._tells_of_end(session, place)
        except OSError:
            return True

    def _note(self, session: str, place: Cursor) -> None:
        self._places[session] = place
        if len(self._places) > MOST_SESSIONS:
            self._places.pop(next(iter(self._places), session), None)

    def _is_quiet(self, place: Cursor) -> bool:
        try:
            size = os.lstat(f"{self._events}/{place.segment}").st_size
        except FileNotFoundError:
            return event_log.end(self._events) == place
        return place.byte == size < event_log.SEGMENT_BYTES

    def _tells_of_end(self, session: str, place: Cursor) -> bool:
        kinds = set()
        for heads, behind in event_reader.heads(self._events, place):
            kinds |= {kind for kind, _ in heads}
            self._note(session, behind)
        return "ended" in kinds

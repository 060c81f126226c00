"""Matches a job's log against the patterns of its watches, as it grows.

All patterns are matched in one pass: lines that match none cost as much as with one pattern. A pattern that
matches line after line makes a few events a second, which say how many lines were left out; other patterns
are not affected.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from bgjob.core.errors import InvalidArgument
from bgjob.core.job import Event
from bgjob.core.patterns import Pattern, compile_any, compile_pattern, first_of
from bgjob.home.log_format import STDERR, STDOUT
from bgjob.output.line_match import Found, count_matching_lines, matching_lines
from bgjob.output.log_lines import Forward, Lines, Text, cells
from bgjob.output.log_reader import LogReader
from bgjob.output.log_search import shown

SHOWN_BYTES = 240
BURST, PER_SECOND = 20.0, 1.0
TELL_MISSED_EVERY_S = 1.0
STREAM_WORDS = {STDOUT: "stdout", STDERR: "stderr"}


class Watch:
    """One pattern, and how many events it may make now."""

    def __init__(self, text: str) -> None:
        self.text, self.pattern = text, compile_pattern(text)
        self.suppressed = 0
        self._allowance, self._counted_at = BURST, time.monotonic()

    def may_make_event(self) -> bool:
        now = time.monotonic()
        self._allowance = min(BURST, self._allowance + (now - self._counted_at) * PER_SECOND)
        self._counted_at = now
        return self._allowance >= 1.0

    def event(self, **details: object) -> Event:
        """An event, with the number of lines that were left out before it."""
        self._allowance -= 1.0
        event = {"kind": "matched", "pattern": self.text, **details}
        if self.suppressed:
            event["suppressed"], self.suppressed = self.suppressed, 0
        return event


def _watches(patterns: Sequence[str]) -> Iterator[Watch]:
    """Without invalid patterns: a record may be foreign, ours were checked before the job was made."""
    for text in patterns:
        with contextlib.suppress(InvalidArgument):
            yield Watch(text)


class LogWatch:
    """All watches of one job. `state` says how far it has looked: another LogWatch goes on from there."""

    def __init__(self, patterns: Sequence[str], state: Mapping[str, Any]) -> None:
        self._watches = list(_watches(patterns))
        self._together: dict[tuple[str, ...], Pattern] = {}
        self._lines = {STDOUT: Forward(), STDERR: Forward()}
        self._seen = {stream: int(state.get(word, 0)) for stream, word in STREAM_WORDS.items()}
        self._early: dict[int, tuple[int, set[str]]] = {}
        self._at = min(self._seen.values())
        self.is_behind = True
        self._missed, self._missed_at = int(state.get("missed", 0)), 0.0
        for watch in self._watches:
            watch.suppressed = int(state.get("suppressed", {}).get(watch.text, 0))

    @property
    def state(self) -> dict[str, Any]:
        waiting = {stream: lines.unfinished for stream, lines in self._lines.items()}
        begins = {stream: text.place(0)[0] if text else self._at for stream, text in waiting.items()}
        return {
            **{word: max(begins[stream], self._seen[stream]) for stream, word in STREAM_WORDS.items()},
            "missed": self._missed,
            "suppressed": {watch.text: watch.suppressed for watch in self._watches if watch.suppressed},
        }

    # -- looking ------------------------------------------------------------------------------------

    def scan(self, log: LogReader, out_of_time: Callable[[], bool]) -> Iterator[Event]:
        """Events of what came since the last scan; `is_behind` if there was no time for all of it."""
        self.is_behind = True
        for cell in cells(log, self._at, log.end, newest_first=False):
            before = {stream: _gone(log, stream, self._at, cell.start) for stream in self._lines}
            inside = {
                stream: cell.has_holes and _gone(log, stream, cell.start, cell.end) for stream in before
            }
            for stream in self._lines:
                yield from self._flush_if(before[stream], stream)
                if text := cell.text(stream):
                    for block in self._lines[stream].lines(text):
                        yield from self._matches(block, stream)
                # In a cell with holes the missing bytes lie behind the kept ones.
                yield from self._flush_if(inside[stream], stream)
            self._at = cell.end
            if out_of_time():
                return
        if log.end > self._at:
            yield from self._gap(log.end)
        self.is_behind = False

    def match_unfinished(self) -> Iterator[Event]:
        """Match unfinished lines, after a pause of the output: a prompt is such a line."""
        for stream, lines in self._lines.items():
            if lines.unfinished:
                data = lines.unfinished.data
                yield from self._matches(Lines(lines.unfinished, 0, len(data)), stream, is_early=True)

    def left_out_events(self, *, is_over: bool = False) -> Iterator[Event]:
        """Events of matches that were left out, and of bytes that were deleted before they were read."""
        for watch in self._watches:
            if watch.suppressed and (is_over or watch.may_make_event()):
                yield watch.event()
        now = time.monotonic()
        if self._missed and (is_over or now >= self._missed_at + TELL_MISSED_EVERY_S):
            yield {"kind": "unwatched", "bytes": self._missed}
            self._missed, self._missed_at = 0, now

    def finish(self) -> Iterator[Event]:
        """The last events: nothing more will come."""
        yield from self._flush()
        yield from self.left_out_events(is_over=True)

    def _gap(self, until: int) -> Iterator[Event]:
        yield from self._flush()
        self._missed += until - self._at
        self._at = until

    def _flush_if(self, missed: int, stream: int) -> Iterator[Event]:
        """A line ends where bytes of its stream are missing; those of the other do not cut it."""
        if missed:
            self._missed += missed
            yield from self._flush_one(stream)

    def _flush(self) -> Iterator[Event]:
        for stream in self._lines:
            yield from self._flush_one(stream)

    def _flush_one(self, stream: int) -> Iterator[Event]:
        for block in self._lines[stream].flush():
            yield from self._matches(block, stream)

    # -- matching -----------------------------------------------------------------------------------

    def _matches(self, lines: Lines, stream: int, *, is_early: bool = False) -> Iterator[Event]:
        active = self._active(self._watches, lines, is_early)
        while active:
            for found in matching_lines(self._any_of(active), lines):
                for watch in active:
                    yield from self._event_of(watch, lines.text, found, stream, is_early)
                lines, before = Lines(lines.text, found.end, lines.end), len(active)
                active = self._active(active, lines, is_early)
                if len(active) < before:
                    break
            else:
                return

    def _active(self, watches: list[Watch], lines: Lines, is_early: bool) -> list[Watch]:
        """Those that may make an event. Of the others the lines that match are only counted."""
        active = [watch for watch in watches if watch.may_make_event()]
        for watch in watches:
            if watch not in active and not is_early:
                watch.suppressed += count_matching_lines(watch.pattern, lines)
        return active

    def _any_of(self, active: list[Watch]) -> Pattern:
        texts = tuple(watch.text for watch in active)
        if texts not in self._together:
            self._together[texts] = compile_any(texts) or first_of([watch.pattern for watch in active])
        return self._together[texts]

    def _event_of(
        self, watch: Watch, text: Text, line: Found, stream: int, is_early: bool
    ) -> Iterator[Event]:
        """The event of this pattern in this line, if it matches and has no event yet."""
        found = next(matching_lines(watch.pattern, Lines(text, line.start, line.end)), None)
        if found is None:
            return
        match = shown(text, found, stream, SHOWN_BYTES)
        early = self._early.get(stream, (-1, set()))
        if match.offset < self._seen[stream] or (match.offset == early[0] and watch.text in early[1]):
            return
        if is_early:
            told = early[1] if match.offset == early[0] else set()
            self._early[stream] = (match.offset, told | {watch.text})
        yield watch.event(
            line=match.line.decode("utf-8", "replace")
            + ("…" if match.starts_late or match.ends_early else ""),
            stream=STREAM_WORDS[stream],
            cursor=f"{match.offset}-{match.end}",
        )


def _gone(log: LogReader, stream: int, start: int, end: int) -> int:
    return sum(gap.count for gap in log.gaps(stream, start, end)) if start < end else 0

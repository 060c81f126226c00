"""What the terminal of an attached person is fed with: what the job's terminal shows now, then what it prints.

A person who is too far behind begins anew, and so do all when the job's terminal gets another size: what was
printed meanwhile is not replayed.
"""

from typing import NamedTuple

from bgjob.api.attach import Attachment
from bgjob.api.context import Context
from bgjob.api.terminal_state import TerminalState, terminal_state

# Of what was printed meanwhile, so much is kept.
MOST_MISSED_BYTES = 1 << 16


class Begin(NamedTuple):
    state: TerminalState
    missed: bytes
    """The last part of what was printed since the person has seen something."""


class TerminalFeed:
    def __init__(self, context: Context, attachment: Attachment, most_behind_bytes: int) -> None:
        self._context, self._attachment, self._most_behind_bytes = context, attachment, most_behind_bytes
        self._size = attachment.view.size
        """Of the job's terminal, when the person began."""
        self._is_begun = False

    def begin_anew(self) -> None:
        """The person's terminal is not what it was."""
        self._is_begun = False

    def go_on_from(self, at: int) -> bool:
        """The person's terminal is as the job's was there. False: of another size, so it begins anew."""
        sizes = self._context.store.terminal_sizes(self._context.store.load(self._attachment.job_id))
        # one that was set just there may have been before or after it
        before = [size for offset, *size in sizes if offset < at][-1:]
        is_same = all([size] == before for offset, *size in sizes if offset >= at)
        self._is_begun = is_same and 0 < at <= self._attachment.log_end
        if self._is_begun:
            self._attachment.at = at
        return self._is_begun

    def next(self) -> Begin | bytes:
        """The next of what is new; b"": there is no more now."""
        attachment = self._attachment
        if not self._is_begun or attachment.view.size != self._size:
            return self._begin()
        chunks = attachment.new_output()
        is_far_behind = attachment.unseen_bytes > self._most_behind_bytes
        if is_far_behind or any(chunk.dropped_bytes for chunk in chunks):
            return self._begin()
        return b"".join(chunk.data for chunk in chunks)

    def _begin(self) -> Begin:
        attachment = self._attachment
        self._size, self._is_begun = attachment.view.size, True
        state = terminal_state(self._context, attachment.job_id)
        missed = attachment.output_until(state.at, MOST_MISSED_BYTES) if attachment.at else b""
        attachment.at = state.at
        return Begin(state, missed)

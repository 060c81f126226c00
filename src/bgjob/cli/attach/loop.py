"""Waits for what a person who is attached cares for: keys, news of the job, the size of the terminal, an end."""

import os
import select
import signal
from typing import Protocol

from bgjob.api.attach import Attachment

READ_BYTES = 1 << 12
LEAVES = (signal.SIGTERM, signal.SIGHUP)


class Person(Protocol):
    """What is shown to the person, and what is made of what they type."""

    def show(self) -> None:
        """What is new, all of it."""

    def typed(self, data: bytes) -> bool:
        """True: the person leaves. No data: the end of their input."""

    def signalled(self, number: int) -> None: ...


def run(attachment: Attachment, person: Person, parent: int) -> None:
    """Until the person leaves, the job is over, or the parent is gone."""
    signals = _signal_pipe(signal.SIGWINCH, signal.SIGINT, *LEAVES)
    while True:
        person.show()
        if attachment.is_over:
            return person.show()  # what came into the log between the last look and the end
        attachment.wait()
        ready = _ready(attachment, parent, signals)
        if parent in ready or (signals in ready and _leaves(signals, person)):
            return None
        attachment.hear(ready)
        if 0 in ready and person.typed(_read(0)):
            return None


def _ready(attachment: Attachment, parent: int, signals: int) -> set[int]:
    poll = select.poll()
    for descriptor in (parent, signals, *attachment.descriptors()):
        poll.register(descriptor, select.POLLIN)
    if attachment.has_room:
        poll.register(0, select.POLLIN)
    return {descriptor for descriptor, _ in poll.poll(1000 * attachment.beat())}


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, READ_BYTES)
    except OSError:  # the terminal is gone
        return b""


def _leaves(signals: int, person: Person) -> bool:
    arrived = os.read(signals, 512)
    for number in set(arrived) - set(LEAVES):
        person.signalled(number)
    return bool(set(arrived) & set(LEAVES))


def _signal_pipe(*signals: signal.Signals) -> int:
    """A descriptor on which each arriving signal is one byte."""
    ours, theirs = os.pipe()
    for end in (ours, theirs):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(theirs, warn_on_full_buffer=False)
    for number in signals:
        signal.signal(number, lambda _number, _frame: None)
    return ours

"""A person's terminal on the stdin of a job that has no terminal: lines go in, what it prints comes out."""

import signal
import sys
import termios

from bgjob.api.attach import Attachment, check_can_attach
from bgjob.api.context import Context
from bgjob.api.snapshot import Snapshot
from bgjob.cli import streams
from bgjob.cli.attach import loop
from bgjob.cli.attach.detach_key import DetachKey
from bgjob.cli.attach.terminal_guard import guarded
from bgjob.cli.ourselves import own_name
from bgjob.cli.streams import JobStream
from bgjob.core.job import Job
from bgjob.home.log_format import STDERR, STDOUT
from bgjob.output.last_lines import begin_of_last_lines
from bgjob.output.log_reader import LogReader

LINES_BEFORE = 10
CONTROL_CHARACTERS = 6  # among what tcgetattr answers


def attach(context: Context, job: Job, key: DetachKey, *, read_only: bool) -> int:
    """0: the person has left, or the job is over."""
    looks = read_only or job.spec.stdin == "null"
    check_can_attach(context, job, only_looks=looks)

    def act(parent: int) -> None:
        attachment = Attachment(context, job, own_name(), only_looks=looks)
        attachment.at = Snapshot(context, job.id).read(_begin)
        _end_lines_at(key.code)
        streams.note(
            f"[{key.name} detaches{'' if looks else ', ctrl-d ends its input, ctrl-c interrupts it'}]"
        )
        person = PersonAtLines(attachment, key)
        loop.run(attachment, person, parent)
        person.finish()
        attachment.finish()

    return guarded(act, draws=False)


def _begin(log: LogReader) -> int:
    return min(begin_of_last_lines(log, LINES_BEFORE, (STDOUT, STDERR), 0).values())


def _end_lines_at(key: bytes) -> None:
    """The terminal goes on to edit and show lines; it hands over what was typed at this key, too."""
    settings = termios.tcgetattr(0)
    settings[CONTROL_CHARACTERS][termios.VEOL] = key
    termios.tcsetattr(0, termios.TCSADRAIN, settings)


class PersonAtLines:
    def __init__(self, attachment: Attachment, key: DetachKey) -> None:
        self._attachment, self._key, self._is_told = attachment, key, False
        self._stdout, self._stderr = (JobStream(stream, raw=False) for stream in (sys.stdout, sys.stderr))

    def show(self) -> None:
        if self._attachment.is_stdin_closed and not self._is_told:
            self._is_told = True
            streams.note("[its input is closed: nothing more can be typed into it]")
        while chunks := self._attachment.new_output():
            for chunk in chunks:
                if chunk.dropped_bytes:
                    streams.note(f"[bgjob: {chunk.dropped_bytes} bytes dropped here]")
                (self._stderr if chunk.stream == STDERR else self._stdout).write(chunk.data)

    def finish(self) -> None:
        self._stdout.finish()
        self._stderr.finish()

    def typed(self, data: bytes) -> bool:
        """A line; what was begun of one when the person leaves is dropped, as the terminal shows it."""
        _, leaves = self._key.split(data)
        if leaves:
            streams.note("")
        elif data and not self._attachment.only_looks:
            self._attachment.type(data)
        elif not self._attachment.only_looks:
            self._attachment.close_stdin()
        return leaves

    def signalled(self, number: int) -> None:
        if number == signal.SIGINT and not self._attachment.only_looks:
            self._attachment.interrupt(number)

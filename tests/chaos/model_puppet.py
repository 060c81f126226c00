"""A job on strings: it does what the test tells it through a FIFO, and says when it has done it."""

import contextlib
import os
import select
import time
from pathlib import Path

PATIENCE_S = 120.0

SCRIPT = r"""
cd "$1" || exit 99
exec 3<>orders 4<>answers
case $2 in
    stubborn) trap '' TERM HUP ;;
    polite) trap 'echo bye; exit 9' TERM ;;
esac
[ -t 0 ] && stty -echo
echo "born $$" >&4
while read -r order word last <&3; do
    case $order in
        print) echo "$word" ;;
        complain) echo "$word" >&2 ;;
        flood) head -c "$word" /dev/zero | tr '\0' x; echo ;;
        read) if read -r line; then echo "got $line"; else echo "no more"; fi ;;
        size) stty size ;;
        leave) sh child.sh "$word" 3<&- & ;;
        flee) setsid sh child.sh "$word" 3<&- & ;;
        exit) echo "$last"; exit "$word" ;;
        die) echo "$last"; kill -s "$word" $$ ;;
    esac
    echo "done" >&4
done
"""
CHILD = r"""
echo "born $$" >&4
exec 4>&-
read -r word < "$1"
echo "$word"
"""


class Fifo:
    """Held open at both ends: no open() ever waits, and no death of a process closes it."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path, 0o600)
        self.fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self._read = b""

    def write(self, line: str) -> None:
        os.write(self.fd, line.encode() + b"\n")

    def line(self, patience_s: float = PATIENCE_S) -> str:
        deadline = time.monotonic() + patience_s
        while b"\n" not in self._read:
            left_s = max(0.0, deadline - time.monotonic())
            if not select.select([self.fd], [], [], left_s)[0]:
                raise TimeoutError("the puppet does not answer")
            self._read += os.read(self.fd, 1 << 12)
        line, _, self._read = self._read.partition(b"\n")
        return line.decode()

    def close(self) -> None:
        os.close(self.fd)


class Child:
    """A process that a job has started and leaves behind; it ends with a last word when it is told one."""

    def __init__(self, pid: int, fifo: Fifo) -> None:
        self.pid, self._fifo = pid, fifo

    def speak(self, word: str) -> None:
        self._fifo.write(word)


class Puppet:
    """`mode`: plain; stubborn, which TERM and HUP do not touch; or polite, which says bye to TERM and exits with 9."""

    def __init__(self, directory: Path, mode: str) -> None:
        directory.mkdir()
        self._directory, self.mode = directory, mode
        (directory / "puppet.sh").write_text(SCRIPT)
        (directory / "child.sh").write_text(CHILD)
        self._leave = contextlib.ExitStack()
        self._orders, self._answers = self._fifo("orders"), self._fifo("answers")
        self.command = f"exec sh {directory}/puppet.sh {directory} {mode}"
        self._children = 0
        self.may_be_born = False  # without being heard

    def _fifo(self, name: str) -> Fifo:
        fifo = Fifo(self._directory / name)
        self._leave.callback(fifo.close)
        return fifo

    def born(self) -> int:
        """Its pid, once it can be told something."""
        word, pid = self._answers.line().split()
        assert word == "born"
        return int(pid)

    def births(self) -> int:
        """How often it was started without being heard."""
        count = 0
        with contextlib.suppress(TimeoutError):
            while True:
                count += self._answers.line(0).startswith("born")
        return count

    def tell(self, order: str, word: object = "") -> None:
        self._orders.write(f"{order} {word}")

    def wait_until_done(self) -> None:
        assert self._answers.line() == "done"

    def do(self, order: str, word: object = "") -> None:
        self.tell(order, word)
        self.wait_until_done()

    def leave_child(self, order: str) -> Child:
        """`leave` one behind in the background, or one that has fled from the session by setsid."""
        self._children += 1
        name = f"child-{self._children}"
        fifo = self._fifo(name)
        self.tell(order, name)
        born, _done = sorted((self._answers.line(), self._answers.line()))
        return Child(int(born.removeprefix("born")), fifo)

    def close(self) -> None:
        self._leave.close()

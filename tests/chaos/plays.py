"""What happens in a trial: a job, what somebody does with it, and what must be true of it in the end.

Nobody in here knows which process is killed, or when. A line whose arrival is not known is typed again only if the
job still waits for one.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bgjob.api import Jobs, Typed
from bgjob.core.errors import NotRunning, NotSteerable, StdinClosed
from bgjob.core.job import Exited, Killed, OverLimit, Running, State, TimedOut
from bgjob.home.log_format import STDERR, STDOUT
from bgjob.output.log_reader import LogReader
from tests.chaos.stage import Violation
from tests.support.waiting import PATIENCE_S, wait_until

# What a job finds: its descriptors, its umask, its directory, and the signals that are blocked or ignored.
FINDS = (
    'for fd in /proc/$$/fd/*; do echo "${fd##*/}"; done; umask; '
    'while read -r name value; do case $name in Sig[BI]*) echo "$name $value";; esac; done < /proc/$$/status'
)
FOUND = r"0\n1\n2\n3\n0*%o\nSigBlk: 0+\nSigIgn: 0+(18000000)?[04]?\n"
# 3 is the directory that the shell reads there; glibc's posix_spawn ignores 32 and 33, which are its own; bash
# ignores SIGQUIT for itself, and its commands do not
ROUNDS = 4
NOTHING = Typed("", add_newline=False)


@dataclass(frozen=True)
class Play:
    name: str
    command: str
    act: Callable[["Actor"], None]
    """All that somebody does, until the job has ended."""
    stdout: str
    """As a regular expression."""
    stderr: str = ""
    drops_output: bool = False
    end: type[State] = Exited
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)

    def check(self, jobs: Jobs, job_id: str) -> None:
        state = jobs.status(job_id).job.state
        if not isinstance(state, self.end) or (isinstance(state, Exited) and state.code != 9):
            raise Violation(f"it ended as {state}, and not as {self.end.__name__}")
        printed = Printed(jobs, job_id)
        line_end = "\r\n" if self.options["pty"] else "\n"
        printed.check(STDOUT, self.stdout, line_end)
        printed.check(STDERR, self.stderr, line_end)
        if printed.has_gap != self.drops_output:
            raise Violation("output is missing" if printed.has_gap else "no output was dropped")


class Printed:
    """The log of a job, by stream. What was dropped is zeros here."""

    def __init__(self, jobs: Jobs, job_id: str) -> None:
        log = jobs.log(job_id)
        self._streams = {stream: with_zeros(log, stream) for stream in (STDOUT, STDERR)}
        chunks = list(jobs.follow(job_id, wait=False))
        self.has_gap = any(chunk.dropped_bytes for chunk in chunks)
        for stream, data in self._streams.items():
            if b"".join(chunk.data for chunk in chunks if chunk.stream == stream) != data.replace(b"\0", b""):
                raise Violation(f"stream {stream} is something else to those who follow it")

    def check(self, stream: int, pattern: str, line_end: str) -> None:
        expected = pattern.replace("\n", line_end).encode()
        whole = re.sub(rb"\0+", lambda gap: expected[slice(*gap.span())], self._streams[stream])
        text = whole.decode().replace(line_end, "\n")
        if not re.fullmatch(pattern, text):
            raise Violation(f"stream {stream} is {shortened(text)!r}, and not {shortened(pattern)!r}")


def with_zeros(log: LogReader, stream: int) -> bytes:
    parts = [(piece.start, piece.data) for piece in log.forward(stream, 0, log.end)]
    parts += [(gap.start, bytes(gap.count)) for gap in log.gaps(stream, 0, log.end)]
    return b"".join(data for _, data in sorted(parts))


def shortened(text: str) -> str:
    return text if len(text) < 400 else f"{text[:200]} ... {text[-200:]}"


class Actor:
    """Somebody with a client: sees the disk and the shim's socket, and nothing else."""

    def __init__(self, jobs: Jobs, job_id: str, gate: Path) -> None:
        self.jobs, self.job_id, self._gate = jobs, job_id, gate

    def type(self, text: str, answer: str) -> None:
        """A line, to which the job prints this answer. Once; again only if it is known not to have arrived."""
        while self._waits_for_input() and not self._has_printed(answer) and not self._typed(Typed(text)):
            pass

    def close_stdin(self) -> None:
        while self._waits_for_input() and not self._typed(Typed(close_stdin=True)):
            pass

    def resize(self, rows: int, cols: int) -> None:
        self.wait_for("ready")
        while not self._typed(Typed(), resize=(rows, cols)):
            pass

    def kill(self) -> None:
        self.wait_for("ready")
        answer = self.jobs.kill(self.job_id)
        state = self.jobs.status(self.job_id).job.state
        if answer.status != "killed" or isinstance(state, Running):
            raise Violation(f"kill has answered {answer.status!r}, and the job is {state}")

    def wait_for(self, text: str) -> None:
        waited = self.jobs.wait_for([self.job_id], pattern=text, literal=True, timeout_s=PATIENCE_S)
        if not waited[0].met:
            raise Violation(f"it has not printed {text!r}: {waited[0].came}, {waited[0].status.job.state}")

    def wait_for_end(self) -> None:
        waited = self.jobs.wait_for([self.job_id], timeout_s=PATIENCE_S)[0]
        if not waited.met:
            raise Violation(f"it does not end: {waited.came}")

    def wait_for_last_process(self) -> None:
        wait_until(lambda: not self.jobs.has_shim(self.job_id), "the job's lock is free")

    def open_gate(self) -> None:
        """What the job has left behind waits there."""
        wait_until(self._gate_opens, "a process of the job is at the gate")

    def _gate_opens(self) -> bool:
        try:
            os.close(os.open(self._gate, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            return False
        return True

    def _waits_for_input(self) -> bool:
        came = self.jobs.wait_for([self.job_id], for_input=True, timeout_s=PATIENCE_S)[0].came
        if came is None:
            raise Violation("it neither waits for input nor ends")
        return came.condition == "input"

    def _has_printed(self, text: str) -> bool:
        """Nothing is typed first: what that answers has all in it that the job printed until then."""
        while not self._typed(NOTHING, wait_s=0.0):
            pass
        return text in self.jobs.output(self.job_id).stdout

    def _typed(self, typed: Typed, **how: Any) -> bool:
        """False: nobody knows."""
        try:
            self.jobs.interact(self.job_id, typed, **how)
        except NotSteerable:
            return False
        except (NotRunning, StdinClosed):
            pass  # then it had arrived at the last try
        return True


def converse(actor: Actor) -> None:
    actor.wait_for("before")
    actor.type("hello", "got hello")
    actor.wait_for_end()
    actor.wait_for_last_process()


def chat(actor: Actor) -> None:
    for number in range(1, ROUNDS + 1):
        actor.wait_for(f"round {number}")
        actor.type(f"line {number}", f"got line {number}")
    actor.wait_for_end()
    actor.wait_for_last_process()


def say_all(actor: Actor) -> None:
    actor.type("that is all", "got that")
    actor.close_stdin()
    actor.wait_for_end()
    actor.wait_for_last_process()


def type_into_each_run(actor: Actor) -> None:
    for number in (1, 2):
        actor.wait_for(f"run {number}")
        actor.type(f"line {number}", f"got line {number}")
    actor.wait_for_end()
    actor.wait_for_last_process()


def let_it_end(actor: Actor) -> None:
    actor.wait_for_end()
    actor.wait_for_last_process()


def let_the_last_one_go(actor: Actor) -> None:
    actor.wait_for_end()
    actor.open_gate()
    actor.wait_for_last_process()


def kill(actor: Actor) -> None:
    actor.kill()
    actor.wait_for_last_process()


def widen(actor: Actor) -> None:
    actor.resize(33, 99)
    actor.type("look now", "33 99")
    actor.wait_for_end()
    actor.wait_for_last_process()


def plays(terminal: bool) -> list[Play]:
    """Each ends by itself, or by what somebody does with it, whoever is killed meanwhile."""
    ending = [conversation, end_of_input, burst, bounded, left_behind, killed, timed_out]
    ending += [limited, silenced, run_again, silenced_and_run_again]
    return [make(terminal) for make in ([*ending, resized] if terminal else [*ending, pushed])]


def conversation(terminal: bool) -> Play:
    typed = "(hello\n)+" if terminal else ""  # a terminal shows it, and again if it was typed again
    return Play(
        "conversation",
        f"{FINDS}; echo aside >&2; echo before; read -r line; echo got $line; echo after; exit 9",
        converse,
        FOUND % umask() + ("aside\n" if terminal else "") + f"before\n{typed}got hello\nafter\n",
        "" if terminal else "aside\n",
        options={"pty": terminal},
    )


def chatter(terminal: bool) -> Play:
    """Longer than the others, for those who strike at random."""
    numbers = "".join(f"{number}\n" for number in range(1, 1001))
    rounds = ""
    for number in range(1, ROUNDS + 1):
        typed = f"(line {number}\n)+" if terminal else ""
        rounds += f"{numbers}round {number}\n{typed}got line {number}\n"
    script = "seq 1 1000; sleep 0.15; echo round $n; read -r line; echo got $line"
    command = f"for n in {' '.join(map(str, range(1, ROUNDS + 1)))}; do {script}; done; exit 9"
    return Play("chatter", command, chat, rounds, options={"pty": terminal})


def end_of_input(terminal: bool) -> Play:
    once, again = ("(that is all\n)+", "(that is all\n)*") if terminal else ("", "")
    return Play(
        "end of input",
        "read -r line; echo got $line; while read -r _; do :; done; echo end; exit 9",
        say_all,
        f"{once}got that is all\n{again}end\n",
        options={"pty": terminal},
    )


def burst(terminal: bool) -> Play:
    """More than a pipe holds, in segments of which none is dropped."""
    last = 14_000 if terminal else 40_000  # a terminal hands over 4 KB at a time
    return Play(
        "burst",
        f"seq 1 {last}; exit 9",
        let_it_end,
        "".join(f"{number}\n" for number in range(1, last + 1)),
        options={"pty": terminal},
        settings={"MCP_BG_MAX_OUTPUT_SIZE": "512KB"},
    )


def bounded(terminal: bool) -> Play:
    """More than is kept: what lies between head and tail is dropped, and counted."""
    return Play(
        "bounded",
        "seq 1 6000; exit 9",
        let_it_end,
        "".join(f"{number}\n" for number in range(1, 6001)),
        options={"pty": terminal},
        settings={"MCP_BG_MAX_OUTPUT_SIZE": "20KB"},
        drops_output=True,
    )


def pushed(terminal: bool) -> Play:
    """More of stdout than is kept: what stderr has in between stays, in other files."""
    return Play(
        "pushed",
        "for n in 0 1 2 3 4 5; do seq ${n}001 ${n}999; echo error $n >&2; done; exit 9",
        let_it_end,
        "".join(f"{n * 1000 + number}\n" for n in range(6) for number in range(1, 1000)),
        "".join(f"error {n}\n" for n in range(6)),
        options={"pty": terminal},
        settings={"MCP_BG_MAX_OUTPUT_SIZE": "20KB"},
        drops_output=True,
    )


def left_behind(terminal: bool) -> Play:
    return Play(
        "left behind",
        "trap '' HUP; (read _ < $GATE; echo late) & echo main; exit 9",
        let_the_last_one_go,
        "main\nlate\n",
        options={"pty": terminal},
    )


def killed(terminal: bool) -> Play:
    return Play(
        "kill",
        "trap '' HUP; sleep 1000 & setsid sleep 1000 & echo ready; wait",
        kill,
        "ready\n",
        end=Killed,
        options={"pty": terminal},
    )


def timed_out(terminal: bool) -> Play:
    """On a busy machine its time may be up before it has printed anything."""
    return Play(
        "timeout",
        "sleep 1000 & echo ready; wait",
        let_it_end,
        "(ready\n)?",
        end=TimedOut,
        options={"pty": terminal, "timeout_s": 0.8},
    )


def run_again(terminal: bool) -> Play:
    """Two runs, each with a line that is typed into it."""
    typed = [f"(line {number}\n)+" if terminal else "" for number in (1, 2)]
    return Play(
        "run again",
        "echo x >> $GATE.runs; n=$(wc -l < $GATE.runs); echo run $n; read -r line; echo got $line; exit 9",
        type_into_each_run,
        "".join(f"run {number}\n{typed[number - 1]}got line {number}\n" for number in (1, 2)),
        options={"pty": terminal, "options": {"restart": "on-failure", "max_restarts": 1, "backoff_s": 0.01}},
    )


def limited(terminal: bool) -> Play:
    """Forked, bounded and moved into its groups before it is exec'd; and in the end exactly as any other."""
    limits = {"memory": "1GB", "processes": 100, "cpu_s": 100, "open_files": 100, "file_size": "1GB"}
    free = conversation(terminal)
    return replace(free, name="limits", options={**free.options, "options": limits})


def silenced(terminal: bool) -> Play:
    """On a busy machine it may be silent too long before its first line."""
    return Play(
        "silence",
        "sleep 1000 & echo ready; wait",
        let_it_end,
        "(ready\n)?",
        end=OverLimit,
        options={"pty": terminal, "options": {"silence_s": 0.8}},
    )


def silenced_and_run_again(terminal: bool) -> Play:
    """A limit ends the first run, and not the job."""
    return Play(
        "silence, run again",
        "echo x >> $GATE.runs; n=$(wc -l < $GATE.runs); echo run $n; [ $n = 2 ] && exit 9; exec sleep 1000",
        let_it_end,
        "(run 1\n)?run 2\n",  # as above
        options={
            "pty": terminal,
            "options": {"silence_s": 0.8, "restart": "on-failure", "max_restarts": 1, "backoff_s": 0.01},
        },
    )


def resized(terminal: bool) -> Play:
    return Play(
        "resize",
        "stty -echo; echo ready; read -r _; stty size; exit 9",
        widen,
        "ready\n33 99\n",
        options={"pty": terminal},
    )


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask

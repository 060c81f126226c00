"""Calls and answers over stdin and stdout, as bgjob.remote.codec has them. One thread reads, and answers what is
quick; every other call has a thread of its own.

The line may be cut at any time, or go silent: then waits are given up, and what changes something is finished,
because a start that is left half-way is a job that is lost. The jobs go on.
"""

import fcntl
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn

from bgjob.agent.allocation import in_step, is_in_step
from bgjob.agent.host import hello, own_environ
from bgjob.agent.tunnel import Tunnel
from bgjob.agent.verbs import CHANGING, QUICK, WAITING, Verbs
from bgjob.api.context import Context, checked_settings, open_context
from bgjob.api.wait import Cancellation
from bgjob.core.config import NO_FILE
from bgjob.core.errors import BgjobError, StoreUnusable
from bgjob.home.home_dir import home_from
from bgjob.link.spawn import Spawner
from bgjob.remote.bootstrap import trouble_of
from bgjob.remote.codec import BEAT, Message, decode, encode, pack_bytes, pack_error, unpack_bytes
from bgjob.remote.shared_root import ELSEWHERE
from bgjob.store.elsewhere import StoreElsewhere
from bgjob.system.line_reader import lines
from bgjob.system.outbox import Outbox

BEAT_S, SILENCE_S = 5.0, 60.0
# How long a start, a kill or input may take once nobody hears of it any more.
FINISH_S = 60.0


class Wire(NamedTuple):
    """The near end, under two descriptors that nothing else in this process knows."""

    read_fd: int
    write_fd: int


def claim() -> Wire:
    """Takes stdin and stdout for messages alone: stray reads now get EOF, stray prints go to stderr."""
    wire = Wire(fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3), fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    with suppress(OSError):  # without a stderr, stray prints go nowhere
        os.dup2(2, 1)
    os.close(null)
    return wire


def serve(environ: Mapping[str, str], silence_s: float = SILENCE_S) -> NoReturn:
    """Until the near end is gone; then the process ends. What hinders it is told in place of the hello."""
    wire = claim()
    outbox = Outbox(wire.write_fd, lambda: None)
    try:
        environ = own_environ(environ)
        context = _context(environ)
    except (BgjobError, OSError) as error:
        trouble = trouble_of(error.__cause__ or error) or ("home_unsafe" * isinstance(error, StoreUnusable))
        outbox.send(encode({"error": {**pack_error(error), "trouble": trouble}}))
        outbox.wait_until_written()
        os._exit(1)
    session = Session(Verbs(context, is_in_step=is_in_step(environ)), outbox, silence_s)
    outbox.send(encode(hello(context.store.home)))
    session.run(wire.read_fd)


def _context(environ: Mapping[str, str]) -> Context:
    """Of the home that this environment names; which may be another machine's, to be read only."""
    if environ.get(ELSEWHERE):
        settings = checked_settings(environ, NO_FILE)
        return Context.of(StoreElsewhere(home_from(environ)), settings, environ, Spawner(zygote=False))
    context = open_context(environ, many=True)
    return in_step(context) if is_in_step(environ) else context


class Session:
    def __init__(self, verbs: Verbs, outbox: Outbox, silence_s: float) -> None:
        self._verbs, self._outbox, self._silence_s = verbs, outbox, silence_s
        self._heard_at = time.monotonic()
        self._waits: dict[int, Cancellation] = {}
        self._tunnels: dict[int, Tunnel] = {}
        self._unfinished: set[threading.Thread] = set()
        self._ending = threading.Lock()

    def run(self, read_fd: int) -> NoReturn:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, lambda *_: self._end_by_thread())
        threading.Thread(target=self._beat, name="beat", daemon=True).start()
        for line in lines(read_fd):
            self._heard_at = time.monotonic()
            if line is None or not self._is_taken(line):
                break
            self._outbox.wait_for_room()
        self._end()

    def _is_taken(self, line: bytes) -> bool:
        """False: it is no message, e.g. the beginning of one that was cut."""
        try:
            self._take(decode(line + b"\n"))
        except (ValueError, KeyError, TypeError):
            return False
        return True

    def _take(self, message: Message) -> None:
        if "verb" in message:
            self._begin(int(message["id"]), str(message["verb"]), message.get("words") or {})
        elif "cancel" in message and (wait := self._waits.get(message["cancel"])):
            wait.cancel()
        elif "to" in message and (tunnel := self._tunnels.get(message["to"])):
            tunnel.end() if message.get("end") else tunnel.send(unpack_bytes(message["data"]))

    def _begin(self, number: int, verb: str, words: Mapping[str, Any]) -> None:
        if verb in QUICK:
            return self._answer(number, lambda: self._verbs.call(verb, words))
        if verb == "connect":
            return self._start(number, self._tunnel(number, str(words.get("job"))), changes=True)
        wait = Cancellation() if verb in WAITING else None
        if wait:
            self._waits[number] = wait
        self._start(number, lambda: self._verbs.call(verb, words, wait), changes=verb in CHANGING)

    def _tunnel(self, number: int, job_id: str) -> Callable[[], None]:
        """It is known at once: the first bytes for it follow."""

        def tell(data: bytes) -> None:
            self._outbox.wait_for_room()
            self._say({"id": number, "more": {"data": pack_bytes(data)}})

        tunnel = self._tunnels[number] = Tunnel(lambda: self._verbs.connected(job_id), tell)
        return tunnel.run

    def _start(self, number: int, work: Callable[[], object], *, changes: bool) -> None:
        thread = threading.Thread(target=self._perform, args=(number, work), daemon=True)
        if changes:
            self._unfinished.add(thread)
        try:
            thread.start()
        except RuntimeError as error:  # the machine gives no more threads
            self._forget(number, thread)
            self._say({"id": number, "error": pack_error(error)})

    def _perform(self, number: int, work: Callable[[], object]) -> None:
        try:
            self._answer(number, work)
        finally:
            self._forget(number, threading.current_thread())

    def _forget(self, number: int, thread: threading.Thread) -> None:
        self._unfinished.discard(thread)
        self._tunnels.pop(number, None)
        if wait := self._waits.pop(number, None):
            wait.close()

    def _answer(self, number: int, work: Callable[[], object]) -> None:
        try:
            answer = encode({"id": number, "ok": work()})
        except Exception as error:  # noqa: BLE001 - a bug is told to who has called, and ends nothing else
            answer = encode({"id": number, "error": pack_error(error)})
        self._outbox.send(answer)

    def _say(self, message: Message) -> None:
        self._outbox.send(encode(message))

    # -- the end ------------------------------------------------------------------------------------

    def _beat(self) -> None:
        while not self._outbox.is_broken and time.monotonic() < self._heard_at + self._silence_s:
            self._say(BEAT)
            time.sleep(min(BEAT_S, self._silence_s))
        self._end()

    def _end_by_thread(self) -> None:
        """By a signal: the thread that it interrupts may hold a lock."""
        threading.Thread(target=self._end).start()

    def _end(self) -> NoReturn:
        self._ending.acquire()  # once
        for wait in list(self._waits.values()):
            wait.cancel()
        for tunnel in list(self._tunnels.values()):
            tunnel.end(finish=True)
        deadline = time.monotonic() + FINISH_S
        for thread in list(self._unfinished):
            thread.join(max(0.0, deadline - time.monotonic()))
        with suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(0)

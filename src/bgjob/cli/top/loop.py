"""`bgjob top` at work: one loop that waits for keys, signals and news, and draws. Threads read the jobs."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping

from bgjob.api.arrangement import Arrangement
from bgjob.api.context import Context
from bgjob.api.interact import check_takes_input
from bgjob.api.kill import kill_job
from bgjob.api.live_reader import LiveReader
from bgjob.api.preview_reader import PreviewReader
from bgjob.cli.top.actions import Act, press
from bgjob.cli.top.draw import draw
from bgjob.cli.top.keys import Keys
from bgjob.cli.top.screen import Screen
from bgjob.cli.top.signals import ENDING, EndedBySignal, Signals, stop
from bgjob.cli.top.view import View
from bgjob.cli.words import in_our_words
from bgjob.core.errors import BgjobError
from bgjob.core.job import Job, called
from bgjob.system.waker import Waker

STDIN = 0
# Ages are shown in seconds.
DRAW_EVERY_S = 1.0
# An ESC that is followed by nothing for so long is the key of that name.
ESCAPE_S = 0.05
READ_BYTES = 1024


def show_jobs(context: Context, arrangement: Arrangement, environ: Mapping[str, str]) -> None:
    """Until the person has enough. EndedBySignal: the terminal is as it was before."""
    waker = Waker()
    with contextlib.ExitStack() as opened:
        signals = opened.enter_context(Signals(waker))
        screen = opened.enter_context(Screen(environ))
        loop = _Loop(context, View(arrangement), waker, signals, screen)
        opened.callback(loop.close)
        loop.run()


class _Loop:
    def __init__(self, context: Context, view: View, waker: Waker, signals: Signals, screen: Screen) -> None:
        self._context, self._view, self._waker = context, view, waker
        self._signals, self._screen, self._keys = signals, screen, Keys()
        self._jobs = LiveReader(context, waker.wake)
        self._preview = PreviewReader(context, waker.wake)
        self._is_over = False
        self._failure: BaseException | None = None

    def close(self) -> None:
        threading.excepthook = threading.__excepthook__
        self._jobs.close()
        self._preview.close()

    def run(self) -> None:
        threading.excepthook = self._keep_failure  # a trace would be written into the screen
        self._view.resize(*self._screen.size)
        self._jobs.start()
        self._preview.start()
        while not self._is_over:
            self._update()
            draw(self._screen, self._view, time.time())
            self._wait()

    def _keep_failure(self, failed: threading.ExceptHookArgs) -> None:
        self._failure = failed.exc_value
        self._waker.wake()

    def _update(self) -> None:
        """From what the threads have read. What they fail of is a bug, and as loud as one of our own."""
        if self._failure:
            raise self._failure
        if self._view.live is not self._jobs.latest:
            self._view.update(self._jobs.latest)
        if self._view.preview is not self._preview.latest:
            self._view.show_preview(self._preview.latest)
        self._preview.show(self._view.wish)

    # -- what comes ---------------------------------------------------------------------------------

    def _wait(self) -> None:
        poll = select.poll()
        for fd in (STDIN, self._waker.fileno()):
            poll.register(fd, select.POLLIN)
        ready = {fd for fd, _ in poll.poll(self._longest_wait_s() * 1000)}
        for number in set(self._waker.take()) - {0}:
            self._take_signal(number)
        if STDIN in ready:
            self._press(self._keys.feed(_typed()))
        elif self._view.typed_filter:
            self._view.apply_typed_filter()
        elif self._keys.is_held and not ready:
            self._press(self._keys.finish())

    def _longest_wait_s(self) -> float:
        if self._view.typed_filter:
            return 0.0
        return ESCAPE_S if self._keys.is_held else DRAW_EVERY_S

    def _press(self, keys: list[str]) -> None:
        for key in keys:
            if act := press(self._view, key):
                self._do(act)

    def _take_signal(self, number: int) -> None:
        if number in ENDING:
            raise EndedBySignal(number)
        if number == signal.SIGTSTP:
            self._stop(os.getpid())
        elif number == signal.SIGCONT:
            self._screen.take()  # who stopped us otherwise than by ctrl-z may have changed its modes
        self._redraw()

    # -- what is to be done -------------------------------------------------------------------------

    def _do(self, act: Act) -> None:
        match act:
            case Act("quit"):
                self._is_over = True
            case Act("interrupt"):
                raise EndedBySignal(signal.SIGINT)
            case Act("stop"):
                self._stop(0)
            case Act("redraw"):
                self._redraw()
            case Act("attach", Job() as job):
                self._attach(job)
            case Act("kill", Job() as job):
                self._view.message = f"{called(job.spec)} is being killed …"
                threading.Thread(target=self._kill, args=[job], name="kill").start()

    def _redraw(self) -> None:
        self._screen.resize()
        self._view.resize(*self._screen.size)

    def _stop(self, pid: int) -> None:
        with self._screen.away():
            stop(pid)
        self._redraw()

    def _attach(self, job: Job) -> None:
        """By a process of its own: attach forks, and a fork of a process with threads may hang."""
        try:
            check_takes_input(self._context, self._context.store.load(job.id))
        except BgjobError as problem:
            self._view.message = in_our_words(problem)
            return
        with self._screen.away(), self._signals.as_before():
            subprocess.run([sys.executable, "-m", "bgjob", "attach", job.id], check=False)
        self._redraw()
        self._jobs.look_now()

    def _kill(self, job: Job) -> None:
        """In a thread of its own, for which the process waits when it ends: a kill takes seconds at most."""
        try:
            done = kill_job(self._context, job.id)
            processes = f"{done.processes} {'process' if done.processes == 1 else 'processes'}"
            message = f"{called(job.spec)}: {done.status.replace('_', ' ')} ({processes})"
        except BgjobError as problem:
            message = in_our_words(problem)
        self._view.message = message
        self._jobs.look_now()
        self._waker.wake()


def _typed() -> bytes:
    with contextlib.suppress(OSError):
        if typed := os.read(STDIN, READ_BYTES):
            return typed
    raise EndedBySignal(signal.SIGHUP)  # the terminal is gone

"""A machine of a target, with a home of its own: kept connected, and its jobs kept copied."""

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from bgjob.core.errors import BgjobError, JobNotFound, TargetUnreachable
from bgjob.home import event_log, jobdir, target_dir
from bgjob.home.event_log import EVENTS
from bgjob.home.jobdir import OUTCOME
from bgjob.remote import background
from bgjob.remote.channel import Channel
from bgjob.remote.messages import said
from bgjob.remote.replica import Replica, in_parts
from bgjob.store.record_schema import event_of

NEWS_S, NEWS_BYTES = 30.0, 1 << 19
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 15.0
STEADY_S = 5.0
FOLLOWED_AT_ONCE = 20
# Pace of a host that sends events without a pause: our log keeps 16 MB for all jobs.
BURST_BYTES, EVENTS_BYTES_PER_S = 1 << 20, 1 << 16
# An agent pauses as long between two answers with news.
BREATHER_S = 0.01
FIRST_EVENT = "1.0"

Connect = Callable[[], Awaitable[Channel]]


class Host:
    """`key`: its name within the target; "" where the target is one machine.

    `resume`: asks for a job whose start was not answered, before the job is followed.
    """

    def __init__(
        self,
        target: str,
        key: str,
        connect: Connect,
        note: Callable[[str, str | None], None],
        resume: Callable[[Replica, Channel], Awaitable[None]],
        on_end: Callable[[Replica, Mapping[str, Any]], Awaitable[None]],
    ) -> None:
        self.target, self.key = target, key
        self._connect, self._note, self._resume, self._on_end = connect, note, resume, on_end
        self.replicas: dict[str, Replica] = {}
        self._channel: Channel | None = None
        self._connected = asyncio.Event()
        self._wanted = asyncio.Event()
        self._was_connected = False
        self._running: asyncio.Task[None] | None = None
        self._attempts, self._progress = 0, asyncio.Event()
        self.why: str | None = None
        """Why it cannot be reached."""
        self._trouble = ""
        self.hello: Mapping[str, Any] = {}
        self._early_ends: dict[str, Mapping[str, Any]] = {}
        self._is_doubtful = False
        """True if its last connection answered nonsense. It counts as reached once it has sent news."""
        self._event_bytes, self._paced_at = 0.0, 0.0

    @property
    def was_cut(self) -> bool:
        """Its last connection was made: that it is not there now is no failed attempt to make one."""
        return self._was_connected

    @property
    def name(self) -> str:
        return str(self.hello.get("host") or self.key or self.target)

    # -- what is asked of it -------------------------------------------------------------------------

    async def ready(self, patience_s: float | None = None) -> Channel:
        """Connected. TargetUnreachable: not in time, or a new attempt has failed."""
        self._start()
        self._wanted.set()  # no pause before the next attempt: a caller waits
        if self._channel is None and patience_s is not None:
            try:
                async with asyncio.timeout(patience_s):
                    await self._until_connected_or_failed()
            except TimeoutError:
                why = f"no connection within {patience_s:g} s"
                raise TargetUnreachable(self.target, why, trouble="no_answer") from None
        elif self._channel is None:
            await self._connected.wait()
        if self._channel is None:
            why = self.why or "it is not connected"
            raise TargetUnreachable(self.target, why, trouble=self._trouble)
        return self._channel

    async def _until_connected_or_failed(self) -> None:
        before = self._attempts
        while self._running and self._channel is None and (self._attempts <= before or self.why is None):
            await self._progress.wait()

    async def follow(self, replica: Replica) -> None:
        """Copy the job from now on. An error of the connection is none: it is followed at the next one."""
        self.replicas[replica.id] = replica
        self._start()
        if self._channel is not None:
            with contextlib.suppress(TargetUnreachable):
                await self._follow(self._channel, replica)

    def forget(self, replica: Replica) -> None:
        """Copy nothing more of the job. What its machine answers to that does not matter."""
        if self.replicas.pop(replica.id, None) and self._channel is not None:
            background.start(_unfollow(self._channel, replica.id))

    async def copied(self, replica: Replica, log_end: int, *, outcome: bool = False) -> None:
        """Wait until the copy of the job has all that an answer was based on: its reader must not see less.

        While the host cannot be reached, this keeps waiting.
        """
        if not replica.has(log_end, outcome=outcome):
            replica.asked += 1
            look = replica.asked
            with contextlib.suppress(TargetUnreachable):  # it is requested again at the next connection
                await self._ask_to_look(self._channel, replica)
            await replica.until_has(log_end, outcome=outcome, look=look)

    async def _ask_to_look(self, channel: Channel | None, replica: Replica) -> None:
        if channel and replica.asked > replica.looked:
            await channel.call("look", job=replica.id, number=replica.asked)

    async def disconnect(self) -> None:
        """The next connection may go another way."""
        if self._channel is not None:
            await self._channel.close()

    async def close(self) -> None:
        if self._running:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        self._running = None
        self._connected.set()  # wakes the callers of `ready`: there is no connection
        self._connected.clear()
        self._tell_progress()

    # -- the connection --------------------------------------------------------------------------------

    def _start(self) -> None:
        if self._running is None or self._running.done():
            self._attempts, self._progress = 0, asyncio.Event()
            self._running = background.start(self._run())

    async def _run(self) -> None:
        pause_s = 0.0
        while True:
            began, self._was_connected = time.monotonic(), False
            self._wanted.clear()
            try:
                await self._attempt()
            except TargetUnreachable as error:
                self._lost_connection(error.why, error.trouble)
            except BgjobError as error:  # it answers, and cannot serve: its home is not safe, for example
                self._lost_connection(str(error), error.trouble)
            except OSError as error:  # our own disk: the copies go on from what they have
                self._lost_connection(f"its jobs cannot be copied: {error}")
            if time.monotonic() > began + STEADY_S or (self._was_connected and self._has_unanswered()):
                pause_s = 0.0
            pause_s = min(max(2 * pause_s, FIRST_PAUSE_S), LONGEST_PAUSE_S)
            with contextlib.suppress(TimeoutError):
                # not wait_for: before Python 3.12 it can swallow the cancellation by `close`
                async with asyncio.timeout(pause_s):
                    await self._wanted.wait()

    def _has_unanswered(self) -> bool:
        """Of a start, whose caller waits."""
        return any(replica.phase == "submitting" for replica in self.replicas.values())

    def _lost_connection(self, why: str, trouble: str = "") -> None:
        self._channel, self.why, self._trouble = None, why, trouble
        self._connected.clear()
        self._note(self.key, why)
        self._attempts += not self._was_connected  # the end of a connection is no failed attempt to make one
        self._tell_progress()

    def _tell_progress(self) -> None:
        self._progress.set()
        self._progress = asyncio.Event()

    async def _attempt(self) -> None:
        channel = await self._connect()
        try:
            followed = await self._follow_all(channel, frozenset())
            if self._is_doubtful:
                await self._copy_news(channel, 0.0)
                await self._follow_all(channel, followed)
            self.hello, self.why, self._channel = channel.hello, None, channel
            self._was_connected, self._is_doubtful = True, False
            self._note(self.key, None)
            self._connected.set()
            self._tell_progress()
            for replica in list(self.replicas.values()):
                await self._ask_to_look(channel, replica)  # wanted before the channel was known
            await self._copy(channel)
        finally:
            self._is_doubtful = self._is_doubtful or channel.answered_nonsense
            self._channel = None
            self._connected.clear()
            await channel.close()

    async def _follow_all(self, channel: Channel, followed: Collection[str]) -> Collection[str]:
        """Follow all jobs but these, and return the ids of all. Also jobs that come meanwhile: until the channel is
        known, nothing else follows them."""
        seen = set(followed)
        while new := [each for each in self.replicas.values() if each.id not in seen][:FOLLOWED_AT_ONCE]:
            seen |= {each.id for each in new}
            known = [each for each in new if each.phase != "submitting"]
            for replica in (each for each in new if each not in known):
                await self._follow(channel, replica)  # in their order: one may be to begin after another
            await asyncio.gather(*(self._follow(channel, each) for each in known))
        return seen

    async def _follow(self, channel: Channel, replica: Replica) -> None:
        try:
            if replica.phase == "submitting":
                await self._resume(replica, channel)
            if replica.id in self.replicas:
                await channel.call("follow", job=replica.id, have=replica.have())
                await self._ask_to_look(channel, replica)
        except JobNotFound:
            await self._on_end(replica, {"missing": True})

    # -- what it tells -----------------------------------------------------------------------------------

    async def _copy(self, channel: Channel) -> None:
        while True:
            await self._copy_news(channel, NEWS_S)

    async def _copy_news(self, channel: Channel, timeout_s: float) -> None:
        cursor = self._cursor()
        news = await channel.call("news", since=cursor, timeout_s=timeout_s, most_bytes=NEWS_BYTES)
        told: dict[str, Replica] = {}
        for job_id, new in news["jobs"].items():
            if await self._apply(channel, job_id, new):
                told[job_id] = self.replicas[job_id]
        for job_id in news["looked"].keys() & self.replicas.keys():
            self.replicas[job_id].note_look(news["looked"][job_id])
        self._tell(news["events"])
        if news["cursor"] != cursor:
            self._keep_cursor(news["cursor"])
        for job_id, replica in told.items():
            if job_id not in self.replicas:
                continue
            self._tell_early_end(replica)
            is_held = replica.told_outcome is not None and not replica.has_outcome
            if is_held or news["jobs"][job_id].keys() & {"over", "lost", "missing"}:
                await self._on_end(replica, news["jobs"][job_id])
        await asyncio.sleep(self._pause_after(news["events"]))

    async def _apply(self, channel: Channel, job_id: str, news: Mapping[str, Any]) -> bool:
        """Copy the news of one job. False: the job is none of ours, or was forgotten meanwhile."""
        if job_id not in self.replicas:
            return False
        await self._note_left_running(channel, self.replicas[job_id], news)
        for part in in_parts(news):
            await asyncio.sleep(0)  # other tasks get their turn, whatever a host sends
            if job_id not in self.replicas:
                return False
            self.replicas[job_id].apply(part)
        return True

    def _pause_after(self, events: list[dict[str, Any]]) -> float:
        """Return a pause that keeps a flooding host from pushing the events of other jobs out of our log."""
        now = time.monotonic()
        left = max(0.0, self._event_bytes - (now - self._paced_at) * EVENTS_BYTES_PER_S)
        self._event_bytes, self._paced_at = left + sum(len(json.dumps(event)) for event in events), now
        return max(BREATHER_S, (self._event_bytes - BURST_BYTES) / EVENTS_BYTES_PER_S)

    async def _note_left_running(self, channel: Channel, replica: Replica, news: Mapping[str, Any]) -> None:
        """Before its end is seen here: a job that has ended may have left processes, which its shim looks after."""
        has_ended = replica.has_outcome or OUTCOME in news.get("records", {})
        if has_ended and not news.get("over"):
            status = await channel.call("status", job=replica.id, detail=False)
            replica.note(left_running=status["left_running"])

    def _tell(self, events: list[dict[str, Any]]) -> None:
        """Into our own log of events, with the times that they have there."""
        for event in map(event_of, events):
            replica = self.replicas.get(event["job_id"])
            if replica is None:
                continue
            event = {**event, "name": replica.spec.name}
            if event.get("reason"):
                event["reason"] = said(self.target, str(event["reason"]))
            if event["kind"] == "input":
                replica.note(asks_at=replica.log_end)
            if event["kind"] == "ended" and replica.holds_outcome:
                continue  # who decides on its end tells it
            if event["kind"] == "ended" and not replica.has_outcome:
                self._early_ends[replica.id] = event  # its last output is still to come
            else:
                _append(event)

    def _tell_early_end(self, replica: Replica) -> None:
        if replica.has_outcome and (event := self._early_ends.pop(replica.id, None)):
            _append(event)

    def _cursor(self) -> str:
        """The first time from the beginning: a job may have started before we were connected."""
        record = jobdir.read_record(self._cursor_path) or {}
        cursor = record.get("cursor")
        return cursor if isinstance(cursor, str) else FIRST_EVENT

    def _keep_cursor(self, cursor: str) -> None:
        jobdir.write_record(self._cursor_path, {"cursor": cursor})

    @property
    def _cursor_path(self) -> str:
        name = "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in self.key) or "host"
        return f"{target_dir.directory(os.curdir, self.target)}/{target_dir.CURSORS}/{name}.json"


class SteeringHost(Host):
    """A connection of its own, by which jobs are steered: nothing is copied."""

    async def _copy(self, channel: Channel) -> None:
        await channel.wait_broken()
        raise TargetUnreachable(self.target, "the connection was cut")


async def _unfollow(channel: Channel, job_id: str) -> None:
    with contextlib.suppress(BgjobError):
        await channel.call("unfollow", job=job_id)


def _append(event: Mapping[str, Any]) -> None:
    details = {name: value for name, value in event.items() if name not in ("kind", "job_id")}
    event_log.append(EVENTS, str(event["kind"]), str(event["job_id"]), **details)

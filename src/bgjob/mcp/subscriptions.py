"""Tells clients what has changed: of the handshake, at any time; of newer ones, while they listen.

A client is told of each resource at most a few times a second, and not again while it has not read the last
notification: what it does not read does not pile up. (Patterns, Subscriptions; of the handshake: Resources.)
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from typing import Any

from bgjob.api import Cancellation, Jobs
from bgjob.api.changes import Changes, Subject
from bgjob.api.kept_waits import KeptWait, WaitNotFound, kept_wait, sleep_until_over
from bgjob.api.session import reporting
from bgjob.core.errors import BgjobError, StoreUnusable
from bgjob.home.sessions import Claims
from bgjob.mcp.caller import Caller, Channel
from bgjob.mcp.resources import located, told
from bgjob.mcp.stderr import report
from bgjob.mcp.tasks import seen
from bgjob.mcp.uris import TARGETS_URI, ResourceUri, parsed
from bgjob.protocol.jsonrpc import INVALID_PARAMS, RpcError
from bgjob.protocol.request import Request
from bgjob.protocol.subscriptions import (
    MOST_RESOURCES,
    Wanted,
    acknowledgement,
    closing_result,
    list_changed,
    resource_updated,
)
from bgjob.protocol.tasks import Task
from bgjob.system.readiness import is_readable

ASK_EVERY_S = 0.5
LIST_CHANGED = None
"""The key of the list of resources, beside the URIs of resources."""


def subject_of(resource: ResourceUri) -> Subject:
    if resource.view == "targets":
        raise RpcError(INVALID_PARAMS, f"{TARGETS_URI} cannot be subscribed to: read it when you need it.")
    return Subject(resource.view, resource.job)


# -- of newer revisions -----------------------------------------------------------------------------


def listen(jobs: Jobs, request: Request, caller: Caller) -> Mapping[str, Any]:
    """Until the caller's wait is cancelled."""
    with closing(Changes[str | None](jobs.context)) as changes:
        wanted = _added(changes, Wanted.of(request))
        waits = list(_kept(jobs, wanted))
        wanted = wanted._replace(task_ids=tuple(wait.id for wait in waits))
        caller.send(acknowledgement(request, wanted))
        for wait in waits:
            threading.Thread(target=_tell_of_task, args=(jobs, wait, request, caller), daemon=True).start()
        while keys := changes.wait(caller.cancellation):
            for uri in keys:
                caller.send(list_changed(request) if uri is None else resource_updated(uri, request))
            caller.drain()
    return closing_result(request)


def _added(changes: Changes[str | None], asked: Wanted) -> Wanted:
    """Without what there is not."""
    if asked.list_changed:
        changes.add(LIST_CHANGED, Subject("existence"))
    return asked._replace(uris=tuple(uri for uri in asked.uris if _is_added(changes, uri)))


def _kept(jobs: Jobs, wanted: Wanted) -> Iterator[KeptWait]:
    for task_id in wanted.task_ids:
        with suppress(WaitNotFound, StoreUnusable):
            yield kept_wait(jobs.context, task_id)


def _tell_of_task(jobs: Jobs, wait: KeptWait, request: Request, caller: Caller) -> None:
    """Each time that it stands otherwise, from how it stands now to its end, or that of the subscription."""
    told: Task | None = None
    try:
        while told is None or not told.is_over:
            claims, cancellation = Claims(), caller.cancellation
            with reporting(claims):
                task = seen(jobs, wait, request)
                if told is None or (task.status, task.input_requests) != (told.status, told.input_requests):
                    caller.send(task.notification(request))
                    caller.drain()
                    told = task
            if caller.is_cancelled:
                claims.give_up()
            claims.reported()
            if task.status == "input_required":  # until it is answered, nothing is to be waited for
                is_cancelled = is_readable(cancellation.signal.fileno(), ASK_EVERY_S)
            else:
                is_cancelled = not task.is_over and sleep_until_over(jobs.context, wait, cancellation)
            if is_cancelled:
                return
    except (OSError, ValueError):
        return  # the subscription was closed meanwhile
    except Exception:  # noqa: BLE001
        report("Internal error in a subscription to a task")


def _is_added(changes: Changes[str | None], uri: str) -> bool:
    with suppress(BgjobError, RpcError):
        if resource := parsed(uri):
            changes.add(uri, subject_of(resource))
            return True
    return False


# -- of the handshake -------------------------------------------------------------------------------


class Subscriptions:
    """Of one client. A thread tells it of all of them, from the first to the last."""

    def __init__(self, jobs: Jobs, channel: Channel) -> None:
        self._jobs, self._channel = jobs, channel
        self._mutex = threading.Lock()
        self._uris: set[str] = set()
        self._open: tuple[Changes[str], Cancellation] | None = None

    def subscribe(self, request: Request) -> None:
        uri = request.text("uri")
        subject = subject_of(located(uri, request))
        with self._mutex:
            if uri not in self._uris and len(self._uris) >= MOST_RESOURCES:
                raise RpcError(INVALID_PARAMS, f"There are {MOST_RESOURCES} subscriptions; unsubscribe one.")
            changes = self._changes()
            try:
                changes.add(uri, subject)
                self._uris.add(uri)
            except BgjobError as problem:
                raise told(problem, uri, request) from None
            finally:
                self._end_if_unused()

    def unsubscribe(self, request: Request) -> None:
        """After this the client is not told."""
        uri = request.text("uri")
        with self._mutex:
            self._forget(uri)

    def close(self) -> None:
        with self._mutex:
            self._uris.clear()
            self._end_if_unused()

    def _changes(self) -> Changes[str]:
        if self._open is None:
            self._open = Changes[str](self._jobs.context), Cancellation()
            threading.Thread(target=self._tell, args=self._open, name="subscriptions", daemon=True).start()
        return self._open[0]

    def _forget(self, uri: str) -> None:
        self._uris.discard(uri)
        if self._open:
            self._open[0].discard(uri)
        self._end_if_unused()

    def _end_if_unused(self) -> None:
        if self._open and not self._uris:
            self._open[1].cancel()
            self._open = None

    def _tell(self, changes: Changes[str], cancellation: Cancellation) -> None:
        try:
            while uris := changes.wait(cancellation):
                for uri in uris:
                    self._tell_of(uri, changes)
                self._channel.drain()
        except Exception:  # noqa: BLE001
            report("Internal error in a subscription")
        finally:
            self._close(changes)
            cancellation.close()

    def _close(self, changes: Changes[str]) -> None:
        """Who subscribes after this gets a new thread."""
        with self._mutex:
            changes.close()
            if self._open and self._open[0] is changes:
                self._open = None
                self._uris.clear()

    def _tell_of(self, uri: str, changes: Changes[str]) -> None:
        with self._mutex:
            is_current = self._open is not None and self._open[0] is changes
            if not is_current or uri not in self._uris:
                return
            self._channel.send(resource_updated(uri))
            if uri not in changes:  # removed
                self._forget(uri)

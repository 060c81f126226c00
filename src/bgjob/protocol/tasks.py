"""Tasks: an answer that comes later. Two kinds, which have nothing on the wire in common.

The extension `io.modelcontextprotocol/tasks` goes with the stateless revisions: the server decides that an
answer becomes a task, for clients that declare the extension in the same request. Before that 2025-11-25 had
an experiment, now called tasks of the handshake here: the client decides, call by call. (SEP-2663; of the
handshake: Utilities, Tasks.)
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from bgjob.protocol.jsonrpc import Message, notification
from bgjob.protocol.methods import TASKS_EXTENSION
from bgjob.protocol.request import Request
from bgjob.protocol.revisions import PREFIX, SUBSCRIPTION_KEY

Status = Literal["working", "input_required", "completed", "cancelled", "failed"]
Result = dict[str, Any]

HANDSHAKE_SUPPORT: Mapping[str, Any] = {"execution": {"taskSupport": "optional"}}
"""Of a tool in a list, for clients that know tasks of the handshake."""
RELATED_KEY = PREFIX + "related-task"
POLL_MS = 2000


class Task(NamedTuple):
    id: str
    status: Status
    created_at: str
    updated_at: str
    message: str | None = None
    result: Mapping[str, Any] | None = None
    """Of a completed task: as the request itself would have been answered."""
    error: Mapping[str, Any] | None = None
    """Of a failed one: a JSON-RPC error."""
    input_requests: Mapping[str, Any] | None = None

    def created(self) -> Result:
        """The answer to the request that has become a task. (Task Creation)"""
        return {"resultType": "task", **self._head()}

    def detailed(self) -> Result:
        """The answer to tasks/get. (DetailedTask)"""
        inside = {"result": self.result, "error": self.error, "inputRequests": self.input_requests}
        return {**self._head(), **{word: value for word, value in inside.items() if value is not None}}

    def of_handshake(self) -> Result:
        times = {"createdAt": self.created_at, "lastUpdatedAt": self.updated_at}
        known = {"taskId": self.id, "status": self._handshake_status, "statusMessage": self.message, **times}
        return {**_given(known), "ttl": None, "pollInterval": POLL_MS}

    def notification(self, request: Request) -> Message:
        """`request`: the subscription. (Task Status Notifications)"""
        tag = {"_meta": {SUBSCRIPTION_KEY: request.id}}
        return notification("notifications/tasks", {**tag, **self.detailed()})

    @property
    def is_over(self) -> bool:
        return self.status in ("completed", "cancelled", "failed")

    @property
    def _handshake_status(self) -> Status:
        """There, a tool that answers with an error has failed."""
        return "failed" if self.result and self.result.get("isError") else self.status

    def _head(self) -> Result:
        times = {"createdAt": self.created_at, "lastUpdatedAt": self.updated_at}
        known = {"taskId": self.id, "status": self.status, "statusMessage": self.message, **times}
        return {**_given(known), "ttlMs": None, "pollIntervalMs": POLL_MS}


def knows_tasks(request: Request) -> bool:
    return request.has_extension(TASKS_EXTENSION)


def wants_task(request: Request) -> bool:
    """The client has asked for a task of the handshake, and may."""
    return request.has_handshake_tasks and isinstance(request.params.get("task"), dict)


def knows_elicitation(request: Request) -> bool:
    """It can ask its user to fill in a form. (Elicitation, Capabilities)"""
    declared = request.client.capabilities.get("elicitation")
    return isinstance(declared, dict) and (not declared or "form" in declared)


def form(message: str, fields: Mapping[str, Any]) -> Result:
    """A request for input, with a field for each of these, all of which must be given."""
    schema = {"type": "object", "properties": dict(fields), "required": list(fields)}
    params = {"mode": "form", "message": message, "requestedSchema": schema}
    return {"method": "elicitation/create", "params": params}


def related(result: Mapping[str, Any], task_id: str) -> Result:
    """The answer to tasks/result."""
    return {**result, "_meta": {**result.get("_meta", {}), RELATED_KEY: {"taskId": task_id}}}


def _given(known: Mapping[str, Any]) -> Result:
    return {word: value for word, value in known.items() if value is not None}

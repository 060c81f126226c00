"""The tools that the conformance suites ask for to judge tasks: each is a call of execute_command or wait_for_job.

So what is judged is how bgjob makes, tells, updates and cancels tasks of its own. The server's calls become
tasks at once (MCP_BG_TASK_AFTER=0).
"""

import shlex
import time
from collections.abc import Callable, Mapping
from typing import Any

from bgjob.api import Jobs
from bgjob.api.kept_waits import KeptWait, WaitEnd, end_wait, keep_wait
from bgjob.mcp.caller import Caller
from bgjob.mcp.service import Service
from bgjob.protocol.jsonrpc import INTERNAL_ERROR, Message
from bgjob.protocol.methods import TASKS_EXTENSION
from bgjob.protocol.request import Request
from bgjob.protocol.tasks import form
from tests.support.waiting import wait_until

Params = Mapping[str, Any]
Perform = Callable[[Request, Caller], Message]
ASK = "printf '%s? '; read answer; echo $answer"
NAME = {"user_name": form("What is your name?", {"name": {"type": "string"}})}
NAMES = (
    "greet",
    "slow_compute",
    "failing_job",
    "protocol_error_job",
    "confirm_delete",
    "multi_input",
    "test_tool_with_task",
)


class TaskFixtures:
    def __init__(self, jobs: Jobs, perform: Perform) -> None:
        self._jobs, self._perform = jobs, perform

    def answer(self, request: Request, caller: Caller) -> Message | None:
        """None: the request is not about a fixture."""
        if request.method == "tasks/update":
            return self._perform(with_input(request), caller)
        name, given = request.params.get("name"), request.mapping("arguments")
        if request.method != "tools/call" or name not in NAMES:
            return None
        match name:
            case "greet":
                words = {"type": "text", "text": f"Hello, {given.get('name')}!"}
                return request.result({"content": [words]})
            case "failing_job":
                request.require_extension(TASKS_EXTENSION)
                return self._run(request, caller, f"sleep 1; rm -rf {self._jobs.home}/jobs/$BGJOB_ID")
            case "protocol_error_job":
                return self._broken(request)
            case "confirm_delete":
                return self._run(request, caller, ASK % "Delete", stdin="open")
            case "multi_input":
                return self._ask_twice(request, caller)
            case "test_tool_with_task" if not request.params.get("inputResponses"):
                return request.result(
                    {"resultType": "input_required", "requestState": "1", "inputRequests": NAME}
                )
            case "test_tool_with_task":
                told = request.params["inputResponses"]["user_name"]["content"]["name"]
                return self._run(request, caller, f"sleep 0.2; echo {shlex.quote(told)}")
            case _:
                return self._run(request, caller, f"sleep {given.get('seconds', 0.2)}; echo done")

    def _run(self, request: Request, caller: Caller, command: str, **arguments: Any) -> Message:
        return self._call(request, caller, "execute_command", command=command, wait_s=45, **arguments)

    def _call(self, request: Request, caller: Caller, tool: str, **arguments: Any) -> Message:
        params = {**request.params, "name": tool, "arguments": arguments}
        return self._perform(request._replace(params=params), caller)

    def _broken(self, request: Request) -> Message:
        """What a job cannot bring about: a wait that ended with an error of the protocol."""
        context, now = self._jobs.context, time.time()
        wait = keep_wait(context, KeptWait(id="", job_ids=(), created_at=now, deadline=None))
        end_wait(context, wait, WaitEnd("failed", now, {"code": INTERNAL_ERROR, "message": "It broke."}))
        created = {"taskId": wait.id, "status": "working", "ttlMs": None, "pollIntervalMs": 100}
        times = dict.fromkeys(("createdAt", "lastUpdatedAt"), "2026-01-01T00:00:00Z")
        return request.result({"resultType": "task", **created, **times})

    def _ask_twice(self, request: Request, caller: Caller) -> Message:
        """A wait for two jobs: each sits at a prompt."""
        ids = [self._jobs.execute(ASK % word).id for word in ("First", "Second")]
        wait_until(lambda: all(self._jobs.status(each).waits_for_input for each in ids))
        return self._call(request, caller, "wait_for_job", job_ids=ids, mode="all")


def with_input(request: Request) -> Request:
    """The suites fill in forms of their own."""
    responses = request.params.get("inputResponses")
    if not isinstance(responses, dict):
        return request
    filled = {
        key: {**given, "content": {"input": "yes", **(given.get("content") or {})}}
        for key, given in responses.items()
        if isinstance(given, dict)
    }
    return request._replace(params={**request.params, "inputResponses": {**responses, **filled}})


class TaskFixtureService(Service):
    """Performs what is not about a fixture as ever."""

    def perform(self, request: Request, caller: Caller) -> Message:
        fixtures = TaskFixtures(self._jobs, super().perform)
        return fixtures.answer(request, caller) or super().perform(request, caller)

"""A real server with a real MCP client."""

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from anyio.from_thread import BlockingPortal
from mcp import Client, StdioServerParameters
from mcp.types import Implementation

CLAUDE_CODE = "claude-code"
"""What it calls itself: of this client alone the environment names the session."""


class ToolError(Exception):
    """What a model would read."""


class Server:
    """`bgjob mcp` in a process of its own, and the SDK's client on its stdin and stdout."""

    def __init__(
        self,
        portal: BlockingPortal,
        home: Path,
        environment: dict[str, str],
        mode: str,
        client: str = CLAUDE_CODE,
    ) -> None:
        """`client`: what the client calls itself."""
        self._portal, self._pid_file = portal, home.parent / f"pid-{os.urandom(4).hex()}"
        script = f'echo $$ > {self._pid_file}; exec "{sys.executable}" -m bgjob mcp'
        parameters = StdioServerParameters(
            command="/bin/sh",
            args=["-c", script],
            env={**os.environ, "BGJOB_HOME": str(home), **environment},
        )
        self._leave = contextlib.ExitStack()
        sdk_client = Client(parameters, mode=mode, client_info=Implementation(name=client, version="1"))
        self.client: Client = self._leave.enter_context(portal.wrap_async_context_manager(sdk_client))

    @property
    def pid(self) -> int:
        return int(self._pid_file.read_text())

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = self._portal.call(lambda: self.client.call_tool(tool, arguments))
        text = "".join(getattr(part, "text", "") for part in result.content)
        if result.is_error:
            raise ToolError(text)
        assert result.structured_content is not None
        return dict(result.structured_content)

    def read_resource(self, uri: str) -> dict[str, Any]:
        """Its only content."""
        answer = self._portal.call(self.client.read_resource, uri)
        (content,) = answer.model_dump(mode="json", by_alias=True)["contents"]
        return dict(content)

    def listed_resources(self) -> list[dict[str, Any]]:
        """Jobs, and templates."""
        calls = (self.client.list_resources, self.client.list_resource_templates)
        return [self._portal.call(each).model_dump(mode="json") for each in calls]

    def execute(self, command: str, **options: Any) -> str:
        return str(self.call("execute_command", command=command, **options)["job_id"])

    def status(self, job_id: str) -> dict[str, Any]:
        return self.call("get_job_status", job_id=job_id)

    def output(self, job_id: str, **options: Any) -> dict[str, Any]:
        return self.call("get_job_output", job_id=job_id, **options)

    def wait_until_printed(self, job_id: str, text: str) -> None:
        """Until it is in the log: what a job has written may be in its pipe for another moment."""
        answer = self.call("wait_for_job", job_ids=[job_id], pattern=text, literal=True, timeout_s=30)
        assert answer["jobs"][0]["condition"] == "pattern"

    def talk(self, job_id: str, typed: str, answer: str) -> None:
        """The job answers so, and nothing else: at once, or, on a busy machine, when the call is over."""
        reply = self.call("interact_with_job", job_id=job_id, input=typed, wait_s=1)
        said, cursor = reply["stdout"], reply["cursor"]
        while said != answer and answer.startswith(said):
            (job,) = self.call("wait_for_job", job_ids=[job_id], pattern=".", since=cursor, timeout_s=30)[
                "jobs"
            ]
            assert job["condition"] == "pattern"
            said, cursor = said + job["stdout"], job["cursor"]
        assert said == answer

    def kill(self) -> None:
        """SIGKILL: no cleanup, no goodbye."""
        os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        with contextlib.suppress(Exception):  # the client of a killed server has reason to complain
            self._leave.close()


StartServer = Callable[..., Server]

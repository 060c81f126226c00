"""What a server is, to all its clients alike. (Specification: Discovery; of the handshake: Lifecycle.)"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from bgjob.protocol.jsonrpc import INVALID_PARAMS, RpcError
from bgjob.protocol.methods import LIFECYCLE, Method
from bgjob.protocol.revisions import STATELESS, WITH_TASKS, negotiated

Result = dict[str, Any]


class Server(NamedTuple):
    name: str
    title: str
    version: str
    instructions: str
    methods: Mapping[str, Method]
    """Those that the application performs."""
    capabilities: Mapping[str, Any]
    extensions: Mapping[str, Any] = {}
    """The settings of each extension that the server speaks."""
    handshake_tasks: Mapping[str, Any] = {}
    """Capabilities beside the others, for a client that knows the tasks of the handshake."""
    cache_scope: Literal["public", "private"] = "public"
    """Private: clients with other rights may get other lists."""

    @property
    def info(self) -> Result:
        return {"name": self.name, "title": self.title, "version": self.version}

    def method(self, name: str) -> Method | None:
        return LIFECYCLE.get(name) or self.methods.get(name)

    def welcome(self, params: Mapping[str, Any], *, can_notify: bool) -> Result:
        """The answer to `initialize`."""
        asked, declared = params.get("protocolVersion"), params.get("capabilities")
        if not isinstance(asked, str):
            raise RpcError(INVALID_PARAMS, "initialize needs protocolVersion, a text like 2025-11-25.")
        revision, capabilities = negotiated(asked), self._capabilities_of_a_handshake(can_notify=can_notify)
        if revision == WITH_TASKS and can_notify and isinstance(declared, dict) and "tasks" in declared:
            capabilities |= self.handshake_tasks
        return {
            "protocolVersion": revision,
            "capabilities": capabilities,
            "serverInfo": self.info,
            "instructions": self.instructions,
        }

    def discovery(self) -> Result:
        """The answer to `server/discover`."""
        extensions = {"extensions": dict(self.extensions)} if self.extensions else {}
        return {
            "supportedVersions": list(STATELESS),
            "capabilities": {**self.capabilities, **extensions},
            "instructions": self.instructions,
        }

    def _capabilities_of_a_handshake(self, *, can_notify: bool) -> Result:
        """A client is told of resources only if it subscribed, and only where it can be told at any time."""
        capabilities = dict(self.capabilities)
        if "resources" in capabilities:
            capabilities["resources"] = {"subscribe": can_notify, "listChanged": False}
        return capabilities

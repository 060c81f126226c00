"""`bgjob serve` with the fixtures of the conformance suites. The suites know no tokens: here none is asked for."""

from bgjob.mcp.caller import Caller
from bgjob.mcp.server import SERVER
from bgjob.protocol.jsonrpc import Message, RpcError
from bgjob.protocol.methods import Method
from bgjob.protocol.request import Request
from bgjob.web import access, mcp_endpoint, services
from bgjob.web.tokens import Token
from tests.clients import fixtures
from tests.clients.task_fixtures import NAMES, TaskFixtureService

LISTS = {
    "tools/list": ("tools", [*fixtures.listed_tools(), *map(fixtures.listed, NAMES)]),
    "resources/list": ("resources", fixtures.RESOURCES),
    "resources/templates/list": ("resourceTemplates", fixtures.TEMPLATES),
}
PROMPTS = {"prompts/list": Method(ttl_ms=0), "prompts/get": Method()}


class FixtureService(TaskFixtureService):
    """Performs what is not about a fixture as ever."""

    def perform(self, request: Request, caller: Caller) -> Message:
        try:
            answer = fixtures.answer(request, caller)
            if answer is not None:
                return request.result(answer)
            return with_fixtures(request.method, super().perform(request, caller))
        except RpcError as problem:
            return request.error(problem)


def with_fixtures(method: str, answer: Message) -> Message:
    if method not in LISTS or "result" not in answer:
        return answer
    name, added = LISTS[method]
    return {**answer, "result": {**answer["result"], name: [*answer["result"][name], *added]}}


def add_fixtures() -> None:
    capabilities = {**SERVER.capabilities, "prompts": {}}
    vars(mcp_endpoint)["HTTP_SERVER"] = mcp_endpoint.HTTP_SERVER._replace(
        methods={**SERVER.methods, **PROMPTS}, capabilities=capabilities
    )
    vars(services)["Service"] = FixtureService
    access.Access._token = the_only_token  # type: ignore[method-assign]


def the_only_token(self: access.Access, head: access.Head) -> Token:
    return self._tokens.all()[0]

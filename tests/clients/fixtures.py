"""The tools, resources and prompts that the conformance suites ask for by name. No other server has them."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from bgjob.mcp.caller import Caller
from bgjob.protocol.jsonrpc import MISSING_CAPABILITY, RpcError
from bgjob.protocol.request import Request

Result = dict[str, Any]
DESCRIPTION = "For the conformance suites."
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": WAV, "mimeType": "audio/wav"}
STRING = {"type": "string"}
SCHEMA_2020_12: Result = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": STRING, "city": STRING},
        }
    },
    "properties": {
        "name": STRING,
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": STRING,
        "email": STRING,
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def text(words: str) -> Result:
    return {"type": "text", "text": words}


def embedded(uri: str) -> Result:
    words = "This is an embedded resource content."
    return {"type": "resource", "resource": {"uri": uri, "mimeType": "text/plain", "text": words}}


def progressing(request: Request, caller: Caller) -> Result:
    for step in (0, 50, 100):
        if told := request.progress(step, f"Completed step {step} of 100", 100):
            caller.send(told)
    return {"content": [text("done")]}


def failing(_request: Request, _caller: Caller) -> Result:
    return {"content": [text("This tool intentionally returns an error for testing")], "isError": True}


def wants_sampling(request: Request, _caller: Caller) -> Result:
    if "sampling" not in request.client.capabilities:
        needed: Result = {"requiredCapabilities": {"sampling": {}}}
        raise RpcError(MISSING_CAPABILITY, "test_missing_capability needs a client that can sample.", needed)
    return {"content": [text("ok")]}


class Tool(NamedTuple):
    call: Callable[[Request, Caller], Result]
    schema: Mapping[str, Any] = {"type": "object", "properties": {}}


def always(*content: Result) -> Tool:
    return Tool(lambda _request, _caller: {"content": list(content)})


MIXED = (text("Multiple content types test:"), IMAGE, embedded("test://mixed-content-resource"))
TOOLS = {
    "test_simple_text": always(text("This is a simple text response for testing.")),
    "test_image_content": always(IMAGE),
    "test_audio_content": always(AUDIO),
    "test_embedded_resource": always(embedded("test://embedded-resource")),
    "test_multiple_content_types": always(*MIXED),
    "test_error_handling": Tool(failing),
    "test_tool_with_progress": Tool(progressing),
    "test_missing_capability": Tool(wants_sampling),
    "test_streaming_elicitation": always(text("Nothing is asked of a client.")),
    "test_logging_tool": always(text("Nothing is logged to a client.")),
    "json_schema_2020_12_tool": always(text("ok"))._replace(schema=SCHEMA_2020_12),
}


def listed(name: str, schema: Mapping[str, Any] = Tool._field_defaults["schema"]) -> Result:
    return {"name": name, "description": DESCRIPTION, "inputSchema": dict(schema)}


def listed_tools() -> list[Result]:
    return [listed(name, tool.schema) for name, tool in TOOLS.items()]


RESOURCES = [
    {"uri": "test://static-text", "name": "text", "mimeType": "text/plain"},
    {"uri": "test://static-binary", "name": "binary", "mimeType": "image/png"},
    {"uri": "test://watched-resource", "name": "watched", "mimeType": "text/plain"},
]
TEMPLATES = [{"uriTemplate": "test://template/{id}/data", "name": "template", "mimeType": "application/json"}]


def read(uri: str) -> Result | None:
    if uri == "test://static-text":
        words = "This is the content of the static text resource."
        return {"uri": uri, "mimeType": "text/plain", "text": words}
    if uri == "test://static-binary":
        return {"uri": uri, "mimeType": "image/png", "blob": PNG}
    if found := re.fullmatch(r"test://template/(\w+)/data", uri):
        data = {"id": found[1], "templateTest": True, "data": f"Data for ID: {found[1]}"}
        return {"uri": uri, "mimeType": "application/json", "text": json.dumps(data)}
    return None


class Prompt(NamedTuple):
    arguments: tuple[str, ...]
    content: Callable[[Mapping[str, str]], list[Result]]


def with_arguments(given: Mapping[str, str]) -> list[Result]:
    return [text(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'")]


def with_resource(given: Mapping[str, str]) -> list[Result]:
    return [embedded(given["resourceUri"]), text("Please process the embedded resource above.")]


PROMPTS = {
    "test_simple_prompt": Prompt((), lambda _given: [text("This is a simple prompt for testing.")]),
    "test_prompt_with_arguments": Prompt(("arg1", "arg2"), with_arguments),
    "test_prompt_with_embedded_resource": Prompt(("resourceUri",), with_resource),
    "test_prompt_with_image": Prompt((), lambda _given: [IMAGE, text("Please analyze the image above.")]),
}


def listed_prompts() -> list[Result]:
    return [
        {
            "name": name,
            "description": DESCRIPTION,
            "arguments": [{"name": each, "required": True} for each in prompt.arguments],
        }
        for name, prompt in PROMPTS.items()
    ]


def messages(name: str, given: Mapping[str, str]) -> list[Result]:
    return [{"role": "user", "content": each} for each in PROMPTS[name].content(given)]


def answer(request: Request, caller: Caller) -> Result | None:
    """None: the request is not about a fixture."""
    name = request.params.get("name")
    match request.method:
        case "tools/call" if name in TOOLS:
            return TOOLS[name].call(request, caller)
        case "resources/read" if contents := read(request.text("uri")):
            return {"contents": [contents]}
        case "completion/complete" if request.mapping("ref").get("name") in PROMPTS:
            return {"completion": {"values": ["test"], "hasMore": False}}
        case "prompts/list":
            return {"prompts": listed_prompts()}
        case "prompts/get" if name in PROMPTS:
            return {"messages": messages(name, request.mapping("arguments"))}
        case _:
            return None

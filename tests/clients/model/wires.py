"""The forms in which clients talk to models: Anthropic Messages, OpenAI Responses and Chat Completions, Gemini.

Each form has a reader, which makes a conversation of a request, and a writer, which makes the events of an
answer. Only what the clients need is here. An answer that is not streamed is the last event's summary.
"""

import itertools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from tests.clients.model.script import Conversation, Step, Turn

Body = dict[str, Any]
Event = tuple[str | None, Body | str]
"""Its name, if the form has one, and its data."""
_numbers = itertools.count(1)


class Wire(NamedTuple):
    ending: str
    """Of the paths of its requests."""
    read: Callable[[Body], Conversation]
    answer: Callable[[Body, Step], Body]
    """All at once."""
    stream: Callable[[Body, Step], Iterator[Event]]
    is_streamed: Callable[[str, Body], bool] = lambda path, body: bool(body.get("stream"))


def text_of(content: object) -> str:
    """Of blocks in any of these forms."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(filter(None, map(text_of, content)))
    if not isinstance(content, dict):
        return ""
    for word in ("text", "content", "output"):
        if content.get(word):
            return text_of(content[word])
    return json.dumps(content["functionResponse"]) if "functionResponse" in content else ""


def _new_id(kind: str) -> str:
    return f"{kind}_{time.time_ns()}_{next(_numbers)}"


# -- Anthropic Messages -----------------------------------------------------------------------------


def read_messages(body: Body) -> Conversation:
    turns = [_message(each) for each in body.get("messages", [])]
    return Conversation(turns, [tool.get("name", "") for tool in body.get("tools") or []])


def _message(message: Body) -> Turn:
    content = message["content"]
    blocks = [] if isinstance(content, str) else content
    calls = sum(block.get("type") in ("tool_use", "server_tool_use") for block in blocks)
    return Turn(message["role"] == "assistant", text_of(content), calls)


def answer_messages(body: Body, step: Step) -> Body:
    block: Body = {"type": "text", "text": step.text}
    if step.tool:
        block = {"type": "tool_use", "id": _new_id("toolu"), "name": step.tool, "input": step.arguments}
    usage = {
        "input_tokens": 100,
        "output_tokens": 1,
        "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 0,
    }
    return {
        "id": _new_id("msg"),
        "type": "message",
        "role": "assistant",
        "model": body.get("model", "scripted"),
        "content": [block],
        "stop_reason": "tool_use" if step.tool else "end_turn",
        "stop_sequence": None,
        "usage": usage,
    }


def stream_messages(body: Body, step: Step) -> Iterator[Event]:
    whole = answer_messages(body, step)
    (block,) = whole["content"]
    if step.tool:
        empty, delta = (
            {**block, "input": {}},
            {"type": "input_json_delta", "partial_json": json.dumps(step.arguments)},
        )
    else:
        empty, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": step.text}
    end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield from _typed(
        {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": {"output_tokens": 10}},
        {"type": "message_stop"},
    )


def _typed(*events: Body) -> Iterator[Event]:
    for event in events:
        yield event["type"], event


# -- OpenAI Responses -------------------------------------------------------------------------------


def read_responses(body: Body) -> Conversation:
    turns = [turn for item in body.get("input", []) if (turn := _item(item))]
    return Conversation(turns, list(_tool_names(body.get("tools") or [])))


def _item(item: Body) -> Turn | None:
    kind = item.get("type", "message")
    if kind == "message":
        return Turn(item.get("role") == "assistant", text_of(item.get("content")))
    if kind.endswith("_call"):
        return Turn(True, "", 1)
    return Turn(False, text_of(item.get("output"))) if kind.endswith("_output") else None


def _tool_names(tools: Sequence[Body]) -> Iterator[str]:
    for tool in tools:
        if tool.get("type") == "namespace":
            yield from (f"{tool['name']}.{inner.get('name', '')}" for inner in tool.get("tools", []))
        else:
            yield tool.get("name") or tool.get("type", "")


def answer_responses(body: Body, step: Step) -> Body:
    if step.tool:
        space, _, name = step.tool.rpartition(".")
        item: Body = {
            "type": "function_call",
            "id": _new_id("fc"),
            "call_id": _new_id("call"),
            "name": name,
            "arguments": json.dumps(step.arguments),
            **({"namespace": space} if space else {}),
        }
    else:
        content = [{"type": "output_text", "text": step.text}]
        item = {"type": "message", "id": _new_id("msg"), "role": "assistant", "content": content}
    usage = {
        "input_tokens": 100,
        "input_tokens_details": None,
        "output_tokens": 10,
        "output_tokens_details": None,
        "total_tokens": 110,
    }
    return {"id": _new_id("resp"), "output": [item], "usage": usage}


def stream_responses(body: Body, step: Step) -> Iterator[Event]:
    whole = answer_responses(body, step)
    (item,) = whole["output"]
    yield from _typed(
        {"type": "response.created", "response": {"id": whole["id"]}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    )


# -- OpenAI Chat Completions ------------------------------------------------------------------------


def read_chat(body: Body) -> Conversation:
    turns = [
        Turn(
            message["role"] == "assistant",
            text_of(message.get("content")),
            len(message.get("tool_calls") or []),
        )
        for message in body.get("messages", [])
        if message["role"] != "system"
    ]
    return Conversation(turns, [tool["function"]["name"] for tool in body.get("tools") or []])


def answer_chat(body: Body, step: Step) -> Body:
    message: Body = {"role": "assistant", "content": step.text or None}
    if step.tool:
        function = {"name": step.tool, "arguments": json.dumps(step.arguments)}
        message["tool_calls"] = [
            {"index": 0, "id": _new_id("call"), "type": "function", "function": function}
        ]
    return {
        "id": _new_id("chat"),
        "object": "chat.completion",
        "created": int(time.time()),
        "model": body.get("model", "scripted"),
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if step.tool else "stop"}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
    }


def stream_chat(body: Body, step: Step) -> Iterator[Event]:
    whole = answer_chat(body, step)
    (choice,) = whole.pop("choices")
    whole["object"] = "chat.completion.chunk"
    yield None, {**whole, "choices": [{"index": 0, "delta": choice["message"], "finish_reason": None}]}
    yield None, {**whole, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}
    yield None, "[DONE]"


# -- Gemini -----------------------------------------------------------------------------------------


def read_gemini(body: Body) -> Conversation:
    turns = []
    for message in body.get("contents", []):
        parts = message.get("parts", [])
        calls = sum("functionCall" in part for part in parts)
        turns.append(Turn(message.get("role") == "model", text_of(parts), calls))
    tools = [one["name"] for tool in body.get("tools") or [] for one in tool.get("functionDeclarations", [])]
    return Conversation(turns, tools)


def answer_gemini(body: Body, step: Step) -> Body:
    call = {"functionCall": {"name": step.tool, "args": step.arguments}}
    parts = [call if step.tool else {"text": step.text}]
    return {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110},
        "modelVersion": "scripted",
    }


def stream_gemini(body: Body, step: Step) -> Iterator[Event]:
    yield None, answer_gemini(body, step)


WIRES = (
    Wire("/messages", read_messages, answer_messages, stream_messages),
    Wire("/responses", read_responses, answer_responses, stream_responses, lambda path, body: True),
    Wire("/chat/completions", read_chat, answer_chat, stream_chat),
    Wire("enerateContent", read_gemini, answer_gemini, stream_gemini, lambda path, body: ":stream" in path),
)

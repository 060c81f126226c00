"""What a prompt tells the model to do: one step for each request, found again in the conversation.

The model keeps nothing between two requests, as a real one. So a client may ask for a title or a summary in
between, and that takes no step away. When the steps of the newest prompt are used up, the model says NOTED and
how what is new begins: a request that nobody asked for is answered, and does nothing.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

MARK = "STEP "
NOTED = "NOTED"
FOUND = "FOUND "
NOTHING: Mapping[str, Any] = {}
DECODER = json.JSONDecoder()


class Step(NamedTuple):
    text: str = ""
    """What the model says, if it calls no tool."""
    tool: str = ""
    arguments: Mapping[str, Any] = NOTHING
    held: str = ""
    """The answer comes when the test releases this word."""


class Turn(NamedTuple):
    is_model: bool
    text: str
    calls: int = 0


class Conversation(NamedTuple):
    turns: Sequence[Turn]
    tools: Sequence[str]

    @property
    def news(self) -> str:
        """What the model is told that it was not told before."""
        new: list[str] = []
        for turn in reversed(self.turns):
            if turn.is_model:
                break
            new.append(turn.text)
        return "\n".join(reversed(new))

    @property
    def text(self) -> str:
        return "\n".join(turn.text for turn in self.turns)


def say(text: str, held: str = "") -> Step:
    return Step(text, held=held)


def call(tool: str, held: str = "", **arguments: Any) -> Step:
    return Step("", tool, arguments, held)


def found(pattern: str) -> str:
    """An argument of a call: what the group of this pattern matched last in the conversation."""
    return FOUND + pattern


def prompt(*steps: Step) -> str:
    """What the user types: on one line."""
    return " ".join(MARK + json.dumps(_given(step)) for step in steps)


def _given(step: Step) -> dict[str, Any]:
    return {name: value for name, value in step._asdict().items() if value}


def next_step(conversation: Conversation) -> Step:
    place, steps = _newest_prompt(conversation.turns)
    done = sum(max(1, turn.calls) for turn in conversation.turns[place + 1 :] if turn.is_model)
    if not conversation.tools or done >= len(steps):
        return say(f"{NOTED}: {' '.join(conversation.news.split())[-160:]}")
    step = steps[done]
    if not step.tool:
        return step
    return step._replace(
        tool=_full_name(step.tool, conversation), arguments=_filled_in(step.arguments, conversation)
    )


def _newest_prompt(turns: Sequence[Turn]) -> tuple[int, list[Step]]:
    for place in reversed(range(len(turns))):
        if not turns[place].is_model and (steps := list(_steps_in(turns[place].text))):
            return place, steps
    return 0, []


def _steps_in(text: str) -> Iterator[Step]:
    for part in text.split(MARK)[1:]:
        try:
            yield Step(**DECODER.raw_decode(part)[0])
        except (ValueError, TypeError):  # a client shows its user's prompt in another place, and cut
            continue


def _full_name(tool: str, conversation: Conversation) -> str:
    """Clients put the name of the server before it; some tell of a tool only in the conversation."""
    ends = [name for name in conversation.tools if re.fullmatch(rf"(?:.*[_.])?{tool}", name)]
    return (ends or re.findall(rf"\bmcp__\w+?__{tool}\b", conversation.text) or [tool])[0]


def _filled_in(arguments: Mapping[str, Any], conversation: Conversation) -> dict[str, Any]:
    return {name: _value(value, conversation) for name, value in arguments.items()}


def _value(value: Any, conversation: Conversation) -> Any:
    if isinstance(value, list):
        return [_value(each, conversation) for each in value]
    if not isinstance(value, str) or not value.startswith(FOUND):
        return value
    matches = re.findall(value.removeprefix(FOUND), conversation.text)
    return matches[-1] if matches else value

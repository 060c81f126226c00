"""Our server and one on the official SDK, with the same tools, told the same: the same answers, but for DIFFERENCES."""

import json
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from bgjob.protocol.revisions import HANDSHAKE
from tests.contracts.conversations import (
    LINES,
    META,
    OPENINGS,
    REQUESTS,
    STATELESS,
    UNANSWERED,
    WITHOUT,
    hello,
    request,
)
from tests.support.homes import end_all_jobs
from tests.support.raw_client import SERVE, Message, RawClient

SDK = (sys.executable, "-m", "tests.contracts.sdk_server")
EVERY = OPENINGS
OF_HANDSHAKE = (*HANDSHAKE, WITHOUT)

SILENT = "the SDK answers nothing, and the client waits; we say what is wrong"
LENIENT = "what has no meaning for us is not checked"
WORDS = "the same code; we say what to send instead"
ONE_ERA = "the SDK serves one era a connection; we decide for each request"
EARLY = "the SDK insists on a handshake; we have nothing to learn from it"

# the case, the openings in which it differs, and why; and where the SDK is silent, in SDK_SILENT too
DIFFERENCES: dict[str, tuple[tuple[str, ...], str]] = {
    "a cursor that is a number": (EVERY, LENIENT),
    "no tool": (EVERY, WORDS),
    "a tool that is a number": (EVERY, WORDS),
    "arguments that are a list": (EVERY, WORDS),
    "no resource": (EVERY, WORDS),
    "half a completion": (EVERY, WORDS),
    "discovery": ((STATELESS,), "the SDK promises to tell of new tools; ours are always the same"),
    "a handshake without a revision": (EVERY, WORDS),
    "a handshake without a client": (EVERY, LENIENT),
    "an unknown revision": (OF_HANDSHAKE, ONE_ERA),
    "half an envelope": (EVERY, ONE_ERA),
    "meta that is a list": (EVERY, LENIENT),
    "another handshake": ((STATELESS,), ONE_ERA),
    "a handshake of the future": ((STATELESS,), ONE_ERA),
    "an id that is text": ((STATELESS,), ONE_ERA),
    **{name: (EVERY, SILENT) for name in LINES if name != "an id that is text"},
    **dict.fromkeys(
        (
            "the list of tools",
            "the list of tools from a cursor",
            "a tool without arguments",
            "arguments that are null",
            "empty arguments",
            "a tool that refuses",
            "a missing argument",
            "an unknown argument",
            "a bad argument",
            "a forgiven argument",
            "an unknown tool",
            "the list of resources",
            "a page of resources that is not there",
            "the templates of resources",
            "the list of jobs as a resource",
            "a resource that is not there",
            "a resource of nobody",
            "a completion",
            "a completion of nothing",
        ),
        ((WITHOUT,), EARLY),
    ),
}
SDK_SILENT = frozenset(name for name, (_, why) in DIFFERENCES.items() if why == SILENT)


@cache
def answers(command: tuple[str, ...], opening: str, home: Path) -> dict[str, Message | None]:
    with RawClient(home, command) as client:
        told = dict(conversation(client, opening, SDK_SILENT if command == SDK else frozenset()))
        client.hang_up()
        assert client.rest() == []
        return told


def conversation(
    client: RawClient, opening: str, silent: frozenset[str]
) -> Iterator[tuple[str, Message | None]]:
    if opening in HANDSHAKE:
        yield "the handshake", normal(client.ask("initialize", hello(opening)))
        client.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    elif opening == STATELESS:
        client.ask("tools/list", {"_meta": META})
    for number, (name, (method, params)) in enumerate(REQUESTS.items(), 100):
        client.write(request(opening, number, method, params))
        yield name, normal(client.next_message())
    for name, line in {**LINES, **UNANSWERED}.items():
        client.write(line)
        is_answered = name in LINES and name not in silent
        yield name, normal(client.next_message()) if is_answered else None


def normal(value: Any) -> Any:
    """That a list does not change is said by false, or by nothing."""
    if isinstance(value, dict):
        return {name: normal(each) for name, each in value.items() if (name, each) != ("listChanged", False)}
    return [normal(each) for each in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("differential") / "home"
    yield home
    end_all_jobs(home)


@pytest.mark.parametrize("opening", OPENINGS)
def test_both_servers_answer_alike_but_for_what_is_named(home: Path, opening: str) -> None:
    ours, theirs = answers(SERVE, opening, home), answers(SDK, opening, home)
    assert ours.keys() == theirs.keys()
    differing = {name for name in ours if ours[name] != theirs[name]}
    named = {name for name, (openings, _) in DIFFERENCES.items() if opening in openings}
    assert {name: (ours[name], theirs[name]) for name in differing - named} == {}
    assert named - differing == set(), "these do not differ any more"


@pytest.mark.parametrize("opening", OPENINGS)
def test_where_only_words_differ_the_code_is_the_same(home: Path, opening: str) -> None:
    ours, theirs = answers(SERVE, opening, home), answers(SDK, opening, home)
    for name in (name for name, (_, why) in DIFFERENCES.items() if why == WORDS):
        assert code_of(ours[name]) == code_of(theirs[name]) or opening == STATELESS


def code_of(answer: Message | None) -> int | None:
    return answer["error"]["code"] if answer and "error" in answer else None


@pytest.mark.parametrize("meta", [{}, META], ids=["handshake", "stateless"])
def test_progress_has_the_same_form(home: Path, meta: Message) -> None:
    """Of a call that lasts long enough to tell some."""
    told = [progress_of(command, home, meta) for command in (SERVE, SDK)]
    assert told[0] == told[1]


def progress_of(command: tuple[str, ...], home: Path, meta: Message) -> Message:
    with RawClient(home, command) as client:
        if not meta:
            client.shake_hands()
        arguments = {"command": "echo compiling; sleep 1000", "name": "build", "wait_s": 40}
        params = {"name": "execute_command", "arguments": arguments}
        client.send("tools/call", {**params, "_meta": {**meta, "progressToken": "token"}})
        told = client.next_message()
        return {**told, "params": {**told["params"], "progress": type(told["params"]["progress"]).__name__}}


@pytest.mark.parametrize("meta", [{}, META], ids=["handshake", "stateless"])
def test_a_call_that_is_cancelled_has_no_answer(home: Path, meta: Message) -> None:
    for command in (SERVE, SDK):
        with RawClient(home, command) as client:
            if not meta:
                client.shake_hands()
            arguments = {"command": "sleep 1000", "wait_s": 40}
            asked = client.send(
                "tools/call", {"name": "execute_command", "arguments": arguments, "_meta": meta}
            )
            client.send("tools/list", {"_meta": meta})
            client.next_message()
            note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": asked}}
            client.write(json.dumps(note).encode())
            answer = client.ask("tools/list", {"_meta": meta})
            client.hang_up()
            assert [message["id"] for message in [answer, *client.rest()]] == [asked + 2]

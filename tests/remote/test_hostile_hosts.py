"""A host may answer anything: its target is unreachable then, and nothing else is disturbed."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from bgjob.api import open_jobs
from bgjob.api.hold import check_not_held
from bgjob.api.job_json import job_as_json
from bgjob.api.status import _prompt_of_host
from bgjob.api.target_advice import ADVICE, advice_for
from bgjob.core.errors import BgjobError, HeldByPerson, TargetUnreachable
from bgjob.core.targets import Target, as_record
from bgjob.home import jobdir, target_dir
from bgjob.home.log_format import HEADER
from bgjob.home.log_format import RUN as RUN_OF_LOG
from bgjob.remote import background, ssh
from bgjob.remote.channel import Channel
from bgjob.remote.codec import encode
from bgjob.remote.messages import (
    ANSWERS,
    ERROR,
    HELLO,
    MET,
    RELAY_ANSWERS,
    REQUESTS,
    Shape,
    checked,
    received,
)
from bgjob.remote.ray_process import Process
from bgjob.remote.relay import OPERATIONS, Relay
from bgjob.remote.ssh import SshEngine
from bgjob.store.record_schema import Malformed
from bgjob.store.records import read_unreachable
from bgjob.store.store import Store
from tests.remote import hostile
from tests.remote.hostile import NOTHING_NEW, RUN, Answer, Host, Raw, Refused, Silent, mutations
from tests.support.requires import linux_only
from tests.support.stores import new_spec

JOB = str(uuid4())
MOST_PLAYED = 120
SEGMENT = "log/00000000000000000000"
NEWS_OF_JOB: dict[str, Any] = {
    "files": [{"name": f"{SEGMENT}.runs", "at": 0, "data": "AAAAAAAAAAAAAAAAAAAAAA=="}],
    "records": {"run.json": RUN},
    "gone": [f"{SEGMENT}.stdout"],
}
EVENT = {"at": 1e9, "kind": "started", "job_id": JOB}
STATUS = {"end": 0, "descendants": 1, "left_running": 0, "waits_for_input": None}
HONEST: Mapping[str, Any] = {
    **dict.fromkeys(("ping", "follow", "unfollow", "look", "check")),
    "start": {"spec": {"cwd": "/far", "shell": "/bin/sh"}, "queued": False},
    "status": STATUS,
    "kill": {"status": "killed", "processes": 1},
    "info": {"cpus": 8, "load": [0.1], "memory_bytes": 1, "memory_available_bytes": 1, "gpus": None}
    | {"jobs_running": 0, "jobs_queued": 0, "slots": 10},
    "news": {**NOTHING_NEW, "jobs": {JOB: NEWS_OF_JOB}, "events": [EVENT], "looked": {JOB: 1}},
}


def has_shape(shape: Shape, value: object) -> bool:
    try:
        checked(shape, received(json.dumps({"ok": value}).encode() + b"\n")["ok"])
    except Malformed:
        return False
    return True


async def asked(host: Host, verb: str) -> object:
    channel = await host.channel()
    try:
        return await channel.call(verb, job=JOB)
    finally:
        host.close()
        await channel.close()


def test_what_is_declared_here_is_what_an_agent_can_be_asked_for() -> None:
    from bgjob.agent.verbs import VERBS

    assert ANSWERS.keys() == VERBS
    assert REQUESTS.keys() == RELAY_ANSWERS.keys() == OPERATIONS.keys()
    assert all(has_shape(shape, HONEST[verb]) for verb, shape in ANSWERS.items())


@pytest.mark.parametrize("verb", sorted(ANSWERS))
def test_an_answer_that_breaks_its_shape_is_nonsense(verb: str) -> None:
    async def play() -> int:
        count = 0
        for value in mutations(ANSWERS[verb], HONEST[verb]):
            host = Host(lambda *_, value=value: Raw(json.dumps({"id": 1, "ok": value}).encode() + b"\n"))
            if has_shape(ANSWERS[verb], value):
                await asked(host, verb)
                continue
            with pytest.raises(TargetUnreachable, match="far cannot be reached: it answered nonsense"):
                await asked(host, verb)
            count += 1
        return count

    assert asyncio.run(play()) >= 10


@pytest.mark.parametrize(("word", "shape"), [("hello", HELLO), ("met", MET)])
def test_a_greeting_that_breaks_its_shape_is_nonsense(word: str, shape: Shape) -> None:
    async def play() -> None:
        for value in mutations(shape, getattr(hostile, word.upper())):
            if not has_shape(shape, value) and not (
                word == "met" and isinstance(value, dict) and "error" in value
            ):
                greeting: Any = {word: value}
                with pytest.raises(TargetUnreachable, match="far cannot be reached: "):
                    await asked(Host(lambda *_: None, **greeting), "ping")

    asyncio.run(play())


def test_an_error_of_a_host_is_quoted_or_nonsense() -> None:
    async def play() -> None:
        for value in mutations(
            ERROR, {"kind": "InvalidArgument", "text": "cwd=3 is odd", "state": {"why": 3}}
        ):
            with pytest.raises(BgjobError) as refused:
                await asked(Host(lambda *_, value=value: Refused(value)), "start")
            assert ("far says: " if has_shape(ERROR, value) else "it answered nonsense") in str(refused.value)
            assert str(refused.value).isprintable()
            assert len(str(refused.value)) < 700

    asyncio.run(play())


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"7\n",
        b"[]\n",
        b'{"id": 1, "ok": ' + b"[" * 900 + b"]" * 900 + b"}\n",
        b'{"id": 2, "ok": null}\n',
        b'{"id": [1], "ok": null}\n',
        b'{"id": 1, "ok": [' + b"[]," * (1 << 20) + b"[]]}\n",
        b"x" * (9 << 20),
        b'{"beat": [' + b"[]," * 2000 + b'[]]}\n{"id": 1, "ok": null}\n',
        encode({"news": "x" * (1 << 20)}) + b'{"id": 1, "ok": null}\n',
    ],
    ids=lambda line: repr(line[:20]),
)
def test_a_line_that_is_no_answer_to_any_call_is_nonsense(line: bytes) -> None:
    async def play() -> None:
        with pytest.raises(TargetUnreachable, match="it answered nonsense"):
            await asked(Host(lambda *_: Raw(line)), "ping")

    asyncio.run(play())


def test_a_large_part_of_a_stream_is_nonsense() -> None:
    """It costs us the same again with each message, however few bytes it brings."""

    async def play() -> None:
        part = encode({"id": 1, "more": {"data": ""}, "odd": [[]] * 500_000})
        host = Host(lambda *_: Raw(part + encode({"id": 1})))
        channel = await host.channel()
        with pytest.raises(TargetUnreachable, match="a large message answers no call"):
            await channel.connect(JOB).read()
        host.close()
        await channel.close()

    asyncio.run(play())


def test_what_an_agent_sends_at_most_is_within_the_bounds() -> None:
    """In one answer: half a megabyte of segments of one byte; 500 events, or half a megabyte and one event."""
    names = [f"log/{offset:020}" for offset in range((1 << 19) // (HEADER.size + RUN_OF_LOG.size + 1))]
    pieces = [{"name": name + end, "at": 0, "data": "eA=="} for name in names for end in (".runs", "")]
    jobs = {JOB: {"files": pieces, "gone": names}}
    missing = {str(uuid4()): {"missing": True} for _ in range(10_000)}
    long = {**EVENT, "text": "é" * 1000}
    for news in ({"jobs": jobs}, {"jobs": missing}, {"events": [EVENT] * 500}, {"events": [long] * 295}):
        assert has_shape(ANSWERS["news"], {**NOTHING_NEW, **news})


@pytest.mark.parametrize(
    "news",
    [
        {"jobs": {JOB: {"files": NEWS_OF_JOB["files"] * 100_000}}},
        {"jobs": {JOB: {"gone": NEWS_OF_JOB["gone"] * 100_000}}},
        {"jobs": {JOB: {"records": {f"{number}.json": {} for number in range(1000)}}}},
        {"events": [EVENT] * 100_000},
        {"events": [{**EVENT, "text": "x" * 8000}] * 900},
        {"jobs": {JOB: {"files": [{"name": "log/09999999999999999990", "at": 0, "data": ""}]}}},
        {"jobs": {JOB: {"gone": ["log/09223372036854775808.runs"]}}},
    ],
    ids=["pieces", "gone", "records", "events", "event bytes", "offset", "gone offset"],
)
def test_more_than_an_agent_sends_is_nonsense(news: Mapping[str, Any]) -> None:
    assert not has_shape(ANSWERS["news"], {**NOTHING_NEW, **news})


def test_a_prompt_of_a_host_is_bounded_and_clean(tmp_path: Path) -> None:
    assert has_shape(ANSWERS["status"], {**STATUS, "prompt": "Name:" * 100})
    assert not has_shape(ANSWERS["status"], {**STATUS, "prompt": "x" * 5000})
    assert _prompt_of_host({"prompt": "\x1b[2J" + "x" * 4000 + "Name:"}) == "x" * 495 + "Name:"
    assert _prompt_of_host({"prompt": None}) is None


def test_the_holder_of_a_job_is_quoted_if_a_host_names_them(tmp_path: Path) -> None:
    """A model that is refused must not read a text of the host as one of ours."""
    store = Store(str(tmp_path))
    held = {"ok": False, "held": {"by": "you, who may ignore this", "since": 0, "typed_at": 0}}
    with contextlib.closing(open_jobs({**os.environ, "BGJOB_HOME": str(tmp_path)})) as jobs:
        for target, by in (
            ("far", r"\(far says: 'you, who may ignore this', since"),
            (None, r"\(you, who may"),
        ):
            new = store.create(spec := new_spec(target=target))
            with pytest.raises(HeldByPerson, match=by):
                check_not_held(jobs.context, spec.id, held)
            os.close(new.lock)


@pytest.mark.parametrize("trouble", ["relay_gone", "login_refused", "own_python_old", "", "home_full"])
def test_a_host_names_only_its_own_troubles(trouble: str) -> None:
    """By its words we give advice. Nor does its text choose any."""
    error = {"kind": "OSError", "text": "Permission denied (publickey)", "trouble": trouble}
    target = Target(name="far", kind="ssh", host="far")

    async def play() -> None:
        with pytest.raises(TargetUnreachable) as refused:
            await asked(Host(lambda *_: None, met={"error": error}), "ping")
        advice = advice_for(target, refused.value.why, refused.value.trouble)
        assert advice == (ADVICE["home_full"] if trouble == "home_full" else "")

    asyncio.run(play())


# -- the relay ----------------------------------------------------------------------------------------

OUTCOME = {
    "format": 1,
    "cause": "killed",
    "exit_code": None,
    "signal": 15,
    "ended_at": 1e9,
    "duration_s": 1.0,
}
END = {
    **NOTHING_NEW,
    "jobs": {JOB: {"records": {"outcome.json": {**OUTCOME, "output_bytes": 0}}, "over": True}},
}


class Engine(SshEngine):
    """Of a target whose host answers as the test says."""

    def __init__(self, relay: Any, answer: Answer) -> None:
        self._answer = answer
        super().__init__(relay._target, relay._note, relay._forget)

    async def _connect(self) -> Channel:
        return await Host(self._answer).channel()


class Played:
    """A relay in this process, with one job that is to be started on a host that answers one verb like this."""

    def __init__(self, home: Path, verb: str, value: object) -> None:
        self.store = Store(str(home))
        self._verb, self._value = verb, value
        self._news = [HONEST["news"]]
        target_dir.make(str(home), "far", as_record(Target(name="far", kind="ssh", host="far")))
        target_dir.add(str(home), "far", JOB)
        records: dict[str, dict[str, Any]] = {
            jobdir.REMOTE: {"phase": "submitting"},
            jobdir.REQUEST: {"start": {"command": "true", "asked": {}}},
        }
        os.close(self.store.create(new_spec(id=JOB, target="far"), records=records).lock)

    def _answer(self, verb: str, _words: Mapping[str, Any]) -> Any:
        if verb == "kill":
            self._news.append(END)
        if verb == self._verb and verb != "news":
            return self._value
        if verb == "news":
            news = self._news.pop(0) if self._news else Silent()
            return self._value if self._verb == "news" and news is HONEST["news"] else news
        return HONEST[verb]

    async def play(self) -> None:
        lock = target_dir.take_lock(self.store.home, "far")
        assert lock is not None
        relay = Relay(self.store, "far", lock)
        relay._engine = Engine(relay, self._answer)
        running = asyncio.create_task(relay.run())
        try:
            await self._ask(running)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            for replica in relay._replicas.values():
                replica.release()  # as the end of the process does
            os.close(lock)

    async def _ask(self, running: asyncio.Task[None]) -> None:
        is_nonsense = not has_shape(ANSWERS[self._verb], self._value)
        starting = asyncio.create_task(self.told(running, op="start", job=JOB))
        if is_nonsense and self._verb in ("start", "follow", "news"):
            while "answered nonsense" not in self.unreachable:
                assert not running.done()
                await asyncio.sleep(0.002)
        await starting
        if self._verb in ("status", "kill", "info"):
            told = await self.told(running, op=self._verb, **({} if self._verb == "info" else {"job": JOB}))
            assert ("answered nonsense" in told) == is_nonsense, told
        assert not running.done()

    @property
    def unreachable(self) -> str:
        return read_unreachable(self.store.home, "far").get("", (0.0, ""))[1]

    async def told(self, running: asyncio.Task[None], **request: object) -> str:
        """What the relay answers at its socket."""
        place = Path(target_dir.directory(".", "far"), target_dir.CONTROL)
        while not place.exists():  # noqa: ASYNC240
            assert not running.done()
            await asyncio.sleep(0.002)
        reader, writer = await asyncio.open_unix_connection(place)
        try:
            writer.write(json.dumps(request).encode() + b"\n")
            return (await reader.readline()).decode()
        finally:
            writer.close()
            await writer.wait_closed()


@pytest.mark.parametrize("verb", ["start", "follow", "news", "status", "kill", "info"])
def test_a_relay_and_all_readers_go_on_whatever_a_host_answers(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[BaseException | None] = []
    monkeypatch.setattr(background, "_check", lambda task: failed.append(error_of(task)))
    monkeypatch.setattr(ssh, "ANSWER_PATIENCE_S", 0.0)
    every = list(mutations(ANSWERS[verb], HONEST[verb]))
    for number, value in enumerate(every[:: 1 + len(every) // MOST_PLAYED]):
        home = tmp_path / str(number)
        played = Played(home, verb, value)
        monkeypatch.chdir(home)
        asyncio.run(played.play())
        assert not any(failed), (value, failed)
        read_all(home)


def error_of(task: asyncio.Task[None]) -> BaseException | None:
    return None if task.cancelled() else task.exception()


def read_all(home: Path) -> None:
    """As `ps`, `status`, `logs` and `events` do: every text can be printed. They start no relay of their own."""
    lock = target_dir.take_lock(str(home), "far")
    assert lock is not None
    with (
        os.fdopen(lock),
        contextlib.closing(
            open_jobs({**os.environ, "BGJOB_HOME": str(home), "XDG_CONFIG_HOME": os.devnull})
        ) as jobs,
    ):
        (job,) = jobs.list().jobs
        shown = [repr(job), repr(jobs.events("1.0").events), jobs.output(job.id).stdout]
        json.dumps(job_as_json(job), allow_nan=False)
        "".join(shown).encode()


# -- the gateway to Ray -------------------------------------------------------------------------------

RAY = '{"hello": 1, "ray": "2.52", "address": "x", "pid": 1}'


@pytest.mark.parametrize(
    ("hello", "answer"),
    [
        ("[]", ""),
        ('{"ray": 7}', ""),
        ('{"error": []}', ""),
        (RAY, "[]"),
        (RAY, '{"id": [1], "ok": null}'),
        (RAY, '{"id": 1, "ok": [{"node": "a", "alive": "yes"}]}'),
        (RAY, '{"id": 1, "error": "no"}'),
        (RAY, '{"channel": 1, "data": "?"}'),
    ],
)
def test_a_gateway_that_answers_nonsense_is_an_unreachable_target(
    hello: str, answer: str, tmp_path: Path
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho '{hello}'\nread call && echo '{answer}'\ncat >/dev/null\n")
    python.chmod(0o700)

    async def ask() -> None:
        gateway = await Process.start("ray", str(python))
        try:
            await gateway.ask("nodes", 60.0)
        finally:
            await gateway.close()

    with pytest.raises(TargetUnreachable, match="ray cannot be reached: it answered nonsense"):
        asyncio.run(ask())


# -- floods -------------------------------------------------------------------------------------------

GREETING = (
    r"""printf '\001bgjob {"there": true, "python": [3]}\n{"host": "far", "home": "/", "pid": 1}\n'; """
)
FLOODED = """
import asyncio, resource, sys
from bgjob.core.errors import TargetUnreachable
from bgjob.remote.channel import Channel
from bgjob.remote.loader import Order

async def main():
    channel = await Channel.open(lambda _: ["sh", "-c", sys.argv[1]], Order(target="far"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        async with asyncio.timeout(5):
            await channel.call("kill", job="x")
    except (TargetUnreachable, TimeoutError) as error:
        print(type(error).__name__, error)
    await channel.close()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)

asyncio.run(main())
"""


@linux_only
@pytest.mark.parametrize(
    ("flood", "told"),
    [
        ("exec cat /dev/zero", "nonsense"),
        ("exec yes", "nonsense"),
        ("""exec yes '{"id": 99, "ok": null}'""", "nonsense"),
        ("""exec yes '{"beat": 1}'""", "TimeoutError"),
        ("exec yes >&2", "far says: 'y; y; y'"),
    ],
)
def test_a_host_that_floods_leaves_memory_and_callers_alone(flood: str, told: str) -> None:
    """A call is answered, or its time is up: the loop of a relay has its turn."""
    argv = [sys.executable, "-c", FLOODED, GREETING + flood]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    answer, grown_kb = done.stdout.splitlines()
    assert told in answer
    assert int(grown_kb) < 100_000

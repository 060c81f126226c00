"""What the watcher finds on disk, whoever wrote it: it neither falls over it nor stays because of it."""

import errno
import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from bgjob.core.job import Spec
from bgjob.home import watch_registry
from bgjob.home.event_log import Cursor, append
from bgjob.store import event_reader
from bgjob.store.store import Store
from bgjob.system import own_argv
from bgjob.watch import watcher
from bgjob.watch.hooks import FAILURE, POSITION, HookRunner
from tests.disk.test_event_log import THINGS
from tests.support.stores import new_spec, write_outcome
from tests.support.waiting import PATIENCE_S, wait_until


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "home"))


def printed(store: Store, text: bytes, **values: Any) -> str:
    """A job that printed this and has ended."""
    spec = Spec(**{**vars(new_spec()), **values})
    new = store.create(spec)
    log = Path(new.directory, "log")
    log.mkdir()
    (log / f"{0:020}").write_bytes(text)
    (log / f"{0:020}.runs").write_bytes(bytes(16) + bytes(8) + (1).to_bytes(8, "little"))
    write_outcome(Path(new.directory), output_bytes=len(text))
    os.close(new.lock)
    return spec.id


def told(store: Store) -> list[tuple[str, Any]]:
    return [(event["kind"], event.get("line")) for event, _ in event_reader.read(store.events, Cursor(0, 0))]


STATES = {
    "a text for a number": {"stdout": "far"},
    "a list for a number": {"stderr": []},
    "a number without end": {"stdout": float("inf")},
    "negative": {"stdout": -5},
    "of 30 digits": {"stdout": 10**30},
    "missed is an object": {"missed": {}},
    "suppressed is a list": {"suppressed": [1]},
    "suppressed counts texts": {"suppressed": {"needle": "many"}},
    "over is a text": {"is_over": "no"},
    "of a format to come": {"format": 9, "stdout": 3},
}


@pytest.mark.parametrize("state", STATES.values(), ids=STATES.keys())
def test_a_state_that_cannot_be_read_makes_it_look_once_more(store: Store, state: dict[str, Any]) -> None:
    job_id = printed(store, b"a needle\n", watch=["needle"])
    Path(store.directory(job_id), "watch.json").write_text(json.dumps(state))
    watch_registry.add(store.home, job_id)
    watcher.sweep(store, time.monotonic() + 30)
    assert told(store) == [("matched", "a needle")]


def test_a_pattern_that_is_none_is_passed_over(store: Store) -> None:
    job_id = printed(store, b"a needle\n", watch=["(", "needle", "x" * 10_000])
    watch_registry.add(store.home, job_id)
    watcher.sweep(store, time.monotonic() + 30)
    assert told(store) == [("matched", "a needle")]


@pytest.mark.parametrize("thing", THINGS)
@pytest.mark.parametrize("name", ["x", "1" * 36])
def test_what_is_no_job_among_the_watches_keeps_nobody(store: Store, thing: str, name: str) -> None:
    Path(store.home, watch_registry.WATCHES).mkdir(0o700)
    path = Path(store.home, watch_registry.WATCHES, name)
    THINGS[thing](path)
    os.utime(path, (1, 1), follow_symlinks=False)  # nobody has just begun it
    job_id = printed(store, b"a needle\n", watch=["needle"])
    watch_registry.add(store.home, job_id)
    watcher.sweep(store, time.monotonic() + 30)
    assert told(store) == [("matched", "a needle")]
    subprocess.run(
        [*own_argv.WATCHER, store.home], check=True, timeout=PATIENCE_S
    )  # it ends: nothing is left to do
    assert not Path(store.home, "watcher-error.txt").exists()
    assert watch_registry.registered(store.home) == []


def hand_over(store: Store) -> None:
    wait_until(HookRunner(store).advance)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def hooked(store: Store, out: Path) -> str:
    """A job with a command for its events, of which it has two."""
    job_id = printed(store, b"", on_event=f"echo $BGJOB_EVENT $WORD >> {out}")
    append(store.events, "started", job_id)
    append(store.events, "ended", job_id)
    return job_id


@pytest.mark.parametrize(
    "record",
    [
        "[1]",
        "{",
        '{"cursor": 7}',
        '{"cursor": "1.%s"}' % ("9" * 30),
        '{"cursor": "%s.0"}' % ("9" * 30),
        "[" * 100_000,
    ],
)
def test_a_place_that_cannot_be_read_hands_over_rather_too_much(
    store: Store, hooked: str, out: Path, record: str
) -> None:
    Path(store.home, POSITION).write_text(record)
    hand_over(store)
    assert out.read_text().split() == ["started", "ended"]


ENTRIES: dict[str, Callable[[Path], object]] = {
    **THINGS,
    "nested beyond reason": lambda path: path.write_text("[" * 100_000),
    "numbers": lambda path: path.write_text('{"WORD": 7}'),
    "a name that none can have": lambda path: path.write_text('{"WORD": "of another", "A=B": "x"}'),
    "an end of text": lambda path: path.write_text('{"WORD": "of another\\u0000"}'),
}


@pytest.mark.parametrize("entry", ENTRIES)
def test_an_environment_that_cannot_be_read_is_none(store: Store, hooked: str, out: Path, entry: str) -> None:
    """And not that of the process which hands over."""
    Path(store.home, watch_registry.WATCHES).mkdir(0o700)
    ENTRIES[entry](Path(watch_registry.entry_path(store.home, hooked)))
    hand_over(store)
    assert out.read_text().split() == ["started", "ended"]


@pytest.mark.parametrize("values", [{"name": "a\0b"}, {"on_event": "true\0"}, {"on_event": "x" * 3_000_000}])
def test_a_command_that_cannot_be_started_holds_up_no_other(
    store: Store, out: Path, values: dict[str, str]
) -> None:
    odd = printed(store, b"", **{"on_event": "true", **values})
    append(store.events, "started", odd)
    job_id = printed(store, b"", on_event=f"echo $BGJOB_EVENT >> {out}")
    append(store.events, "started", job_id)
    hand_over(store)
    assert out.read_text().split() == ["started"]
    assert b"could not be started" in Path(store.home, FAILURE).read_bytes()


def test_an_event_that_cannot_be_looked_at_now_is_handed_over_later(
    store: Store, hooked: str, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_job_id: str) -> NoReturn:
        raise OSError(errno.EMFILE, "too many open files")

    runner = HookRunner(store)
    with monkeypatch.context() as patch:
        patch.setattr(store, "load", fails)
        with pytest.raises(OSError, match="too many open files"):
            runner.advance()
    wait_until(runner.advance)
    assert out.read_text().split() == ["started", "ended"]

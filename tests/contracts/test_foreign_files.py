"""Files that we did not write, in a log and all over a home; and a shim that says what we do not know."""

import contextlib
import os
import shutil
import socket
import struct
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from bgjob.api import Jobs, connect, interact, kill
from bgjob.core.errors import CannotStart, StoreUnusable
from bgjob.home import slots
from bgjob.store.retention import clean
from bgjob.store.store import NAME_LOCKS, Store
from tests.support.foreign import (
    ANOTHER_ID,
    BYSTANDER,
    EMPTY_OR_NO_FORMAT,
    FUTURE,
    LOST,
    NO_COUNT,
    NO_RECORDS,
    NO_TEXT,
    ON_A_TERMINAL,
    THINGS,
    VERBS,
    VICTIM,
    WHOLE,
    Damage,
    Gallery,
    Places,
    answer,
    call,
    cases,
    changed,
    damage,
    each,
    hang,
    locked,
    new_home,
    of_bytes,
    of_size,
)
from tests.support.stores import jobs_on, listed

SEGMENT = f"log/{0:020d}"
pytestmark = pytest.mark.timeout(600)  # nothing here takes a second, unless it hangs


def runs(*runs: tuple[int, int], at_us: int = 1_800_000_000_000_000) -> Damage:
    """(offset, stream) each."""
    return of_bytes(bytes(16) + b"".join(struct.pack("<QQ", at, at_us << 8 | stream) for at, stream in runs))


TERMINALS = {
    **NO_RECORDS,
    **FUTURE,
    **EMPTY_OR_NO_FORMAT,
    **each({**NO_TEXT, "null": None, "a list of numbers": [1, 2], "too few": [[1, 2]]}, "resizes"),
    **each({word: [[0, value, 80]] for word, value in NO_COUNT.items()}, "resizes"),
    **each({f"at {word}": [[value, 24, 80]] for word, value in NO_COUNT.items()}, "resizes"),
    "a terminal without end": changed(resizes=[[0, 10**9, 10**9]]),
    "a terminal of nothing": changed(resizes=[[0, 0, 0]]),
}
SEGMENTS = {**THINGS, "10 GB": of_size(1 << 20)}  # 10 GB would be just a long log
RUN_INDEXES = {
    **THINGS,
    "half a header": of_bytes(bytes(9)),
    "a header alone": of_bytes(bytes(16)),
    "half a run": of_bytes(bytes(16) + b"x" * 9),
    "runs of no stream": runs((0, 0), (20, 0)),
    "runs of another stream": runs((0, 7), (20, 255)),
    "runs that go back": runs((30, 1), (10, 2), (0, 1)),
    "runs far behind it": runs((0, 1), (2**64 - 1, 2)),
    "runs that begin late": runs((20, 1)),
    "runs at the end of time": runs((0, 1), (20, 2), at_us=2**56 - 1),
    "more printed before than can be": of_bytes(b"\xff" * 16 + struct.pack("<QQ", 0, 1)),
    "runs without end": of_size(10 << 30),
}
# names that no segment has: short, long, beyond all logs, and digits only to Python
BESIDE_SEGMENTS = ("5", "9" * 20, "9" * 21, "²", "٣" * 20, "README", os.fsdecode(b"\xff0"))
PLACES: Places = {
    "terminal.json": (ON_A_TERMINAL, TERMINALS),
    "log": (VICTIM, THINGS),
    "log of a lost job": (LOST, THINGS),
    SEGMENT: (VICTIM, SEGMENTS),
    f"{SEGMENT} of a lost job": (LOST, SEGMENTS),
    f"{SEGMENT}.runs": (VICTIM, RUN_INDEXES),
    f"{SEGMENT}.runs of a lost job": (LOST, RUN_INDEXES),
    **{f"log/{name} beside it": (VICTIM, THINGS) for name in BESIDE_SEGMENTS},
}


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Gallery:
    return Gallery(tmp_path_factory.mktemp("gallery") / "home", PLACES)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return new_home(tmp_path / "home")


@cases(PLACES)
def test_every_verb_answers(gallery: Gallery, place: str, what: str) -> None:
    told = gallery.told(gallery.ids[place, what])
    assert told["look"]["status"] != "running"
    assert told["kill"]["status"] == "already_terminated"
    assert told["wait"]["jobs"][0]["condition"] == "exit"


def test_all_are_listed_and_searched(gallery: Gallery) -> None:
    jobs = jobs_on(Store(str(gallery.home)), MCP_BG_MAX_RESPONSE="1MB")
    everything = call(jobs, "list_jobs", limit=1000)["jobs"]
    assert sorted(job["job_id"] for job in everything) == gallery.all_ids
    assert jobs.search("out 1").searched_jobs == len(gallery.all_ids)


@cases(PLACES, "terminal.json")
def test_a_terminal_whose_sizes_cannot_be_read_is_drawn_as_it_began(
    gallery: Gallery, place: str, what: str
) -> None:
    assert gallery.told(gallery.ids[place, what])["screen"]["screen"].strip() == "here"


@cases(PLACES, "log", SEGMENT, f"{SEGMENT}.runs")
def test_output_that_cannot_be_read_is_told_as_missing(gallery: Gallery, place: str, what: str) -> None:
    told = gallery.told(gallery.ids[place, what])["output"]
    if what in READABLE[place]:
        assert "dropped_bytes" not in str(told)
    else:
        assert "bytes dropped here" in told["stdout"]
        assert told["stdout_dropped_bytes"] >= 20


READABLE = {  # as another output, which nobody can know
    "log": (),
    SEGMENT: ("10 GB", "noise"),
    f"{SEGMENT}.runs": ("runs far behind it", "runs at the end of time", "more printed before than can be"),
}


@cases(PLACES, *(f"log/{name} beside it" for name in BESIDE_SEGMENTS))
def test_what_lies_beside_segments_is_passed_over(gallery: Gallery, place: str, what: str) -> None:
    told = gallery.told(gallery.ids[place, what])
    assert (told["output"]["stdout"], told["look"]["output_bytes"]) == (WHOLE, 46)


# -- in the home --------------------------------------------------------------------------------------------

LONG_AGO = 1_000_000_000
NAME_OF_LOCK_0 = next(name for name in map(str, range(10_000)) if zlib.crc32(name.encode()) % NAME_LOCKS == 0)
IN_THE_HOME = (
    f"index/{LONG_AGO:016d}-{ANOTHER_ID}",
    "index/README",
    "slots/0",
    "slots/README",
    "slots/name-0",
    f"drafts/{ANOTHER_ID}",
    "drafts/README",
    f"trash/{ANOTHER_ID}",
    "trash/README",
    f"jobs/{ANOTHER_ID}",
    "jobs/README",
    "cleaned",
    "boot.json",
    "newest",
    "clock",
    "leapt",
)


@pytest.mark.parametrize("what", [what for what in THINGS if what != "nothing"])
@pytest.mark.parametrize("place", IN_THE_HOME)
def test_what_lies_in_the_home_stops_nothing(home: Path, place: str, what: str) -> None:
    """Neither listing nor cleaning up nor starting."""
    old, new = hang(home, VICTIM), hang(home, BYSTANDER)
    make_old(home / "jobs" / old)
    assert sorted(listed(Store(str(home)))) == sorted([old, new])
    (home / place).unlink(missing_ok=True)
    THINGS[what](home / place)
    os.utime(home / place, (LONG_AGO, LONG_AGO), follow_symlinks=False)

    is_a_job = place.startswith("jobs/0") and what == "a directory"
    store = Store(str(home))
    call(jobs_on(store, MCP_BG_KEEP_DAYS="100000"), "list_jobs")
    clean(store, keep_jobs=1000, keep_days=30_000, interval_s=0)
    assert set(listed(store)) == {old, new} | ({ANOTHER_ID} if is_a_job else set())
    if place != "cleaned":  # which is how cleaners take turns: without it nobody has one
        clean(store, keep_jobs=1000, keep_days=7, interval_s=0)
        assert set(listed(store)) == {new}
    slot = slots.claim(f"{store.home}/slots", "", 3)
    assert slot is not None
    os.close(slot)
    with contextlib.suppress(CannotStart), store.name_lock(NAME_OF_LOCK_0):
        pass


@pytest.mark.parametrize("what", [what for what in THINGS if what not in ("nothing", "a directory")])
@pytest.mark.parametrize("name", ["jobs", "index", "slots", "drafts", "trash"])
def test_a_home_that_cannot_be_one_says_so(home: Path, name: str, what: str) -> None:
    shutil.rmtree(home / name, ignore_errors=True)
    THINGS[what](home / name)
    with pytest.raises(StoreUnusable, match="BGJOB_HOME"):
        Store(str(home))


# -- cleaning up --------------------------------------------------------------------------------------------


def make_old(directory: Path) -> None:
    for name, time_of in (("spec.json", "created_at"), ("outcome.json", "ended_at")):
        if (directory / name).exists():
            damage(directory / name, changed(**{time_of: LONG_AGO}))
    for path in [*directory.rglob("*"), directory]:
        os.utime(path, (LONG_AGO, LONG_AGO), follow_symlinks=False)


@pytest.mark.parametrize("place", ["spec.json", "outcome.json"])
def test_what_a_newer_version_wrote_is_never_one_too_many_and_goes_when_it_is_old(
    home: Path, place: str
) -> None:
    """By the dates of its files, which mean the same in every format. It takes nobody's room either."""
    newer, ours = hang(home, VICTIM, place, FUTURE["of format 2"]), hang(home, BYSTANDER)
    store = Store(str(home))
    clean(store, keep_jobs=1, keep_days=7, interval_s=0)
    assert set(listed(store)) == {newer, ours}
    clean(store, keep_jobs=0, keep_days=7, interval_s=0)
    assert listed(store) == [newer]
    make_old(home / "jobs" / newer)
    clean(Store(str(home)), keep_jobs=0, keep_days=7, interval_s=0)
    assert listed(store) == []


def test_a_job_that_ran_for_long_and_was_lost_just_now_is_kept(home: Path) -> None:
    """Else nobody would ever see that it was lost."""
    job_id = hang(home, LOST, "spec.json", changed(created_at=LONG_AGO))
    store = Store(str(home))
    clean(store, keep_jobs=1000, keep_days=7, interval_s=0)
    assert listed(store) == [job_id]
    make_old(home / "jobs" / job_id)
    clean(store, keep_jobs=1000, keep_days=7, interval_s=0)
    assert listed(store) == []


def test_a_job_that_cannot_be_removed_stays_in_the_list(home: Path) -> None:
    job_id = hang(home, VICTIM)
    store = Store(str(home))
    (home / "trash" / job_id).write_text("in the way")
    clean(store, keep_jobs=0, keep_days=7, interval_s=0)
    assert listed(store) == [job_id]


# -- at the socket ------------------------------------------------------------------------------------------

ANSWERS: dict[str, bytes | None] = {
    # of a shim of another version, or of whatever listens there
    "it does not know the request": b'{"ok": false, "error": "not a request"}\n',
    "it knows it and says something else": b'{"ok": true, "novelty": 1}\n',
    "words that we do not know": b'{"ok": true, "waits": "perhaps", "end": 7, "outcome": {"cause": "abducted"}}\n',
    "numbers that are none": b'{"ok": true, "waits": 7, "end": "far", "at": [], "accepted": {}, "unread": "x", '
    b'"was_running": 3, "processes": "many"}\n',
    "negative numbers": b'{"ok": true, "end": -5, "at": -7, "accepted": -1, "unread": -1, "was_running": true, '
    b'"processes": -2}\n',
    "a list": b"[1]\n",
    "a number": b"17\n",
    "no JSON": b"hello\n",
    "no UTF-8": b"\xff\xfe\n",
    "nested beyond reason": b"[" * 60_000 + b"\n",
    "it hangs up": None,
}


@contextlib.contextmanager
def shim_that_says(home: Path, job_id: str, said: bytes | None) -> Iterator[Jobs]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as desk, locked(home, job_id) as jobs:
        here = Path.cwd()
        os.chdir(home / "jobs" / job_id)  # its path may be too long for a socket's
        desk.bind("ctl")
        os.chdir(here)
        desk.listen(100)
        clerk = threading.Thread(target=serve, args=(desk, said))
        clerk.start()
        try:
            yield jobs
        finally:
            desk.shutdown(socket.SHUT_RDWR)
            clerk.join()


def serve(desk: socket.socket, said: bytes | None) -> None:
    with contextlib.suppress(OSError):
        while True:
            visitor, _ = desk.accept()
            threading.Thread(target=attend, args=(visitor, said)).start()


def attend(visitor: socket.socket, said: bytes | None) -> None:
    with visitor, contextlib.suppress(OSError):
        while visitor.recv(1 << 16) and said is not None:
            visitor.sendall(said)


@pytest.mark.parametrize("what", ANSWERS)
def test_a_shim_that_says_what_we_do_not_know_is_no_reason_to_fall_over(
    home: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (connect, interact, kill):
        monkeypatch.setattr(module, "SHIM_PATIENCE_S", 0.1)
    monkeypatch.setattr(connect, "SETTLED_S", 0.1)
    for patience in ("CONNECT_PATIENCE_S", "LATE_S", "KILL_PATIENCE_S"):
        monkeypatch.setattr(kill, patience, 0.1)
    job_id = hang(home, ON_A_TERMINAL, "outcome.json", lambda path: None)
    (home / "jobs" / job_id / "outcome.json.was").unlink()
    may_refuse = {"interact": "Job", "resize": "Job", "kill": "Job"}
    with shim_that_says(home, job_id, ANSWERS[what]) as jobs:
        for verb, (tool, arguments) in VERBS.items():
            ids = {"wait_for_job": {"job_ids": [job_id]}, "search_job_output": {"job_ids": [job_id]}}
            call(jobs, tool, may_refuse.get(verb), **arguments, **ids.get(tool, {"job_id": job_id}))
        assert answer(jobs, "look", job_id)["status"] == "running"

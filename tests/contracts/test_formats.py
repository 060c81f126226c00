"""A store of every format that was ever released opens for ever, and tells the same.

stores/<format>/ is what a release left behind (scripts/record-store), stores/<format>.json all that was read from it.
A reading may grow: what was read once must be read again, and more is no harm. Where a change of the wording is
meant: BGJOB_UPDATE=1 .venv/bin/pytest tests/contracts/test_formats.py, and read the diff. The stores never change.
"""

import ctypes
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal

from bgjob.api import open_jobs
from bgjob.home import jobdir
from tests.contracts import golden, readings
from tests.support.server import Server
from tests.support.waiting import wait_until

STORES = sorted(path for path in Path(__file__).with_name("stores").iterdir() if path.is_dir())
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2

# what scripts/record-store ran, told by hand: the readings were written by the code that they are to check
ENDS = {
    "exits with 0": ("completed", "exited", {"code": 0}),
    "exits with 7": ("failed", "exited", {"code": 7}),
    "says nothing": ("completed", "exited", {"code": 0, "stdout_bytes": 0, "stderr_bytes": 0}),
    "dies of a signal": ("killed", "signaled", {"signal": 11}),
    "is killed": ("killed", "killed", {"signal": 15}),
    "runs out of time": ("killed", "timed_out", {"signal": 15}),
    "never starts": ("failed", "never_started", {}),
    "is lost": ("failed", "lost", {"reason": "the machine was restarted while it ran"}),
    "leaves a child behind": ("completed", "exited", {"stdout_bytes": 6}),
    "prints more than is kept": ("completed", "exited", {"stdout_bytes": 9092, "stderr_bytes": 196}),
    "both streams, by turns": ("completed", "exited", {"stdout_bytes": 28, "stderr_bytes": 18}),
    "on a terminal": ("completed", "exited", {"code": 0}),
    "a script": ("completed", "exited", {"code": 0}),
    "café ☕": ("completed", "exited", {"code": 0}),
    None: ("completed", "exited", {"code": 0}),
}


class Recorded:
    """A copy of a recorded store, as it was before git forgot its modes."""

    def __init__(self, store: Path, home: Path) -> None:
        self.home, self.expected = home, store.with_suffix(".json")
        shutil.copytree(store, home)
        for path in [home, *home.rglob("*")]:
            path.chmod(0o700 if path.is_dir() else 0o600)

    @property
    def environ(self) -> dict[str, str]:
        return {**os.environ, "BGJOB_HOME": str(self.home), **readings.READ_ONLY}

    def read(self) -> Any:
        return readings.as_json(readings.by_the_door(open_jobs(self.environ)))

    def check(self, part: str, reading: Any) -> None:
        recorded = json.loads(self.expected.read_text()) if self.expected.exists() else {}
        if os.environ.get(golden.SWITCH):
            recorded[part] = reading
            self.expected.write_text(json.dumps(recorded, indent=1, ensure_ascii=False) + "\n")
        assert list(differences(reading, recorded.get(part), part)) == []


def differences(now: Any, then: Any, where: str) -> Iterator[str]:
    if isinstance(now, dict) and isinstance(then, dict):
        for key, value in then.items():
            yield from differences(now.get(key), value, f"{where} / {key}")
    elif isinstance(now, list) and isinstance(then, list) and len(now) == len(then):
        for number, pair in enumerate(zip(now, then, strict=True)):
            yield from differences(*pair, f"{where} / {number}")
    elif now != then:
        yield f"{where}: was {then!r}, is {now!r}"


@pytest.fixture(params=STORES, ids=lambda store: store.name)
def recorded(request: pytest.FixtureRequest, tmp_path: Path) -> Recorded:
    return Recorded(request.param, tmp_path / "home")


def test_there_is_a_store_of_every_format() -> None:
    assert {f"format-{number}" for number in range(1, jobdir.FORMAT_VERSION + 1)} <= {
        store.name for store in STORES
    }


def test_a_recorded_store_tells_what_it_told(recorded: Recorded) -> None:
    reading = recorded.read()
    recorded.check("the door", reading)
    assert recorded.read() == reading  # with the index that the first look has mended


def test_a_recorded_job_ended_as_it_must_have(recorded: Recorded) -> None:
    jobs = {job["spec"]["name"]: job for job in recorded.read()["jobs"].values()}
    assert jobs.keys() == ENDS.keys()
    for name, (status, cause, facts) in ENDS.items():
        assert jobs[name]["status"] == [status, cause]
        assert jobs[name]["state"] | facts == jobs[name]["state"]


def test_a_recorded_store_is_served(recorded: Recorded, portal: BlockingPortal) -> None:
    server = Server(portal, recorded.home, readings.READ_ONLY, "auto")
    try:
        recorded.check("a server", readings.as_json(readings.by_a_server(server.call)))
    finally:
        server.close()


def test_a_recorded_store_is_shown_on_the_command_line(recorded: Recorded) -> None:
    def bgjob(*arguments: str) -> bytes:
        command = [sys.executable, "-m", "bgjob", *arguments]
        return subprocess.run(command, env=recorded.environ, capture_output=True, check=True).stdout

    assert len(bgjob("ps", "--limit", "100").splitlines()) == 1 + len(ENDS)
    assert bgjob("logs", "leaves a child behind") == b"early\nlate\n"


def test_an_index_of_copies_is_as_good_as_one_of_links(recorded: Recorded) -> None:
    """What a copy or a backup makes of it."""
    reading = recorded.read()
    index = recorded.home / "index"
    names = [entry.name for entry in index.iterdir()]
    shutil.rmtree(index)
    index.mkdir(mode=0o700)
    for name in names:
        (index / name).write_bytes(b"")
    assert recorded.read() == reading


def test_a_recorded_store_can_be_read_where_nothing_can_be_written(recorded: Recorded) -> None:
    reading = recorded.read()  # mends the index, while it can
    for path in [*recorded.home.rglob("*"), recorded.home]:
        path.chmod(0o500 if path.is_dir() else 0o400)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tests.contracts.readings", recorded.home],
            preexec_fn=obey_modes,
            capture_output=True,
            check=False,
            cwd=golden.ROOT,
        )
        assert done.returncode == 0, done.stderr.decode()
        assert json.loads(done.stdout) == reading
    finally:
        for path in [recorded.home, *recorded.home.rglob("*")]:
            path.chmod(0o700)


def obey_modes() -> None:
    """Even root does, without these rights."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        for right in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
            if libc.prctl(PR_CAPBSET_DROP, right, 0, 0, 0):
                raise OSError(ctypes.get_errno(), "cannot give up a right")


def test_a_recorded_store_takes_new_jobs(recorded: Recorded) -> None:
    """And nothing of the old ones is lost by it."""
    before = recorded.read()
    jobs = open_jobs(recorded.environ, many=False)
    job_id = jobs.execute("echo new").id
    for _ in jobs.follow(job_id, wait=True):
        pass
    assert jobs.output(job_id).stdout == "new\n"
    after = recorded.read()
    assert after["list"] == [job_id, *before["list"]]
    assert list(differences(after["jobs"], before["jobs"], "after")) == []


def test_old_jobs_are_cleaned_up_by_age_like_any_other(recorded: Recorded) -> None:
    environ = {**recorded.environ, "MCP_BG_KEEP_DAYS": "0", "MCP_BG_CLEANUP_INTERVAL": "0.001"}
    jobs = open_jobs(environ, many=False)
    old = {job.id for job in jobs.list(limit=1000).jobs}

    def is_cleaned_by_another_start() -> bool:
        jobs.execute("true")
        return not old & {job.id for job in jobs.list(limit=1000).jobs}

    wait_until(is_cleaned_by_another_start)  # each removes ten, and more on a fast disk
    assert not old & {path.name for path in (recorded.home / "jobs").iterdir()}


def test_nothing_in_a_recorded_store_names_the_machine_it_comes_from() -> None:
    for path in (path for store in STORES for path in store.rglob("*") if path.is_file()):
        assert not any(
            word in path.read_bytes() for word in (b"/home/", b"/root", b"/tmp", b"/Users/", b"/work")
        ), path

"""After a power cut at any moment: every job that was made durable is there, and nothing said about one is wrong.

Real jobs are recorded once, call by call (see power_loss); every disk that a cut may have left is then made,
opened by the real store and read by the real verbs, as after a restart of the machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from bgjob.api import Jobs
from bgjob.core.errors import BgjobError
from bgjob.core.job import Ended, Exited, Lost, NeverStarted, Run, Running, Signaled, State
from bgjob.home import jobdir
from bgjob.home.jobdir import OUTCOME, SPEC
from bgjob.home.log_format import RUN, RUNS_SUFFIX, STDERR, STDOUT, segment_name
from bgjob.store import records
from bgjob.store.retention import clean
from bgjob.store.store import BOOT, NewJob, Store
from bgjob.system import processes
from tests.disk.power_loss import (
    OTHER_BOOT,
    Change,
    Cut,
    Naming,
    Recording,
    Syncing,
    Writing,
    cuts,
    materialise,
    record,
    transcript_of,
    tree_after,
    zeroed,
)
from tests.disk.test_records import NOT_RECORDS
from tests.support.homes import end_all_jobs
from tests.support.requires import needs
from tests.support.stores import ended_job, jobs_on, listed, running_job, write_outcome

recorded = needs("strace")

BOTH_STREAMS = (
    "n=0; while [ $n -lt 8 ]; do n=$((n+1)); printf '%0120d\\n' $n; printf '%050d\\n' $n >&2; done; exit 7"
)
TOO_MUCH = "n=0; while [ $n -lt 12 ]; do n=$((n+1)); printf '%0150d\\n' $n; done; echo done >&2"
LONG_SCRIPT = f"echo from a script; exit 4\n# {'x' * (128 << 10)}"
TOO_BIG_FOR_EXEC = {"HUGE": "x" * (256 << 10)}

SCENES: dict[str, tuple[str, list[dict[str, object]]]] = {
    # name: (how much output is kept, jobs one after the other)
    "both streams": ("4KB", [{"command": f"read go; {BOTH_STREAMS}", "typed": "go"}]),
    "two jobs": ("1KB", [{"command": TOO_MUCH}, {"command": "echo last words; kill -9 $$"}]),
    "a terminal": ("4KB", [{"command": "read a; echo on a terminal; exit 5", "pty": True, "typed": "hello"}]),
    "a script": ("4KB", [{"command": LONG_SCRIPT}]),
    "never started": ("4KB", [{"command": "true", "env": TOO_BIG_FOR_EXEC}]),
    "silent": ("4KB", [{"command": "exit 3"}]),
    "a child left behind": ("4KB", [{"command": "(sleep 3; echo late) & echo early; exit 6"}]),
}

STARTER = r"""
import fcntl, json, os, sys, time
from bgjob.api import Typed, open_jobs

home, tellings, kept, transcript = sys.argv[1:]
name_of_jobs = "".join(f"\\x{byte:02x}" for byte in os.fsencode(f"{home}/jobs")) + ">"

def has_synced(lines):
    # the names in jobs/ are the last that the shim of a job that runs on makes durable
    began = [n for n, line in enumerate(lines) if "fsync(" in line and name_of_jobs in line]
    return any("= 0" in lines[n] or goes_on(lines[n].split()[0], lines[n + 1 :]) for n in began)

def goes_on(pid, lines):
    return any(line.split()[0] == pid for line in lines)

def wait_until_durable(before):
    while not has_synced(open(transcript).readlines()[before:]):
        time.sleep(0.01)

def wait_until_sealed(directory):
    # the last act of a shim; a job that never started has none
    if os.path.exists(f"{directory}/run.json"):
        shim = json.load(open(f"{directory}/run.json"))["shim_pid"]
        while os.path.exists(f"/proc/{shim}"):
            time.sleep(0.01)

told = os.open(tellings, os.O_WRONLY)
jobs = open_jobs({**os.environ, "BGJOB_HOME": home, "MCP_BG_MAX_OUTPUT_SIZE": kept})
for run in json.load(sys.stdin):
    typed = run.pop("typed", None)
    before = len(open(transcript).readlines())
    job = jobs.execute(**run)
    os.write(told, f"acknowledged {job.id}".encode())
    if typed:
        wait_until_durable(before)
        os.write(told, f"durable {job.id}".encode())
        jobs.interact(job.id, Typed(typed), resize=(30, 100) if run.get("pty") else None)
    with open(f"{home}/jobs/{job.id}/spec.json") as spec:
        fcntl.flock(spec, fcntl.LOCK_SH)  # its shim is done with it, but for the seal
    wait_until_sealed(f"{home}/jobs/{job.id}")
    os.write(told, f"settled {job.id}".encode())
jobs.close()
"""
pytestmark = pytest.mark.timeout(1800)  # thousands of disks
SEGMENT_DIGITS = len(segment_name(0))
SAMPLES = 6
"""Random disks per moment, beside all beginnings."""
Terminal = list[tuple[int, int, int]]
Output = dict[int, tuple[int, int]]
"""Of each offset in the log: which stream, which byte."""


@dataclass(frozen=True)
class Facts:
    """What readers say of a job."""

    command: str
    state: State
    output: Output
    """Up to its end: what a process it left behind printed later is promised to nobody."""
    rest: tuple[Run | None, Terminal]


@dataclass(frozen=True)
class Scene:
    recording: Recording
    facts: dict[str, Facts]
    """Of every job, as it was in the end."""


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Where thousands of disks are made: in memory, where the system has such a place."""
    # no process of a job outlives the machine: looking through the whole table for some would take most of the time
    monkeypatch.setattr(processes, "marked", lambda _job_id: [])
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else tmp_path) as base:
        yield Path(base)


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Scene]]:
    base = tmp_path_factory.mktemp("power")
    try:
        yield {name: play(base / name.replace(" ", "-"), *SCENES[name]) for name in SCENES}
    finally:
        for home in base.glob("*/root/home"):
            end_all_jobs(home)


def play(base: Path, kept: str, runs: list[dict[str, object]]) -> Scene:
    root, tellings = base / "root", base / "told"
    root.mkdir(parents=True)
    tellings.touch()
    transcript = transcript_of(root)
    starter = [sys.executable, "-c", STARTER, str(root / "home"), str(tellings), kept, str(transcript)]
    recording = record(starter, json.dumps(runs), root, tellings)
    with restarted(recording, recording.changes(), base) as store:
        jobs = jobs_on(store)
        facts = {job.id: facts_of(jobs, job.id) for job in jobs.list().jobs}
    assert len(facts) == len(runs)
    return Scene(recording, facts)


@contextlib.contextmanager
def restarted(recording: Recording, changes: Iterable[Change], base: Path) -> Iterator[Store]:
    """The machine, with what was on its disk."""
    root = base / "after"
    materialise(tree_after(recording, changes), root)
    try:
        yield Store(str(root / "home"))
    finally:
        shutil.rmtree(root)


def facts_of(jobs: Jobs, job_id: str) -> Facts:
    job = jobs.status(job_id).job
    most = job.state.output_bytes if isinstance(job.state, Ended) else 0
    output = {
        at: (chunk.stream, byte)
        for chunk in jobs.follow(job_id, wait=False)
        for at, byte in enumerate(chunk.data, chunk.end - len(chunk.data))
        if at < most
    }
    return Facts(job.spec.command, job.state, output, (job.run, jobs.store.terminal_sizes(job)))


# -- what must hold -------------------------------------------------------------------------------------


def violations(scene: Scene, cut: Cut, base: Path) -> list[str]:
    try:
        with restarted(scene.recording, cut.changes, base) as store:
            return [f"moment {cut.moment}: {words}" for words in broken_promises(scene, cut, store)]
    except (BgjobError, OSError, ValueError, LookupError) as error:
        return [f"moment {cut.moment}: a reader failed: {error!r}"]


def broken_promises(scene: Scene, cut: Cut, store: Store) -> Iterator[str]:
    jobs = jobs_on(store)
    listed = {job.id for job in jobs.list().jobs}
    for job_id, whole in scene.facts.items():
        if job_id in listed:
            yield from wrong_words(whole, facts_of(jobs, job_id), job_id, cut.told)
        elif is_promised(job_id, cut.told):
            yield "a durable job is missing"
    for job_id in listed:
        jobs.output(job_id)
        jobs.tail(job_id, 2)
        jobs.search("0", literal=True, job_ids=[job_id])
    clean(store, keep_jobs=1000, keep_days=7, interval_s=0)
    if not listed <= {job.id for job in jobs.list().jobs}:
        yield "a job was there until somebody cleaned"


def is_promised(job_id: str, told: tuple[str, ...]) -> bool:
    """That it was acknowledged promises nothing: its shim makes it durable a moment later, or before its end."""
    return not {f"durable {job_id}", f"settled {job_id}"}.isdisjoint(told)


def wrong_words(whole: Facts, said: Facts, job_id: str, told: tuple[str, ...]) -> Iterator[str]:
    is_settled = f"settled {job_id}" in told
    if said.command != whole.command and not is_promised(job_id, told):
        return  # its spec was not on disk yet: nothing was promised
    if said.command != whole.command:
        yield "a durable job has lost its command"
    match said.state:
        case Ended() if said.state != whole.state:
            yield f"it ended otherwise: {said.state}"
        case Ended() if said.output != whole.output:
            yield "it is said to have ended, but its output is not whole"
        case Ended() if is_settled and said.rest != whole.rest:
            yield "its end had been settled, and its run or its terminal is lost"
        case Lost(reason) if is_settled:
            yield f"its end had been settled, and it is lost: {reason}"
        case Lost(reason) if "never started" in reason or "shim was killed" in reason:
            yield f"nobody can know that: {reason}"
        case Running():
            yield "it is said to run"


# -- tests ----------------------------------------------------------------------------------------------


@recorded
def test_what_was_recorded_is_what_the_jobs_did(scenes: dict[str, Scene]) -> None:
    """Else the rest would prove nothing."""
    both = only(scenes["both streams"])
    assert isinstance(both.state, Exited)
    assert both.state.code == 7
    assert printed(both, STDOUT) == b"".join(b"%0120d\n" % n for n in range(1, 9))
    assert printed(both, STDERR) == b"".join(b"%050d\n" % n for n in range(1, 9))
    bounded, killed = sorted(scenes["two jobs"].facts.values(), key=lambda facts: facts.command, reverse=True)
    assert min(bounded.output) == 0
    assert printed(bounded, STDOUT).endswith(b"%0150d\n" % 12)
    assert len(printed(bounded, STDOUT)) < 151 * 12
    assert isinstance(killed.state, Signaled)
    assert printed(only(scenes["a terminal"]), STDOUT).endswith(b"on a terminal\r\n")
    assert len(only(scenes["a terminal"]).rest[1]) == 2
    assert printed(only(scenes["a script"]), STDOUT) == b"from a script\n"
    assert isinstance(only(scenes["never started"]).state, NeverStarted)
    assert only(scenes["silent"]).output == {}
    assert printed(only(scenes["a child left behind"]), STDOUT) == b"early\n"


def only(scene: Scene) -> Facts:
    (facts,) = scene.facts.values()
    return facts


def printed(facts: Facts, stream: int) -> bytes:
    return bytes(byte for whose, byte in facts.output.values() if whose == stream)


@recorded
@pytest.mark.parametrize("name", SCENES)
def test_a_power_cut_at_any_moment_makes_no_promise_untrue(
    scenes: dict[str, Scene], name: str, memory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene = scenes[name]
    disks = cuts(scene.recording, SAMPLES, seed=1)
    broken = [words for cut in disks for words in violations(scene, cut, memory)]
    with capsys.disabled():
        print(f"[{name}: {len(scene.recording.events)} events, {len(disks)} disks] ", end="")
    assert len(disks) > len(scene.recording.events)
    assert not broken, summary(broken)


@recorded
def test_a_segment_that_has_lost_the_name_of_its_runs_stops_no_reader(
    scenes: dict[str, Scene], memory: Path
) -> None:
    scene = scenes["both streams"]
    left = [
        change for change in scene.recording.changes() if not names_one(change, RUNS_SUFFIX, "outcome.json")
    ]
    assert not violations(scene, Cut(tuple(left), (), 0), memory)


@recorded
def test_a_run_of_zeros_after_the_end_of_a_job_spoils_nothing_before_it(
    scenes: dict[str, Scene], memory: Path
) -> None:
    scene = scenes["a child left behind"]
    left = scene.recording.changes()
    late = max(
        n for n, change in enumerate(left) if isinstance(change, Writing) and len(change.data) == RUN.size
    )
    left[late] = zeroed(left[late])
    assert not violations(scene, Cut(tuple(left), (), 0), memory)


def names_one(change: Change, *endings: str) -> bool:
    return isinstance(change, Naming) and any(name.endswith(endings) for name, inode in change.names if inode)


def summary(broken: list[str]) -> str:
    return f"{len(broken)} broken promises\n" + "\n".join(broken[:20])


# -- that it can fail -----------------------------------------------------------------------------------


@recorded
def test_without_the_syncs_after_the_start_jobs_go_missing(scenes: dict[str, Scene], memory: Path) -> None:
    scene = scenes["both streams"]
    hasty = scene.recording.without(lambda _, told: len(told) < 2)
    assert "a durable job is missing" in some_violations(replace(scene, recording=hasty), memory)


@recorded
def test_without_the_syncs_at_the_end_settled_jobs_are_lost(scenes: dict[str, Scene], memory: Path) -> None:
    scene = scenes["both streams"]
    hasty = scene.recording.without(lambda _, told: len(told) >= 2)
    assert "its end had been settled" in some_violations(replace(scene, recording=hasty), memory)


@recorded
def test_without_the_readers_check_an_outcome_is_believed_before_its_log_is_on_disk(
    scenes: dict[str, Scene], memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "_credible", lambda state, _directory: state)
    assert "its output is not whole" in some_violations(scenes["both streams"], memory, SAMPLES)


@recorded
def test_each_sync_that_is_made_is_needed(scenes: dict[str, Scene], memory: Path) -> None:
    """And missed by the checker, each alone, whatever it synced: nothing is proved by accident."""
    scene = scenes["a terminal"]
    synced = {event.inode for event in scene.recording.events if isinstance(event, Syncing)}
    assert len(synced) >= 10
    for inode in synced:
        careless = scene.recording.without(lambda sync, _, inode=inode: sync.inode == inode)  # type: ignore[misc]
        assert some_violations(replace(scene, recording=careless), memory), careless.path_of(inode)


def some_violations(scene: Scene, base: Path, samples: int = 0) -> str:
    """The first that shows up, from the end."""
    for cut in reversed(cuts(scene.recording, samples, seed=1)):
        if broken := violations(scene, cut, base):
            return "\n".join(broken)
    return ""


# -- the seal -------------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "home"))


@pytest.mark.parametrize("reserved", [True, False])
def test_a_seal_changes_nothing_but_the_seal(store: Store, reserved: bool) -> None:
    directory = running_job(store).directory
    path, outcome = f"{directory}/{OUTCOME}", {"cause": "exited", "name": "é" * 10}
    if reserved:
        jobdir.reserve_record(path)
    jobdir.write_record(path, outcome)
    assert not jobdir.is_sealed(path)
    for _ in range(2):  # a guard may do it again
        jobdir.seal_outcome(directory)
        assert jobdir.is_sealed(path)
        assert jobdir.read_record(path) == outcome
        assert Path(path).stat().st_size == (
            jobdir.RESERVED_BYTES if reserved else len(json.dumps(outcome)) + 1
        )


@pytest.mark.parametrize("name", NOT_RECORDS)
def test_what_is_no_record_has_no_seal(tmp_path: Path, name: str) -> None:
    NOT_RECORDS[name](tmp_path / OUTCOME)
    assert not jobdir.is_sealed(str(tmp_path / OUTCOME))


def test_an_outcome_that_may_be_ahead_of_its_log_is_not_believed_after_a_restart(store: Store) -> None:
    new, directory = job_that_printed(store)
    assert isinstance(state_of(store, directory), Exited)
    restart(directory)
    assert isinstance(state_of(store, directory), Exited)  # its shim lives: seen from another machine
    os.close(new.lock)
    lost = state_of(store, directory)
    assert isinstance(lost, Lost)
    assert (
        "restarted before its end was safely on disk: on record is that it failed with exit code 7"
        in lost.reason
    )
    jobdir.seal_outcome(str(directory))
    assert isinstance(state_of(store, directory), Exited)


def test_an_outcome_of_a_job_that_says_not_when_it_ran_is_believed(store: Store) -> None:
    """Version 0.1.0 wrote no boot into a spec, and no seal."""
    new, directory = job_that_printed(store)
    os.close(new.lock)
    spec = json.loads((directory / SPEC).read_text())
    del spec["boot_id"]
    (directory / SPEC).write_text(json.dumps(spec))
    assert isinstance(state_of(store, directory), Exited)


def job_that_printed(store: Store) -> tuple[NewJob, Path]:
    new = running_job(store)
    write_outcome(Path(new.directory), exit_code=7, output_bytes=5)
    return new, Path(new.directory)


def restart(directory: Path) -> None:
    spec = json.loads((directory / SPEC).read_text())
    (directory / SPEC).write_text(json.dumps({**spec, "boot_id": OTHER_BOOT.decode()}))


def state_of(store: Store, directory: Path) -> State:
    return Store(store.home).load(directory.name).state


def test_the_index_is_mended_after_a_restart(store: Store) -> None:
    """At once: not when somebody cleans next."""
    job_id = ended_job(store)
    for entry in Path(store.home, "index").iterdir():
        entry.unlink()
    assert listed(Store(store.home)) == []
    Path(store.home, BOOT).write_text(json.dumps({"boot_id": OTHER_BOOT.decode()}))
    assert listed(Store(store.home)) == [job_id]

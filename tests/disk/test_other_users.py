"""Another user of the machine: whatever he puts into a home, or in the place of one, is not run as its owner."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bgjob.api import Jobs, open_jobs
from bgjob.core.errors import StoreUnusable
from bgjob.home import event_log, queue_dir, watch_registry
from bgjob.link.spawn import packed
from bgjob.store.store import Store
from bgjob.system.own_argv import SHIM, WATCHER
from tests.support.dispatchers import DISPATCHER, named, wait_until_no_dispatcher
from tests.support.gate import Gate
from tests.support.homes import end_all_jobs
from tests.support.requires import linux_only
from tests.support.stores import new_spec
from tests.support.waiting import wait_until

NOBODY = 65534
pytestmark = [
    linux_only,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user"),
]


class Place:
    """Where a home is, in sight of all: another user has his own prepared beside it, with a job that waits to run."""

    def __init__(self, root: Path) -> None:
        self.home, self.away, self._stage = root / "home", root / "away", root / "stage"
        self.proof = root / "ran"
        root.chmod(0o755)

    def prepare_plant(self) -> str:
        """A home with one queued job whose command, watch and events all leave a proof that they ran."""
        store = Store(str(self._stage))
        queue = {
            "after": [],
            "after_policy": "any",
            "not_before": 0.0,
            "max_jobs": 100,
            "group_slots": None,
        }
        proof = f"id -u > {self.proof}"
        spec = new_spec(command=proof, queue=queue, on_event=proof)
        os.close(store.create(spec, packed(vars(spec), {"PATH": os.environ["PATH"]}, 0o022)).lock)
        watch_registry.add(store.home, spec.id)
        event_log.append(store.events, "started", spec.id)
        subprocess.run(["chmod", "-R", "a+rX", self._stage], check=True)
        return spec.id

    def swap(self) -> None:
        """He can, once the directory above is open to him."""
        self.home.parent.chmod(0o777)
        self.as_nobody(f"mv home away && cp -R stage home && chmod -R go= home && chown -R {NOBODY} home")

    def plant_inside(self, job_id: str) -> None:
        """Left over from a time when the home was open: now it is closed again."""
        for directory in (self.home, *(path for path in self.home.iterdir() if path.is_dir())):
            directory.chmod(0o777)
        self.as_nobody("for each in jobs queue index watches events; do cp -R stage/$each home/; done")
        for directory in (self.home, *(path for path in self.home.iterdir() if path.is_dir())):
            directory.chmod(0o700)
        assert (self.home / "jobs" / job_id / "papers").stat().st_uid == NOBODY

    def as_nobody(self, script: str) -> None:
        subprocess.run(
            ["/bin/sh", "-ec", script], cwd=self.home.parent, user=NOBODY, group=NOBODY, check=True
        )

    def put_right(self) -> None:
        self.home.parent.chmod(0o755)
        if self.away.exists():
            shutil.rmtree(self.home)
            self.away.rename(self.home)


@pytest.fixture
def place() -> Iterator[Place]:
    """Not below pytest's own directory, which others cannot enter."""
    root = Path(tempfile.mkdtemp(prefix="bgjob-others-"))
    place = Place(root)
    yield place
    place.put_right()
    end_all_jobs(place.home)
    shutil.rmtree(root)


@contextlib.contextmanager
def opened(place: Place, **settings: str) -> Iterator[Jobs]:
    with contextlib.closing(open_jobs({**os.environ, "BGJOB_HOME": str(place.home), **settings})) as jobs:
        yield jobs


def test_a_home_swapped_under_a_server_is_neither_read_nor_run(place: Place) -> None:
    with opened(place) as jobs:
        jobs.execute("true")
        planted = place.prepare_plant()
        place.swap()
        for act in (
            jobs.list,
            jobs.events,
            lambda: jobs.status(planted),
            lambda: jobs.kill(planted),
            lambda: jobs.execute("true", queue=True),
        ):
            with pytest.raises(StoreUnusable, match=r"can be written by everybody|belongs to uid"):
                act()
    wait_until_no_dispatcher(place.home)
    assert not place.proof.exists()


@pytest.mark.parametrize("command", [[*SHIM, "queue"], WATCHER], ids=["drainer", "watcher"])
def test_who_is_handed_another_users_home_does_not_work_in_it(place: Place, command: list[str]) -> None:
    """Whoever hands it over may have looked at it before it was swapped."""
    place.prepare_plant()
    Store(str(place.home))
    place.swap()
    subprocess.run([*command, str(place.home)], check=True, timeout=120)
    wait_until_no_dispatcher(place.home)
    assert not place.proof.exists()
    assert not place.home.joinpath("queue", "drainer").exists()
    assert not place.home.joinpath("watcher.lock").exists()


def test_a_drainer_goes_on_in_its_own_home_when_that_is_swapped(place: Place, gate: Gate) -> None:
    place.prepare_plant()
    with opened(place, MCP_BG_MAX_JOBS="1") as jobs:
        jobs.execute(gate.pause)
        gate.wait_until_reached()
        marker = place.home.parent / "second"
        waiting = jobs.execute(f"echo ran > {marker}", queue=True).id
        wait_until(lambda: bool(named(place.home, DISPATCHER)), "there is a dispatcher")
        place.swap()
        gate.open()
        wait_until((place.away / "jobs" / waiting / "outcome.json").exists, "what waited has run")
    wait_until_no_dispatcher(place.away)
    assert marker.read_text() == "ran\n"
    assert not place.proof.exists()


def test_a_watcher_goes_on_in_its_own_home_when_that_is_swapped(place: Place, gate: Gate) -> None:
    place.prepare_plant()
    with opened(place) as jobs:
        jobs.execute(f"{gate.pause}; echo found; cat", watch=["found"])
        gate.wait_until_reached()
        wait_until(lambda: watch_registry.has_watcher(str(place.home)), "somebody watches")
        place.swap()
        place.home.parent.chmod(0o755)  # too late
        gate.open()
        found = place.away / "events" / "1"
        wait_until(lambda: b'"matched"' in found.read_bytes(), "what the job printed is told")
    assert not place.proof.exists()
    assert not (place.home / "watcher-error.txt").exists()


def test_a_queued_job_that_another_user_left_in_our_home_is_not_run(place: Place) -> None:
    planted = place.prepare_plant()
    with opened(place) as jobs:
        place.plant_inside(planted)
        assert queue_dir.find(str(place.home), planted)
        jobs.status(planted)
        own = jobs.execute("true", queue=True).id
        for _ in jobs.follow(own, wait=True):
            pass
        wait_until(lambda: not queue_dir.entries(str(place.home)), "it is out of the queue")
    wait_until_no_dispatcher(place.home)
    assert not place.proof.exists()


def test_an_event_that_another_user_left_in_our_home_runs_no_command(place: Place) -> None:
    planted = place.prepare_plant()
    Store(str(place.home))
    place.plant_inside(planted)
    (place.home / "queue" / queue_dir.entries(str(place.home))[0]).unlink()
    (place.home / "jobs" / planted / "papers").unlink()
    subprocess.run([*WATCHER, str(place.home)], check=True, timeout=120)
    assert not watch_registry.registered(str(place.home))
    assert not place.proof.exists()

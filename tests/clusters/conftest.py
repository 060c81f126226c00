"""Hosts and clusters, one of each for all tests of a worker; and which tests share a worker."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.clusters.by_engine import SLOWEST, ByEngine, group_of
from tests.clusters.engine import Engine, Local, Ray, Ssh
from tests.clusters.held import Held
from tests.clusters.installed import need
from tests.clusters.ray_cluster import RayCluster, ray_cluster
from tests.clusters.slurm_cluster import SlurmCluster, Track, can_track_by_group
from tests.clusters.slurm_jobs import SlurmJobs
from tests.clusters.ssh_hosts import SshHosts
from tests.clusters.target import Target

NewTarget = Callable[..., Target]
# Until there is a relay.
collect_ignore = [] if find_spec("bgjob.remote") else ["drills"]


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByEngine:
    return ByEngine(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest begins first."""
    items.sort(key=lambda item: (*SLOWEST, group := group_of(item.nodeid)).index(group))


@pytest.fixture(scope="session")
def ssh_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshHosts]:
    need("ssh")
    with SshHosts(tmp_path_factory.mktemp("ssh") / "hosts") as hosts:
        yield hosts


@pytest.fixture(scope="session")
def shared_ray() -> Iterator[RayCluster]:
    """Its sockets are in its directory: so its path is short."""
    need("ray")
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="bgjob-ray-"))
        yield stack.enter_context(ray_cluster(Path(directory), *Ray.nodes))


@pytest.fixture(scope="session")
def ray(shared_ray: RayCluster) -> Engine:
    return Ray(shared_ray)


@pytest.fixture(scope="session")
def local() -> Engine:
    return Local()


@pytest.fixture(scope="session")
def ssh(ssh_hosts: SshHosts) -> Engine:
    return Ssh(ssh_hosts)


@pytest.fixture(scope="session", params=["linuxproc", "cgroup"])
def slurm_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SlurmCluster]:
    """With both ways in which Slurm knows which processes are a job's."""
    need("slurm")
    track: Track = request.param
    if track == "cgroup" and not can_track_by_group():
        pytest.skip("Slurm cannot make its control groups here")
    with SlurmCluster(tmp_path_factory.mktemp("slurm") / "cluster", track) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def slurm_jobs(slurm_cluster: SlurmCluster, tmp_path_factory: pytest.TempPathFactory) -> SlurmJobs:
    return SlurmJobs(slurm_cluster, tmp_path_factory.mktemp("shared") / "root")


@pytest.fixture
def new_target(tmp_path: Path) -> Iterator[NewTarget]:
    """Any number of homes with a target: new_target(engine, max_jobs=1)."""
    with contextlib.ExitStack() as opened:

        def new(engine: Engine, **more: Any) -> Target:
            directory = tmp_path / f"target-{len(list(tmp_path.glob('target-*')))}"
            directory.mkdir()
            return opened.enter_context(Target(engine, directory, **more))

        yield new


@pytest.fixture
def new_held(tmp_path: Path) -> Iterator[Callable[[str], Held]]:
    """By name, any number of them."""
    with contextlib.ExitStack() as opened:
        yield lambda name: opened.enter_context(Held(tmp_path / name))


@pytest.fixture
def held(new_held: Callable[[str], Held]) -> Held:
    return new_held("held")

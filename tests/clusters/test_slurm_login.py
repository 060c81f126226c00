"""Slurm's commands on a login node, by ssh: another machine, whose login shell prints what it likes."""

import base64
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from bgjob.core.engine import EngineState, Resources
from bgjob.core.errors import ImpossibleRequest, TargetUnreachable
from bgjob.core.slurm import JOB_COMMENT
from bgjob.remote.channel import Channel, Order
from bgjob.remote.command import Commands
from bgjob.remote.shared_root import ELSEWHERE, home_of
from bgjob.remote.slurm import Slurm
from tests.clusters.slurm_cluster import SlurmCluster
from tests.clusters.slurm_jobs import SlurmJobs
from tests.clusters.ssh_hosts import SshHosts
from tests.support.gate import Gate
from tests.support.requires import needs


class Login:
    """A login node: `h2`, whose shell prints."""

    def __init__(self, hosts: SshHosts, cluster: SlurmCluster, root: Path) -> None:
        self.hosts, self.cluster, self.root = hosts, cluster, root
        for name in (".bashrc", ".zshenv"):
            with (hosts.h2.home / name).open("a") as rc:
                rc.write(f"\nexport SLURM_CONF={cluster.conf}\n")
        self.ssh = hosts.command(hosts.h2)
        self.slurm = Slurm("hpc", str(root), Commands(self.ssh))

    @contextlib.asynccontextmanager
    async def channel_in(self, state: EngineState) -> AsyncIterator[Channel]:
        """An agent in the allocation: ssh, srun, a shell, Python."""
        order = self._order(str(state.node), is_quoted=False)
        channel = await Channel.open(lambda words: self.slurm.channel_argv(state.engine_id, *words), order)
        try:
            yield channel
        finally:
            await channel.close()

    @contextlib.asynccontextmanager
    async def channel_elsewhere(self, state: EngineState) -> AsyncIterator[Channel]:
        channel = await Channel.open(self.ssh, self._order(str(state.node), elsewhere="1"))
        try:
            yield channel
        finally:
            await channel.close()

    def _order(self, node: str, *, is_quoted: bool = True, elsewhere: str = "") -> Order:
        environ = {"BGJOB_HOME": home_of(str(self.root), node), ELSEWHERE: elsewhere}
        return Order(target="hpc", environ=environ, code_root=str(self.root), is_quoted=is_quoted)


@pytest.fixture
def login(ssh_hosts: SshHosts, slurm_cluster: SlurmCluster, slurm_jobs: SlurmJobs) -> Login:
    if slurm_cluster.track != "linuxproc":
        pytest.skip("the same however Slurm tracks processes")
    return Login(ssh_hosts, slurm_cluster, slurm_jobs.root)


def test_a_job_is_submitted_seen_and_ends(login: Login, slurm_jobs: SlurmJobs) -> None:
    """With words that a shell would like to understand."""
    job, do = str(uuid4()), slurm_jobs.do
    request = {"command": 'echo "it\'s $((1 + 1))" \'!\' "$TEXT"', "asked": {"env": {"TEXT": "a\n'b' $c !"}}}
    engine_id = do(login.slurm.submit(job, {**request, "name": "it's $(mine)"}, Resources(cpus=1)))
    assert do(login.slurm.submit(job, request, Resources(cpus=1))) == engine_id
    assert do(login.slurm.states())[job].engine_id == engine_id
    slurm_jobs.wait_for_end(job)
    assert slurm_jobs.output(job) == b"it's 2 ! a\n'b' $c !\n"
    assert do(login.slurm.taken(job)).engine_id == engine_id
    assert do(login.slurm.all_taken([job, str(uuid4())])).keys() == {job}
    do(login.slurm.forget(job))
    assert do(login.slurm.taken(job)).engine_id is None


def test_what_slurm_refuses_and_tells_comes_through(login: Login, slurm_jobs: SlurmJobs) -> None:
    with pytest.raises(ImpossibleRequest, match="Requested node configuration is not available"):
        slurm_jobs.do(login.slurm.submit(str(uuid4()), {"command": "true"}, Resources(cpus=99)))
    info = slurm_jobs.do(login.slurm.info())
    assert [node.name for node in info.nodes] == login.cluster.nodes


def test_input_goes_through_ssh_and_srun(login: Login, slurm_jobs: SlurmJobs) -> None:
    job = slurm_jobs.submit("read name; echo hello $name; exit 6")
    slurm_jobs.run_record(job)
    state = slurm_jobs.state(job)

    async def talk() -> dict[str, Any]:
        async with login.channel_in(state) as channel:
            assert channel.hello["host"] == state.node
            await channel.call("follow", job=job, have={})
            stream = channel.connect(job)
            await stream.write(b'{"op": "stdin", "length": 4, "close": false, "wait_s": 5}\nann\n')
            return await outcome(channel, job)

    assert slurm_jobs.do(talk())["exit_code"] == 6
    slurm_jobs.wait_for_end(job)


async def outcome(channel: Channel, job: str) -> dict[str, Any]:
    found: dict[str, Any] | None = None
    cursor = None
    while found is None:
        news = await channel.call("news", since=cursor, timeout_s=30, most_bytes=1 << 20)
        cursor, found = news["cursor"], news["jobs"].get(job, {}).get("records", {}).get("outcome.json")
    return found


def test_what_has_ended_is_read_there_and_what_runs_is_not(
    login: Login, slurm_jobs: SlurmJobs, gate: Gate
) -> None:
    """Pids, boot and locks of the node mean nothing on the login node."""
    job = slurm_jobs.submit(f"echo out; {gate.pause}; exit 7")
    gate.wait_until_reached()
    state = slurm_jobs.state(job)

    async def look() -> dict[str, Any]:
        async with login.channel_elsewhere(state) as channel:
            assert channel.hello["boot_id"] is not None
            await channel.call("follow", job=job, have={})
            news = await channel.call("news", since=None, timeout_s=10, most_bytes=1 << 20)
            told: dict[str, Any] = news["jobs"][job]
            return told

    told = slurm_jobs.do(look())
    assert told["unended"]
    assert not told.keys() & {"over", "lost", "missing"}
    gate.open()
    slurm_jobs.wait_for_end(job)
    told = slurm_jobs.do(look())
    assert told["over"]
    assert told["records"]["outcome.json"]["exit_code"] == 7
    logged = [piece["data"] for piece in told["files"] if piece["name"] == f"log/{0:020}"]
    assert base64.b64decode("".join(logged)) == b"out\n"


def test_a_login_node_that_is_away_is_unreachable(login: Login, slurm_jobs: SlurmJobs) -> None:
    slurm = Slurm("hpc", str(login.root), Commands(login.ssh))
    with login.hosts.h2.line.refused():
        with pytest.raises(TargetUnreachable):
            slurm_jobs.do(slurm.states())
        with pytest.raises(TargetUnreachable):
            slurm_jobs.do(slurm.submit(str(uuid4()), {"command": "true"}, Resources()))
    assert slurm_jobs.do(Slurm("hpc", str(login.root), Commands(login.ssh)).states()) is not None


SHELLS = ["sh", "bash", pytest.param("zsh", marks=needs("zsh")), pytest.param("fish", marks=needs("fish"))]


@pytest.mark.parametrize("shell", SHELLS)
def test_any_login_shell_will_do(slurm_jobs: SlurmJobs, shell: str, tmp_path: Path) -> None:
    """Without ssh: what it hands to the shell of the user is its last argument."""
    noisy = tmp_path / "login"
    noisy.write_text(f'#!/bin/sh\nprintf "Welcome: {{not json}}\\nno end"; exec {shell} -c "$1"\n')
    noisy.chmod(0o755)
    slurm = Slurm("hpc", str(slurm_jobs.root), Commands([str(noisy)], slurm_jobs.cluster.environ))
    job = str(uuid4())
    engine_id = slurm_jobs.do(
        slurm.submit(job, {"command": "exit 3", "asked": {"name": "it's !"}}, Resources())
    )
    assert slurm_jobs.do(slurm.states())[job].engine_id == engine_id
    assert slurm_jobs.wait_for_end(job).exit_code == 3
    assert f"{JOB_COMMENT}{job}" in slurm_jobs.cluster.run("squeue", "-h", "-t", "all", "-o", "%k")

"""One pipe: any number of calls at once, and what its end means."""

import asyncio
import gc
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from uuid import uuid4

import pytest

from bgjob.api import Jobs
from bgjob.core.errors import BgjobError, InvalidArgument, JobNotFound, StoreUnusable, TargetUnreachable
from bgjob.link.control import NoShim
from bgjob.remote import channel as near
from bgjob.remote.channel import Channel, Stream
from bgjob.remote.transport import ssh
from tests.remote.conftest import Open, Play
from tests.support.gate import Gate
from tests.support.requires import linux_only, needs


async def started(channel: Channel, command: str, **asked: object) -> str:
    job_id = str(uuid4())
    await channel.call("start", id=job_id, command=command, asked=asked)
    return job_id


async def asked(stream: Stream, **request: object) -> dict[str, object]:
    await stream.write(json.dumps(request).encode() + b"\n")
    return dict(json.loads(await stream.read()))


def test_the_agent_says_hello(play: Play, home: Path) -> None:
    async def body(open_channel: Open) -> None:
        hello = (await open_channel()).hello
        assert hello["home"] == str(home)
        assert hello["host"] == os.uname().nodename
        assert {"version", "boot_id", "python", "pid"} <= hello.keys()

    play(body)


def test_a_channel_can_be_closed_by_several_at_once(play: Play) -> None:
    """A relay gives up a host, and the host its connection."""

    async def body(open_channel: Open) -> None:
        channel = await open_channel()
        await asyncio.gather(channel.close(), channel.close())
        await channel.close()

    play(body)


def test_fifty_waits_are_in_flight_and_an_empty_call_is_answered_meanwhile(play: Play, gate: Gate) -> None:
    async def body(open_channel: Open) -> None:
        channel = await open_channel()
        # it runs on: a shim that leaves hangs up on a wait that it has not read yet
        job_id = await started(channel, f"{gate.pause}; echo now; sleep 1000")
        await asyncio.to_thread(gate.wait_until_reached)
        streams = [channel.connect(job_id) for _ in range(50)]
        waits = [asyncio.create_task(asked(each, op="wait", beyond=0)) for each in streams]
        assert await channel.call("ping") is None
        status = await channel.call("status", job=job_id)
        assert status["descendants"] >= 1
        assert not any(wait.done() for wait in waits)
        gate.open()
        answers = await asyncio.gather(*waits)
        assert all(answer["ok"] for answer in answers)

    play(body)


def test_an_error_of_a_host_is_of_the_same_kind_here_and_quotes_it(play: Play) -> None:
    async def body(open_channel: Open) -> None:
        channel = await open_channel()
        with pytest.raises(JobNotFound, match=r"the target says: 'Job .* not found"):
            await channel.call("status", job=str(uuid4()))
        with pytest.raises(InvalidArgument, match=r'the target says: "cwd=.* is not a directory'):
            await started(channel, "true", cwd="/does/not/exist")
        with pytest.raises(BgjobError, match="does not know 'dance'"):
            await channel.call("dance")
        with pytest.raises(NoShim):
            await channel.connect(await ended(channel)).read()

    play(body)


async def ended(channel: Channel) -> str:
    job_id = await started(channel, "true")
    assert (await channel.call("kill", job=job_id))["status"] in ("killed", "already_terminated")
    return job_id


def test_a_call_that_is_cancelled_here_ends_there(play: Play) -> None:
    """And its answer, if there is one, disturbs nobody."""

    async def body(open_channel: Open) -> None:
        channel = await open_channel()
        news = asyncio.create_task(channel.call("news", since=None, timeout_s=600, most_bytes=1000))
        await asyncio.sleep(0)
        await channel.call("ping")
        news.cancel()
        with pytest.raises(asyncio.CancelledError):
            await news
        await channel.call("ping")
        assert (await channel.call("news", since=None, timeout_s=0, most_bytes=1000))["jobs"] == {}

    play(body)


def test_a_newer_wait_for_news_ends_the_older_one(play: Play) -> None:
    async def body(open_channel: Open) -> None:
        channel = await open_channel()
        older = asyncio.create_task(channel.call("news", since=None, timeout_s=600, most_bytes=1000))
        await asyncio.sleep(0)
        await channel.call("ping")
        assert (await channel.call("news", since=None, timeout_s=0, most_bytes=1000))["events"] == []
        assert (await older)["jobs"] == {}

    play(body)


@pytest.mark.parametrize("which", ["agent", "transport"])
def test_whoever_is_killed_all_calls_in_flight_learn_it(play: Play, which: str) -> None:
    async def body(open_channel: Open) -> None:
        channel = await open_channel(target="gpu-box")
        stream = channel.connect(await started(channel, "cat"))
        calls = [asyncio.create_task(channel.call("news", since=None, timeout_s=600, most_bytes=1))]
        reading = asyncio.create_task(stream.read())
        await channel.call("ping")
        pid = channel.hello["pid"] if which == "agent" else vars(channel._process)["_transport"].get_pid()
        os.kill(pid, signal.SIGKILL)
        for call in [*calls, reading]:
            with pytest.raises(TargetUnreachable, match="gpu-box cannot be reached"):
                await call
        await channel.wait_broken()
        assert channel.is_broken
        with pytest.raises(TargetUnreachable):
            await channel.call("ping")

    play(body)


def test_silence_is_a_cut_line_too(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near, "BEAT_S", 0.05)
    monkeypatch.setattr(near, "SILENCE_S", 0.3)

    async def body(open_channel: Open) -> None:
        channel = await open_channel()
        os.kill(channel.hello["pid"], signal.SIGSTOP)
        with pytest.raises(TargetUnreachable, match="nothing was heard"):
            await channel.call("ping")
        await channel.wait_broken()

    play(body)


def test_the_words_of_the_way_there_are_told(play: Play) -> None:
    async def body(open_channel: Open) -> None:
        denied = ["sh", "-c", "echo 'me@host: Permission denied (publickey).' >&2; exit 255"]
        with pytest.raises(TargetUnreachable, match=r"Permission denied \(publickey\)"):
            await open_channel(denied)
        with pytest.raises(TargetUnreachable, match="No such file"):
            await open_channel(["/does/not/exist"])

    play(body)


def test_a_master_that_keeps_stderr_open_holds_nobody_up(play: Play, tmp_path: Path) -> None:
    """As a ControlMaster does, which the first ssh leaves behind."""
    pid = tmp_path / "master"
    master = ["sh", "-c", f'sleep 600 </dev/null >/dev/null & echo $! > {pid}; exec sh -c "$0"']

    async def body(open_channel: Open) -> None:
        channel = await open_channel(master)
        await channel.close()
        with pytest.raises(TargetUnreachable):
            await channel.call("ping")

    try:
        began = time.monotonic()
        play(body)
        assert time.monotonic() < began + 30
    finally:
        os.kill(int(pid.read_text()), signal.SIGKILL)


GREETING = (
    r"""printf '\001bgjob {"there": true, "python": [3]}\n{"host": "far", "home": "/", "pid": 1}\n'; """
)


@linux_only
def test_a_child_of_the_transport_that_keeps_its_output_open_costs_no_descriptor(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(near, "CLOSE_S", 0.05)
    pid = tmp_path / "child"
    script = f"sleep 600 & echo $! > {pid}; {GREETING} cat >/dev/null"

    async def play() -> None:
        channel = await Channel.open(lambda _: ["sh", "-c", script], near.Order(target="far"))
        await channel.close()

    before = sorted(Path("/proc/self/fd").iterdir())
    gc.disable()  # it would close what is left open, and warn
    try:
        asyncio.run(play())
        assert sorted(Path("/proc/self/fd").iterdir()) == before
    finally:
        gc.enable()
        os.kill(int(pid.read_text()), signal.SIGKILL)


def test_what_hinders_the_agent_comes_in_place_of_its_hello(play: Play, home: Path) -> None:
    home.mkdir(mode=0o755)
    home.chmod(0o755)

    async def body(open_channel: Open) -> None:
        with pytest.raises(StoreUnusable, match="open to other users"):
            await open_channel()

    play(body)
    home.chmod(0o700)


def test_one_process_after_the_other_serves_the_same_jobs(play: Play, jobs: Jobs) -> None:
    async def body(open_channel: Open) -> None:
        first = await open_channel()
        job_id = await started(first, "cat")
        await first.close()
        second = await open_channel()
        assert second.hello["pid"] != first.hello["pid"]
        assert (await second.call("status", job=job_id))["descendants"] == 1
        assert (await second.call("kill", job=job_id, grace_s=0))["status"] == "killed"

    play(body)


def test_it_tells_what_the_machine_has(play: Play) -> None:
    async def body(open_channel: Open) -> None:
        channel = await open_channel(settings={"MCP_BG_MAX_JOBS": "7"})
        await started(channel, "cat")
        info = await channel.call("info")
        assert info["cpus"] >= 1
        assert info["memory_bytes"] > info["memory_available_bytes"] > 0
        assert (info["slots"], info["jobs_running"], info["jobs_queued"]) == (7, 1, 0)

    play(body)


def test_a_way_that_takes_words_is_given_words(play: Play) -> None:
    """As srun does, which runs no shell."""

    async def body(open_channel: Open) -> None:
        channel = await open_channel(["env", "BGJOB_TEST=1"], is_quoted=False)
        assert await channel.call("ping") is None

    play(body)


def test_ssh_asks_nobody_for_anything() -> None:
    argv = ssh("-oProxyCommand=x", ["-F", "config"])
    assert argv[:3] == ["ssh", "-F", "config"]
    assert argv[-2:] == ["--", "-oProxyCommand=x"]
    assert {"BatchMode=yes", "ServerAliveInterval=5", "ServerAliveCountMax=3", "ConnectTimeout=10"} <= set(
        argv
    )


@needs("ssh")
@pytest.mark.parametrize("given", ["no", "yes"])
def test_ssh_forwards_neither_agent_nor_display_unless_the_target_says_so(tmp_path: Path, given: str) -> None:
    """Whatever the user's own config says. `ssh -G` prints the options in effect."""
    (tmp_path / "config").write_text("ForwardAgent yes\nForwardX11 yes\n")
    chosen = ["-o", "ForwardAgent=yes", "-o", "ForwardX11=yes"] if given == "yes" else []
    argv = ssh("host", ["-F", str(tmp_path / "config"), *chosen])
    shown = subprocess.run([argv[0], "-G", *argv[1:]], check=True, capture_output=True, text=True).stdout
    assert {f"forwardagent {given}", f"forwardx11 {given}"} <= set(shown.splitlines())

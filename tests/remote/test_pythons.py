"""A bare python3 is enough: of this version, and of 3.9 and 3.10, for which the code is lowered."""

import asyncio
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from uuid import uuid4

import pytest

from bgjob.remote.archive import archive
from bgjob.remote.channel import Channel
from tests.remote.conftest import Open, Play
from tests.remote.replica import Replica, contents
from tests.support.gate import Gate

OLD = ("3.9", "3.10")
IMPORT_ALL = """
import importlib, pathlib, sys
root = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(root))
names = [".".join(path.relative_to(root).with_suffix("").parts) for path in root.rglob("*.py")]
for name in names:
    importlib.import_module(name.removesuffix(".__init__"))
foreign = {"re2", "pyte", "starlette", "uvicorn"} & set(sys.modules)
print(len(names), sorted(foreign))
"""


def python(version: str) -> str:
    """Of pyenv, or as a distribution calls it."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found = [
        shutil.which(f"python{version}"),
        *sorted(map(str, root.glob(f"versions/{version}.*/bin/python3"))),
    ]
    runs = [path for path in found if path and runs_as(path, version)]
    if not runs:
        pytest.skip(f"there is no Python {version} here: neither python{version} nor one of pyenv")
    return runs[-1]


def runs_as(path: str, version: str) -> bool:
    """A shim of pyenv may be there, and run nothing."""
    show = "import sys; print('%d.%d' % sys.version_info[:2])"
    answer = subprocess.run([path, "-I", "-S", "-c", show], capture_output=True, text=True, check=False)
    return answer.stdout.strip() == version


@pytest.fixture(params=OLD)
def old_python(request: pytest.FixtureRequest) -> str:
    return python(request.param)


@pytest.mark.parametrize("version", [None, *OLD])
def test_every_module_that_travels_is_imported_by_a_bare_python(version: str | None, tmp_path: Path) -> None:
    """Without site-packages: so there is neither re2 nor pyte."""
    interpreter = python(version) if version else sys.executable
    zipfile.ZipFile(io.BytesIO(archive(lowered=version is not None).data)).extractall(tmp_path)
    argv = [interpreter, "-I", "-S", "-B", "-W", "error", "-c", IMPORT_ALL, str(tmp_path)]
    answer = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert answer.stderr == ""
    count, foreign = answer.stdout.split(maxsplit=1)
    assert int(count) > 200
    assert foreign == "[]\n"


async def started(channel: Channel, command: str, **asked: object) -> str:
    job_id = str(uuid4())
    await channel.call("start", id=job_id, command=command, asked=asked)
    return job_id


async def over(replica: Replica, job_id: str) -> bytes:
    """What it printed, once it is over."""
    await replica.follow(job_id)
    await replica.take_until("over", [job_id])
    files = sorted(contents(replica.log(job_id)).items())
    return b"".join(data for name, data in files if name.isdecimal())


async def typed(channel: Channel, job_id: str, data: bytes) -> None:
    stream = channel.connect(job_id)
    request = {"op": "stdin", "length": len(data), "close": False, "wait_s": 30}
    await stream.write(json.dumps(request).encode() + b"\n" + data)
    assert json.loads(await stream.read())["accepted"] == len(data)
    stream.close()


def test_jobs_of_an_older_python_live_as_others_do(
    play: Play, old_python: str, tmp_path: Path, gate: Gate
) -> None:
    async def body(open_channel: Open) -> None:
        channel = await open_channel(python=old_python, settings={"MCP_BG_MAX_JOBS": "3"})
        assert tuple(map(int, channel.hello["python"].split("."))) < (3, 11)
        replica = Replica(channel, tmp_path)
        await replica.take(timeout_s=0)

        asks = await started(channel, "read line; echo got $line; exit 7")
        await typed(channel, asks, b"this\n")
        assert await over(replica, asks) == b"got this\n"
        assert replica.told[asks]["outcome.json"]["exit_code"] == 7

        terminal = await started(channel, "tty; stty size", pty=True, rows=30, cols=90)
        assert b"30 90" in await over(replica, terminal)

        stubborn = await started(channel, f"trap '' TERM; (trap '' TERM; setsid sleep 600) & {gate.pause}")
        await asyncio.to_thread(gate.wait_until_reached)
        status = await channel.call("status", job=stubborn, detail=True)
        assert status["activity"]["process_count"] == status["descendants"] >= 2
        killed = await channel.call("kill", job=stubborn, grace_s=0.1)
        assert killed["status"] == "killed"
        assert (await channel.call("status", job=stubborn))["descendants"] == 0

        assert {event["kind"] for event in replica.events} >= {"started", "ended"}

    play(body)


def test_its_guard_goes_on_when_its_shim_is_killed(play: Play, old_python: str, tmp_path: Path) -> None:
    async def body(open_channel: Open) -> None:
        channel = await open_channel(python=old_python)
        replica = Replica(channel, tmp_path)
        job_id = await started(channel, "read line; echo $line; exit 5")
        await replica.follow(job_id)
        await replica.take_until("run.json", [job_id])
        os.kill(replica.told[job_id]["run.json"]["shim_pid"], signal.SIGKILL)
        await typed(channel, job_id, b"still here\n")
        assert await over(replica, job_id) == b"still here\n"
        assert replica.told[job_id]["outcome.json"]["exit_code"] == 5

    play(body)


def test_its_queue_runs_one_job_after_the_other(
    play: Play, old_python: str, tmp_path: Path, gate: Gate
) -> None:
    async def body(open_channel: Open) -> None:
        channel = await open_channel(python=old_python, settings={"MCP_BG_MAX_JOBS": "1"})
        replica = Replica(channel, tmp_path)
        first = await started(channel, gate.pause)
        await asyncio.to_thread(gate.wait_until_reached)
        job_id = str(uuid4())
        answer = await channel.call("start", id=job_id, command="echo second", asked={"queue": True})
        assert answer["queued"]
        await replica.follow(job_id)
        await replica.take(timeout_s=0)
        assert job_id not in replica.told
        gate.open()
        assert await over(replica, first) == b""
        assert await over(replica, job_id) == b"second\n"

    play(body)

"""What belongs to the job stays with the job: secrets are in no file of ours, and no file of ours is open to others."""

import contextlib
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bgjob.api import Jobs, JobStatus, open_jobs
from tests.support.gate import Gate
from tests.support.process_table import wait_until_gone
from tests.support.shims import ask, guard_pid, shim_pid
from tests.support.waiting import wait_until

Ended = Callable[[str], JobStatus]
SECRET = "s3cr3t-" + os.urandom(8).hex()


def files_with(secret: str, home: Path) -> list[Path]:
    files = [path for path in home.rglob("*") if path.is_file() and not path.is_symlink()]
    assert files
    return [path for path in files if secret.encode() in path.read_bytes()]


@pytest.mark.parametrize("many", [True, False], ids=["zygote", "fresh"])
def test_a_secret_of_the_environment_is_in_no_file_while_the_job_runs_nor_after(
    home: Path, gate: Gate, ended: Ended, many: bool
) -> None:
    jobs = open_jobs({**os.environ, "BGJOB_HOME": str(home), "INHERITED": SECRET}, many=many)
    job_id = jobs.execute(f'test "$GIVEN" = "$INHERITED" && {gate.pause}; exit 5', env={"GIVEN": SECRET}).id
    gate.wait_until_reached()  # the job has the secret
    assert files_with(SECRET, home) == []
    shim = shim_pid(jobs, job_id)
    assert SECRET.encode() not in Path(f"/proc/{shim}/cmdline").read_bytes()
    assert [link for link in open_files(shim) if "memfd" in link] == []
    guard = guard_pid(jobs, job_id)
    wait_until(lambda: launch_files_of(guard) == [b""], "the guard has the launch file, and it is empty")
    gate.open()
    assert getattr(ended(job_id).job.state, "code", None) == 5
    assert files_with(SECRET, home) == []
    jobs.close()


def launch_files_of(pid: int) -> list[bytes]:
    found = []
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            if "memfd" in str(path.readlink()):
                found.append(path.read_bytes())
    return found


def open_files(pid: int) -> list[str]:
    """What it has open; a descriptor may close while we look."""
    found = []
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(str(path.readlink()))
    return found


def test_a_secret_of_a_job_that_could_not_start_is_in_no_file(jobs: Jobs, home: Path) -> None:
    jobs.execute("true", env={"GIVEN": SECRET, "BIG": "x" * 3_000_000})
    assert files_with(SECRET, home) == []


SHOW_MODES = """
import os, sys
from bgjob.api import open_jobs
os.umask(int(sys.argv[1], 8))
jobs = open_jobs(os.environ, many=sys.argv[2] == "zygote")
print(jobs.execute(sys.stdin.read()).id)
"""


@pytest.mark.parametrize("way", ["zygote", "fresh"])
@pytest.mark.parametrize("umask", ["000", "002", "022", "027", "077"])
def test_the_servers_umask_is_the_jobs_and_our_files_stay_private(
    home: Path, tmp_path: Path, jobs: Jobs, gate: Gate, umask: str, way: str
) -> None:
    made = tmp_path / "made by the job"
    long = "x" * 200_000  # so that there is a script, too
    command = f": {long}; umask; touch '{made}'; echo out; echo err >&2; {gate.pause}; exit 5"
    started = subprocess.run(
        [sys.executable, "-c", SHOW_MODES, umask, way],
        input=command,
        env={**os.environ, "BGJOB_HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
    )
    job_id = started.stdout.strip()
    gate.wait_until_reached()
    assert_all_is_private(home)
    shim = shim_pid(jobs, job_id)
    gate.open()
    wait_until_gone(shim)
    assert_all_is_private(home)
    assert jobs.output(job_id).stdout == f"0{umask}\nout\n"
    assert made.stat().st_mode & 0o777 == 0o666 & ~int(umask, 8)


def assert_all_is_private(home: Path) -> None:
    wrong = {
        str(path): stat.filemode(path.lstat().st_mode)
        for path in [home, *home.rglob("*")]
        if path.lstat().st_mode & 0o077
    }
    assert wrong == {}


def test_the_job_has_no_descriptor_of_ours_and_the_shim_none_of_the_servers(
    jobs: Jobs, tmp_path: Path
) -> None:
    with (tmp_path / "private to the server").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        job_id = jobs.execute("ls -l /proc/self/fd; cat").id
        links = open_files(shim_pid(jobs, job_id))
    assert not any("private to the server" in link for link in links)
    ask(jobs, job_id, op="wait", beyond=0, quiet_s=0.2)
    listing = jobs.output(job_id).stdout
    assert "private to the server" not in listing
    assert str(jobs.home) not in listing


def test_a_shim_holds_no_more_than_it_needs(jobs: Jobs) -> None:
    """Its lock, its slot, its log, the job's pipes, its socket, its signals: not what the starter shared with it."""
    job_id = jobs.execute("echo; cat").id
    ask(jobs, job_id, op="wait", beyond=0)
    pid = shim_pid(jobs, job_id)
    wait_until(lambda: len(open_files(pid)) <= 16)  # and for a moment the connection of the last who asked

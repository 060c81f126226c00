"""A job with limits starts as any other does: it differs in its limits alone."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from bgjob.api import Jobs, JobStatus, Typed
from bgjob.api.spec import spec_of
from bgjob.api.start import launch, started
from bgjob.core.job import NeverStarted
from bgjob.home import jobdir
from bgjob.system import cgroup, processes
from tests.support.gate import Gate
from tests.support.shims import directory, settable_signals, shim_pid
from tests.support.waiting import wait_until

Ended = Callable[[str], JobStatus]
LIMITS = {"open_files": 64, "file_size": "1MB", "cpu_s": 30, "memory": "500MB", "processes": 60}


def output_of(jobs: Jobs, ended: Ended, command: str, **options: object) -> str:
    job_id = jobs.execute(command, **options).id  # type: ignore[arg-type]
    ended(job_id)
    return jobs.output(job_id).stdout


def test_hard_limits_are_lowered_too(jobs: Jobs, ended: Ended) -> None:
    """A program raises its soft limits to the hard ones as it likes."""
    answer = output_of(
        jobs, ended, "ulimit -Hn; ulimit -Sn; ulimit -Hf; ulimit -St; ulimit -Ht", shell="sh", options=LIMITS
    )
    assert answer.split() == ["64", "64", "2048", "31", "36"]  # -f counts 512 bytes


@pytest.mark.parametrize(
    "command", ["cat /proc/self/status", "ls -l /proc/self/fd | wc -l", "umask; pwd; env"]
)
def test_signals_descriptors_and_environment_are_those_of_a_job_without_limits(
    jobs: Jobs, ended: Ended, command: str, tmp_path: Path
) -> None:
    plain, limited = (
        output_of(jobs, ended, command, cwd=str(tmp_path), options=options) for options in ({}, LIMITS)
    )
    assert essence(limited) == essence(plain)


def essence(text: str) -> Sequence[object]:
    """What does not differ from job to job."""
    lines = [line for line in text.splitlines() if not line.startswith("BGJOB_ID=")]
    masks = [line.split() for line in lines if line.startswith(("SigBlk", "SigIgn", "SigCgt"))]
    return [(name, settable_signals(mask)) for name, mask in masks] if masks else sorted(lines)


def test_it_leads_a_session_of_its_own_and_is_the_shims_child(jobs: Jobs, gate: Gate) -> None:
    job_id = jobs.execute(gate.pause, options=LIMITS).id
    gate.wait_until_reached()
    run = jobs.status(job_id).job.run
    assert run is not None
    assert os.getsid(run.pid) == os.getpgid(run.pid) == run.pid
    assert processes.has_execed(run.pid)
    assert processes.children(run.shim_pid) == [run.pid]
    gate.open()


def test_a_terminal_controls_its_session(jobs: Jobs, ended: Ended, gate: Gate) -> None:
    job_id = jobs.execute(f"tty; {gate.pause}; read line; echo got $line", pty=True, options=LIMITS).id
    gate.wait_until_reached()
    gate.open()
    jobs.interact(job_id, Typed("hello"), wait_s=20)
    ended(job_id)
    tty, *rest = jobs.output(job_id).stdout.splitlines()
    assert tty.startswith("/dev/pts/")
    assert rest == ["hello", "got hello"]


def test_ctrl_c_on_a_terminal_reaches_it(jobs: Jobs, ended: Ended, gate: Gate) -> None:
    job_id = jobs.execute(f"{gate.reach}; exec sleep 50", pty=True, options=LIMITS).id
    gate.wait_until_reached()
    jobs.interact(job_id, Typed(keys=["ctrl-c"], add_newline=False))
    assert getattr(ended(job_id).job.state, "signal", None) == signal.SIGINT


def test_an_exec_that_fails_says_why_and_leaves_no_group(jobs: Jobs, home: Path, tmp_path: Path) -> None:
    """The shell goes between the check and the exec: as posix_spawn would have put it."""
    for options in ({}, LIMITS):
        spec = spec_of(jobs.context, "true", options=options)
        missing = type(spec)(**{**vars(spec), "shell": f"{tmp_path}/gone"})
        job = started(jobs.context, launch(jobs.context, missing, {}))
        assert isinstance(job.state, NeverStarted)
        assert job.state.reason == (
            f"FileNotFoundError: [Errno 2] No such file or directory: '{tmp_path}/gone'"
        )
        assert not any(
            Path(here, f"{cgroup.PREFIX}{job.id}").exists() for _, here in cgroup.find_tops().values()
        )


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def test_a_job_of_few_words_has_no_child_of_its_shim_beside_it(jobs: Jobs, ended: Ended) -> None:
    """Nothing of the fork is left: no descriptor of the pipe that told of the exec, no zombie."""
    plain, limited = jobs.execute("read _").id, jobs.execute("read _", options={"open_files": 64}).id
    shims = [shim_pid(jobs, job_id) for job_id in (plain, limited)]
    wait_until(lambda: open_files(shims[0]) == open_files(shims[1]), "both hold the same")
    for job_id in (plain, limited):
        jobs.kill(job_id)


def test_the_record_tells_what_keeps_each_limit(jobs: Jobs, ended: Ended) -> None:
    job_id = jobs.execute("true", options={**LIMITS, "cgroup": "off", "silence_s": 9}).id
    ended(job_id)
    record = jobdir.read_record(f"{directory(jobs, job_id)}/limits.json")
    assert record == {
        "format": 1,
        "limited_by": {
            "open_files": "rlimit",
            "file_size": "rlimit",
            "cpu_s": "watched+rlimit",
            "memory": "watched",
            "processes": "watched",
            "silence_s": "watched",
        },
        "groups": [],
    }


def test_a_limit_above_our_own_is_our_own(jobs: Jobs, ended: Ended, home: Path) -> None:
    """A hard limit cannot be raised; that is no reason not to run."""
    bgjob = f"exec {Path(sys.executable).with_name('bgjob')} run --limit open_files=1000"
    started = subprocess.run(
        ["/bin/sh", "-c", f"ulimit -n 300; {bgjob} 'ulimit -Hn'"],
        env={**os.environ, "BGJOB_HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
    )
    job_id = started.stdout.strip()
    ended(job_id)
    assert jobs.output(job_id).stdout == "300\n"

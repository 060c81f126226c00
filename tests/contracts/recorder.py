"""Runs jobs of every kind and keeps the store they leave behind: python -m tests.contracts.recorder HOME STORE

Called by scripts/record-store with the version that is to be recorded on its path. Every run is checked against
what its command must have done, before anything is kept.
"""

import json
import os
import select
import shutil
import signal
import sys
from pathlib import Path

from bgjob.api import Jobs, Typed, open_jobs
from bgjob.core.job import cause_word
from tests.support.waiting import PATIENCE_S, wait_until

ANOTHER_BOOT = "5eb7c1a0-0000-4000-8000-000000000000"
TOO_LONG_FOR_AN_ARGUMENT = "x" * (128 << 10)

# the name of a job, what it runs, and what must come of that: cause, stdout, stderr
PLAIN = {
    "exits with 0": ("echo out; echo err >&2", "exited", "out\n", "err\n"),
    "exits with 7": ("echo 'error: no such thing' >&2; exit 7", "exited", "", "error: no such thing\n"),
    "says nothing": ("true", "exited", "", ""),
    "dies of a signal": ("echo before; kill -SEGV $$", "signaled", "before\n", ""),
    "both streams, by turns": (
        "for n in 1 2 3; do echo out $n; sleep 0.1; echo err $n >&2; sleep 0.1; done; printf unfinished",
        "exited",
        "out 1\nout 2\nout 3\nunfinished",
        "err 1\nerr 2\nerr 3\n",
    ),
    "café ☕": (
        r"""printf 'gr\303\274n \377 \342\230\225\n\033[31mred\033[0m\n10%%\r50%%\r100%%\n'""",
        "exited",
        "grün � ☕\n\x1b[31mred\x1b[0m\n10%\r50%\r100%\n",
        "",
    ),
    "a script": (f"echo from a script\n# {TOO_LONG_FOR_AN_ARGUMENT}", "exited", "from a script\n", ""),
    "leaves a child behind": (
        "(sleep 0.5; echo late) & echo early",
        "exited",
        "early\nlate\n",
        "",
    ),
}
ROTATING = (
    "n=0; while [ $n -lt 400 ]; do n=$((n+1)); echo line $n of the output; "
    "[ $((n % 20)) -ne 0 ] || { sleep 0.01; echo error $n >&2; sleep 0.01; }; done"
)
ON_A_TERMINAL = (
    "stty -echo; stty size; read a; stty size; read b; stty size; "
    r"printf '\033]0;a title\007\033[2J\033[3;5Hhere'"
)


def record(home: Path, store: Path) -> None:
    jobs = door(home)
    for run in (plain, unnamed, never_started, killed, timed_out, rotated, on_a_terminal, lost):
        run(jobs, home)
    wait_until(lambda: not any(jobs.has_shim(job.id) for job in jobs.list().jobs))
    jobs.close()
    keep(home, store)


def door(home: Path, **settings: str) -> Jobs:
    environ = {"PATH": os.environ["PATH"], "BGJOB_HOME": str(home), "MCP_BG_WORKING_DIR": "/", **settings}
    return open_jobs(environ)


def plain(jobs: Jobs, _home: Path) -> None:
    for name, (command, cause, stdout, stderr) in PLAIN.items():
        job_id = jobs.execute(command, name=name).id
        expect(jobs, job_id, cause)
        wait_until(lambda job_id=job_id: not jobs.has_shim(job_id))  # type: ignore[misc]
        raw = b"".join(chunk.data for chunk in jobs.follow(job_id, wait=False) if chunk.stream == 1)
        assert raw.decode(errors="replace") == stdout, raw
        assert jobs.output(job_id).stderr == stderr


def unnamed(jobs: Jobs, _home: Path) -> None:
    expect(jobs, jobs.execute("echo nobody named me").id, "exited")


def never_started(jobs: Jobs, _home: Path) -> None:
    env = {"MORE_THAN_THE_KERNEL_TAKES": "x" * 3_000_000}
    expect(jobs, jobs.execute("true", name="never starts", env=env).id, "never_started")


def killed(jobs: Jobs, _home: Path) -> None:
    job_id = jobs.execute("echo ready; sleep 1000", name="is killed").id
    jobs.wait_for([job_id], pattern="ready", timeout_s=PATIENCE_S)
    assert jobs.kill(job_id).status == "killed"
    expect(jobs, job_id, "killed")


def timed_out(jobs: Jobs, _home: Path) -> None:
    job_id = jobs.execute("echo begun; sleep 1000", name="runs out of time", timeout_s=0.5).id
    expect(jobs, job_id, "timed_out")


def rotated(_jobs: Jobs, home: Path) -> None:
    small = door(home, MCP_BG_MAX_OUTPUT_SIZE="4KB")
    job_id = small.execute(ROTATING, name="prints more than is kept").id
    expect(small, job_id, "exited")
    output = small.output(job_id)
    assert output.stdout.startswith("line 1 of the output\n")
    assert output.stdout.endswith("line 400 of the output\n")
    assert output.stdout_dropped_bytes
    assert output.stderr_dropped_bytes
    small.close()


def on_a_terminal(jobs: Jobs, _home: Path) -> None:
    job_id = jobs.execute(ON_A_TERMINAL, name="on a terminal", pty=True, rows=20, cols=70).id
    for rows, cols, shown in ((30, 100, "20 70"), (10, 40, "30 100")):
        jobs.wait_for([job_id], pattern=shown, timeout_s=PATIENCE_S)
        jobs.interact(job_id, Typed("go on"), resize=(rows, cols))
    expect(jobs, job_id, "exited")
    assert len(jobs.store.terminal_sizes(jobs.status(job_id).job)) == 3


def lost(jobs: Jobs, _home: Path) -> None:
    job = jobs.execute("trap '' HUP PIPE; echo last words; sleep 1000", name="is lost")
    jobs.wait_for([job.id], pattern="words", timeout_s=PATIENCE_S)
    assert job.run
    end = os.pidfd_open(job.run.shim_pid)
    os.kill(job.run.shim_pid, signal.SIGKILL)
    assert select.select([end], [], [], PATIENCE_S)[0]
    assert jobs.kill(job.id).status == "killed"  # what it left behind
    expect(jobs, job.id, "lost")


def expect(jobs: Jobs, job_id: str, cause: str) -> None:
    for _ in jobs.follow(job_id, wait=True):
        pass
    state = jobs.status(job_id).job.state
    assert cause_word(state) == cause, state


def keep(home: Path, store: Path) -> None:
    """What git can keep: no sockets. And nothing of this machine: another boot, as it is for every reader."""
    for directory in (home / "jobs").iterdir():
        (directory / "ctl").unlink(missing_ok=True)
        run = directory / "run.json"
        if run.exists():
            run.write_text(json.dumps({**json.loads(run.read_text()), "boot_id": ANOTHER_BOOT}))
    store.mkdir(parents=True)
    shutil.move(home / "jobs", store / "jobs")
    traces = [path for path in store.rglob("*") if path.is_file() and str(home).encode() in path.read_bytes()]
    assert not traces, traces


if __name__ == "__main__":
    record(*map(Path, sys.argv[1:]))

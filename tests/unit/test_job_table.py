"""A list of jobs on terminals of different widths: what matters most is always there, and every line fits."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import wcwidth  # type: ignore[import-untyped, unused-ignore]

from bgjob.api.activity import Activity, Listening
from bgjob.api.results import JobStatus, Place
from bgjob.cli.columns import lines
from bgjob.core.job import Exited, Job, Lost, OverLimit, Queued, Run, Running, Signaled, Spec, State, TimedOut

NOW = 1_000_000.0
HOUR_S = 3600.0
DEEP, LONG = "/srv/app/services/payment/worker", "a build with a name that is far too long to show"


def job(number: int, state: State, command: str, run: Run | None = None, **spec: Any) -> Job:
    job_id = f"{number:08x}-0000-4000-8000-000000000000"
    more = {"cwd": "/srv/app", "by": {"client": "claude", "session": "7f3a9c21-more"}, **spec}
    return Job(
        Spec(id=job_id, command=command, shell="sh", created_at=NOW - 30, max_output_bytes=1, **more),
        state,
        run,
    )


def running(
    number: int, command: str, ran_s: float, cpu_s: float, memory: int, *ports: int, **more: Any
) -> JobStatus:
    run = Run(100 + number, 99, NOW - ran_s, None)
    listening = [Listening(port, "127.0.0.1", 100 + number) for port in ports]
    activity = Activity(1, cpu_s, memory, "pss", 0, 0, [], listening)
    told = {word: more.pop(word) for word in ("waits_for_input", "prompt") if word in more}
    return JobStatus(
        job(number, Running(run), command, run, **more), 0, 1, activity=activity, ran_s=ran_s, **told
    )


def ended(number: int, state: State, command: str, **spec: Any) -> JobStatus:
    return JobStatus(job(number, state, command, **spec), 0, 0)


def printed(ago_s: float, duration_s: float) -> dict[str, Any]:
    return {"ended_at": NOW - ago_s, "duration_s": duration_s, "stdout_bytes": 0, "stderr_bytes": 0}


JOBS = [
    running(
        1, "./deploy.sh --production", 134, 0.4, 3 << 20,
        name="deploy", waits_for_input=True, prompt="Apply 12 migrations to production? [y/N] ",
        by={"client": "bgjob", "tty": "/dev/pts/3"},
    ),
    running(2, "npm run dev -- --host 0.0.0.0", 3 * HOUR_S, 5 * HOUR_S, 1300 << 20, 5173, 24678, name="web"),
    running(3, "pytest -x tests/integration", 75, 73, 210 << 20, name="統合テスト", cwd=DEEP),
    JobStatus(
        job(4, Queued(None), "ruff check .", name="lint"), 0, 0,
        place=Place(1, "it waits for a free slot", 0),
    ),
    ended(5, Exited(code=3, **printed(300, 12.4)), "make release", name=LONG),
    ended(6, Exited(code=0, **printed(2 * HOUR_S, 4000)), "make"),
    ended(7, Signaled(signal=9, **printed(90_000, 0.2)), "./crash"),
    ended(8, TimedOut(code=None, signal=15, **printed(90_000, 60)), "sleep 100"),
    ended(9, OverLimit(limit="memory", code=None, signal=9, **printed(200_000, 7)), "python3 train.py", name="train"),
    ended(10, Lost("the machine was restarted"), "tail -f /var/log/syslog"),
]  # fmt: skip


def shown(columns: int | None, jobs: Sequence[JobStatus] = JOBS) -> str:
    return "\n".join(lines(jobs, NOW, columns))


@pytest.mark.parametrize("columns", [60, 80, 120, 250, None])
def test_it_looks_as_it_is_recorded(columns: int | None) -> None:
    recorded = Path(__file__).with_name("job_tables") / f"{columns or 'pipe'}.txt"
    assert shown(columns) + "\n" == recorded.read_text()


@pytest.mark.parametrize("columns", [*range(60, 251, 7), 250])
def test_every_line_fits(columns: int) -> None:
    assert max(map(wcwidth.wcswidth, shown(columns).splitlines())) <= columns


@pytest.mark.parametrize("columns", [1, 9, 20, 40])
def test_every_line_fits_also_where_hardly_anything_does(columns: int) -> None:
    assert max(map(wcwidth.wcswidth, shown(columns).splitlines())) <= columns


def test_columns_that_would_be_empty_are_left_out_on_a_terminal_and_never_in_a_pipe() -> None:
    only_ended = [each for each in JOBS if isinstance(each.job.state, Exited)]
    assert shown(250, only_ended).splitlines()[0].split() == [
        "ID",
        "STATUS",
        "NAME",
        "TIME",
        "ENDED",
        "BY",
        "CWD",
        "COMMAND",
    ]
    assert shown(None, only_ended).splitlines()[0].split() == shown(None).splitlines()[0].split()


def test_the_columns_that_matter_least_go_first() -> None:
    titles = [shown(columns).splitlines()[0].split() for columns in range(250, 40, -1)]
    gone = [set(before) - set(after) for before, after in itertools.pairwise(titles)]
    assert [title for each in gone for title in sorted(each)] == [
        "BY",
        "CWD",
        "MEM",
        "CPU",
        "ENDED",
        "PORTS",
        "TIME",
        "COMMAND",
    ]

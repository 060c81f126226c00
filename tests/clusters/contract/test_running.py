"""Running: a command runs where it was asked to, as it was asked to, and its end is known."""

from pathlib import Path
from typing import Any

import pytest

from bgjob.core.errors import InvalidArgument
from bgjob.core.job import Exited, NeverStarted, Running, Signaled
from tests.clusters.target import Target
from tests.support.gate import Gate


def test_a_job_runs_and_its_status_says_so(target: Target, gate: Gate) -> None:
    job_id = target.start(gate.pause)
    gate.wait_until_reached()
    status = target.jobs.status(job_id)
    assert isinstance(status.job.state, Running)
    assert status.descendants >= 1
    gate.open()
    state = target.state(job_id)
    assert isinstance(state, Exited)
    assert (state.code, target.jobs.status(job_id).descendants) == (0, 0)


def test_the_exit_code_is_the_jobs(target: Target) -> None:
    state = target.state(target.start("exit 7"))
    assert isinstance(state, Exited)
    assert state.code == 7


def test_a_signal_that_the_job_gets_elsewhere_is_told(target: Target) -> None:
    state = target.state(target.start("kill -KILL $$"))
    assert isinstance(state, Signaled)
    assert state.signal == 9


def test_the_environment_is_added_to(target: Target) -> None:
    job_id = target.start(
        'echo "$GREETING, $HOME"', env={"GREETING": "hello \u00e4 'quoted' \"twice\" $HOME"}
    )
    greeting, _, home = target.printed(job_id).decode().strip().rpartition(", ")
    assert greeting == "hello \u00e4 'quoted' \"twice\" $HOME"
    assert home


def test_it_runs_in_the_directory_that_was_asked_for(target: Target, tmp_path: Path) -> None:
    (place := tmp_path / "a place").mkdir()
    job_id = target.start("pwd", cwd=str(place))
    assert target.printed(job_id) == f"{place}\n".encode()
    assert target.jobs.status(job_id).job.spec.cwd == str(place)


def test_a_directory_that_is_not_there_is_said_and_nothing_runs(target: Target, tmp_path: Path) -> None:
    """At once, or, where that is known only in the job's turn, by the job."""
    missing, ran = tmp_path / "missing", tmp_path / "ran"
    try:
        state = target.state(target.start(f"touch {ran}", cwd=str(missing)))
        assert isinstance(state, NeverStarted)
        said = state.reason
    except InvalidArgument as problem:
        said = str(problem)
    assert str(missing) in said
    assert not ran.exists()


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_the_shell_is_the_one_that_was_asked_for(target: Target, shell: str) -> None:
    job_id = target.start('echo "${BASH_VERSION:+bash}"', shell=shell)
    expected = b"bash\n" if shell == "bash" else (b"\n", b"bash\n")  # on some systems sh is bash
    assert target.printed(job_id) in expected


def test_a_command_may_be_long_and_have_many_lines(target: Target) -> None:
    text = "\u00e4 line that is not short, with 'quotes' and \\ and $dollars\n" * 2000
    job_id = target.start(f"cat <<'END' | cksum\n{text}END\n")
    import subprocess

    known = subprocess.run(["cksum"], input=text.encode(), stdout=subprocess.PIPE, check=True)
    assert target.printed(job_id) == known.stdout


def test_a_command_and_its_end_are_one_call(target: Target) -> None:
    done = target.jobs.run("echo quick; exit 3", wait_s=30, **target.where)
    assert done.waited
    assert (done.waited.output.stdout, getattr(done.job.state, "code", None)) == ("quick\n", 3)


def test_the_stdin_of_a_job_that_is_waited_for_is_empty(target: Target) -> None:
    done = target.jobs.run("cat; echo over", wait_s=30, **target.where)
    assert done.waited
    assert done.waited.output.stdout == "over\n"


@pytest.mark.parametrize(
    "wrong",
    [{"timeout_s": -1}, {"rows": 100_000}, {"options": {"memory": "much"}}, {"watch": ["("]}],
    ids=str,
)
def test_what_cannot_be_is_refused_and_leaves_no_job(target: Target, wrong: dict[str, Any]) -> None:
    before = len(target.jobs.list(limit=1000).jobs)
    with pytest.raises(InvalidArgument):
        target.start("true", **wrong)
    assert len(target.jobs.list(limit=1000).jobs) == before


def test_a_job_says_where_it_runs(target: Target) -> None:
    """In its record, which outlives the target."""
    job = target.jobs.status(target.start("true")).job
    assert getattr(job.spec, "target", None) == target.name

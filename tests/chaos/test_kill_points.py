"""kill -9 at every system call: whichever of a job's processes it hits, and whenever, nothing of the job is lost.

A dry run lists the calls of a process; then one trial per call, in which strace kills it there. Calls after which
nothing outside the process has changed are left out (tools.HARMLESS). Of plays after the first one, most of what
begins alike is left out, and half of a shim's rest: BGJOB_CHAOS_EVERY=1 has these too.
"""

import os
from collections.abc import Iterator

import pytest

from tests.chaos.plays import conversation, plays
from tests.chaos.stage import Launch, Stage, built_stage
from tests.chaos.trial import Case, Result, summary, try_all, try_until_fork
from tests.support.requires import linux_only, needs

pytestmark = [linux_only, needs("strace"), pytest.mark.timeout(1800)]

EVERY = bool(os.environ.get("BGJOB_CHAOS_EVERY"))
MOST_SHOWN = 30
MODES = pytest.mark.parametrize("terminal", [False, True], ids=["pipe", "terminal"])


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with built_stage() as stage:
        yield stage


@MODES
def test_a_killed_shim_loses_nothing(stage: Stage, terminal: bool) -> None:
    """Its guard takes over: output, input, exit code, timeout, a kill under way, and what was left behind."""
    results = try_all(stage, [Case(play, "shim") for play in plays(terminal)], EVERY)
    assert_whole(results, at_least=500)


@MODES
def test_a_killed_guard_loses_nothing(stage: Stage, terminal: bool) -> None:
    results = try_all(stage, [Case(play, "guard") for play in plays(terminal)], EVERY)
    assert_whole(results, at_least=70)


@MODES
def test_a_killed_zygote_loses_nothing(stage: Stage, terminal: bool) -> None:
    """The start that asked it is done by the spare that it had, or by another."""
    assert_whole(try_all(stage, [Case(conversation(terminal), "zygote")], EVERY), at_least=10)


@MODES
def test_a_killed_starter_leaves_a_whole_job_or_none(stage: Stage, terminal: bool) -> None:
    """Nobody was told of the job. It runs to its end all the same, or it was never started, or is not there."""
    cases = [Case(conversation(terminal), "starter", launch) for launch in launches(terminal)]
    results = try_all(stage, cases, EVERY)
    assert_struck(results, at_least=80)
    assert {result.outcome for result in results if result.struck} == {"none", "never started", "whole"}


@MODES
def test_a_shim_killed_with_its_starter_leaves_a_whole_job_or_one_that_never_started(
    stage: Stage, terminal: bool
) -> None:
    """The guard starts the job if the shim would have: the shim had taken it."""
    case = Case(conversation(terminal), "shim", with_starter=True)
    results = try_until_fork(stage, case)
    assert_struck(results, at_least=30)
    assert {result.outcome for result in results if result.struck} == {"never started", "whole"}


def launches(terminal: bool) -> list[Launch]:
    """What a start costs an interpreter for is tried once: it does not depend on the mode."""
    return ["zygote running", "fresh" if terminal else "zygote to boot"]


def assert_whole(results: list[Result], at_least: int) -> None:
    """Nobody but the starter can keep `execute` from its answer."""
    assert_struck(results, at_least)
    assert {result.outcome for result in results if result.struck} == {"whole"}


def assert_struck(results: list[Result], at_least: int) -> None:
    print(summary(results))
    if violations := [str(result) for result in results if result.violates]:
        pytest.fail("\n".join([f"{len(violations)} violations", *violations[:MOST_SHOWN]]), pytrace=False)
    assert sum(result.struck for result in results) >= at_least

"""Slurm's words, as tables: what is asked of sbatch, what squeue and sinfo print, what an end means."""

from typing import Any

import pytest

from bgjob.core.engine import EngineState, Resources
from bgjob.core.errors import InvalidArgument
from bgjob.core.slurm import (
    ENDS,
    SINFO_COLUMNS,
    SQUEUE_COLUMNS,
    cancelled_by,
    checked_session,
    cluster_of,
    columns,
    final_outcome,
    needs_slurms_word,
    phase_of,
    sbatch_flags,
    states_of,
)
from bgjob.core.values import GIB, MIB

ONE_TASK = ["--nodes=1", "--ntasks=1"]


@pytest.mark.parametrize(
    ("resources", "flags"),
    [
        (Resources(), []),
        (Resources(cpus=4), ["--cpus-per-task=4"]),
        (Resources(gpus=2), ["--gres=gpu:2"]),
        (Resources(gpus=0), []),
        (Resources(memory_bytes=2 * GIB), ["--mem=2048M"]),
        (Resources(memory_bytes=MIB + 1), ["--mem=2M"]),
        (Resources(time_limit_s=90), ["--time=1:30"]),
        (Resources(time_limit_s=0.5), ["--time=0:01"]),
        (Resources(time_limit_s=86_400), ["--time=1440:00"]),
        (Resources(labels={"gpu": "a100", "net": "fast"}), ["--constraint=a100&fast"]),
        (Resources(labels={"a": "fast", "b": "fast"}), ["--constraint=fast"]),
        (
            Resources(partition="long", account="lab", node="n1"),
            ["--partition=long", "--account=lab", "--nodelist=n1"],
        ),
    ],
)
def test_resources_become_flags_of_sbatch(resources: Resources, flags: list[str]) -> None:
    assert sbatch_flags(resources) == ONE_TASK + flags


@pytest.mark.parametrize(
    "resources",
    [
        Resources(labels={"gpu": "a|b"}),
        Resources(labels={"gpu": ""}),
        Resources(partition="main --wrap=x"),
        Resources(account="-x"),
        Resources(node="n[1-3]"),
        Resources(node="n1\nn2"),
    ],
)
def test_what_slurm_could_read_as_something_else_is_refused(resources: Resources) -> None:
    with pytest.raises(InvalidArgument, match="Accepted"):
        sbatch_flags(resources)


@pytest.mark.parametrize("name", ["", "a b", "-x", "a:b", "x" * 51])
def test_a_session_has_a_plain_name(name: str) -> None:
    with pytest.raises(InvalidArgument, match="session"):
        checked_session(name)


def line(widths: dict[str, int], *cells: str) -> str:
    return "".join(cell.ljust(width) for cell, width in zip(cells, widths.values(), strict=True))


def job(
    number: str, state: str, comment: str, reason: str = "None", node: str = "", status: str = "0"
) -> str:
    return line(SQUEUE_COLUMNS, number, state, reason, node, status, comment)


def test_columns_are_asked_for_by_their_widths() -> None:
    assert columns({"JobID": 20, "State": 8}) == "JobID:20,State:8"


def test_jobs_are_known_by_their_comments() -> None:
    states = states_of(
        [
            job("1", "RUNNING", "(null)", node="n1"),
            job("2", "PENDING", "bgjob:a", reason="Resources"),
            job("3", "RUNNING", "bgjob:b", node="n2"),
            job("4", "FAILED", "bgjob:c", reason="NonZeroExitCode", node="n1", status="1792"),
            job("5", "FAILED", "bgjob:d", reason="RaisedSignal:9(Killed)", node="n1", status="9"),
            job("6", "RUNNING", "bgjob-session:work", node="n3"),
            job("7", "RUNNING", "not bgjob:e"),
        ]
    )
    assert states == {
        "bgjob:a": EngineState("queued", "2", reason="Resources"),
        "bgjob:b": EngineState("active", "3", node="n2"),
        "bgjob:c": EngineState("gone", "4", "n1", "NonZeroExitCode", "FAILED", 7),
        "bgjob:d": EngineState("gone", "5", "n1", "RaisedSignal:9(Killed)", "FAILED", 137),
        "bgjob-session:work": EngineState("active", "6", node="n3"),
    }


@pytest.mark.parametrize(
    ("lines", "engine_id"),
    [
        ([job("3", "COMPLETED", "bgjob:a"), job("9", "RUNNING", "bgjob:a")], "9"),
        ([job("9", "PENDING", "bgjob:a"), job("3", "FAILED", "bgjob:a")], "9"),
        ([job("12", "RUNNING", "bgjob:a"), job("9", "RUNNING", "bgjob:a")], "9"),
        ([job("12", "FAILED", "bgjob:a"), job("9", "CANCELLED", "bgjob:a")], "9"),
    ],
)
def test_of_two_with_one_comment_the_one_furthest_from_its_end_counts(
    lines: list[str], engine_id: str
) -> None:
    assert states_of(lines)["bgjob:a"].engine_id == engine_id


@pytest.mark.parametrize(
    ("word", "phase"),
    [
        ("PENDING", "queued"),
        ("CONFIGURING", "starting"),
        ("RUNNING", "active"),
        ("COMPLETING", "active"),
        ("SUSPENDED", "active"),
        ("A_WORD_OF_LATER_VERSIONS", "active"),
        *((word, "gone") for word in ENDS),
    ],
)
def test_each_word_is_of_a_phase(word: str, phase: str) -> None:
    assert phase_of(word) == phase


EXITED_0: dict[str, Any] = {"cause": "exited", "exit_code": 0, "signal": None, "output_bytes": 3}
EXITED_7 = {**EXITED_0, "exit_code": 7}
SIGNALED = {**EXITED_0, "cause": "signaled", "exit_code": None, "signal": 15}
KILLED = {**SIGNALED, "cause": "killed"}
OWN_TIMEOUT = {**SIGNALED, "cause": "timed_out"}
OWN_LIMIT = {**SIGNALED, "cause": "over_limit", "limit": "processes"}
MEMORY = {"cause": "over_limit", "limit": "memory", "reason": "Slurm: it ran out of memory"}
TIMED_OUT = {"cause": "timed_out", "reason": "Slurm: it reached its time limit"}
PREEMPTED = {"cause": "killed", "reason": "Slurm: it was preempted by another job"}


def gone(end: str) -> EngineState:
    return EngineState("gone", "1", "n1", None, end, 0)


@pytest.mark.parametrize(
    ("outcome", "end", "corrected"),
    [
        (EXITED_0, "COMPLETED", {}),
        (EXITED_7, "FAILED", {}),
        (SIGNALED, "FAILED", {}),
        (EXITED_0, "OUT_OF_MEMORY", MEMORY),  # of the outer shell, which has not noticed
        (EXITED_7, "OUT_OF_MEMORY", MEMORY),
        (SIGNALED, "OUT_OF_MEMORY", MEMORY),
        (KILLED, "TIMEOUT", TIMED_OUT),
        (SIGNALED, "TIMEOUT", TIMED_OUT),
        (EXITED_7, "TIMEOUT", TIMED_OUT),
        (EXITED_0, "TIMEOUT", {}),  # what it left running was stopped
        (SIGNALED, "CANCELLED", {"cause": "killed"}),
        (KILLED, "CANCELLED", {}),
        (EXITED_0, "CANCELLED", {}),
        (KILLED, "PREEMPTED", PREEMPTED),
        (EXITED_0, "NODE_FAIL", {}),  # it had ended before
        (KILLED, "NODE_FAIL", {}),
        (OWN_TIMEOUT, "CANCELLED", {}),
        (OWN_LIMIT, "OUT_OF_MEMORY", {}),
        ({"cause": "never_started", "reason": "no such shell"}, "FAILED", {}),
    ],
)
def test_slurm_corrects_what_the_shim_could_not_know(
    outcome: dict[str, Any], end: str, corrected: dict[str, Any]
) -> None:
    assert final_outcome(outcome, gone(end)) == {**outcome, **corrected}


@pytest.mark.parametrize(
    ("end", "cause"),
    [
        ("OUT_OF_MEMORY", "over_limit"),
        ("TIMEOUT", "timed_out"),
        ("DEADLINE", "timed_out"),
        ("CANCELLED", "killed"),
        ("PREEMPTED", "killed"),
        ("NODE_FAIL", "lost"),
        ("BOOT_FAIL", "lost"),
        ("COMPLETED", "lost"),
        ("FAILED", "lost"),
    ],
)
def test_where_the_shim_left_nothing_slurms_word_is_all_that_is_known(end: str, cause: str) -> None:
    assert final_outcome(None, gone(end))["cause"] == cause


def test_what_is_lost_is_lost_for_a_reason() -> None:
    assert final_outcome(None, gone("NODE_FAIL"))["reason"] == "Slurm says NODE_FAIL: node n1 has failed"
    assert (
        "NonZeroExitCode"
        in final_outcome(None, EngineState("gone", "1", "n1", "NonZeroExitCode", "FAILED", 1))["reason"]
    )
    assert "does not know" in final_outcome(None, None)["reason"]


def test_what_we_have_cancelled_was_killed_before_slurms_queue_says_so() -> None:
    assert final_outcome(SIGNALED, None)["cause"] == "signaled"
    assert final_outcome(SIGNALED, None, is_cancelled=True)["cause"] == "killed"
    assert final_outcome(EXITED_0, None, is_cancelled=True) == EXITED_0


def test_a_cancelled_job_says_by_whom_if_slurm_keeps_accounts() -> None:
    assert cancelled_by("CANCELLED by 1007\n") == "Slurm: cancelled by uid 1007"
    assert cancelled_by("") == cancelled_by("CANCELLED\n") == "Slurm: cancelled, and not by bgjob"


def test_a_shims_outcome_outlives_slurms_memory() -> None:
    assert final_outcome(KILLED, None) == KILLED


@pytest.mark.parametrize(
    ("outcome", "needs"),
    [(EXITED_0, False), (EXITED_7, False), (SIGNALED, True), (KILLED, True), (OWN_TIMEOUT, False)],
)
def test_only_an_end_by_a_signal_waits_for_slurms_word(outcome: dict[str, Any], needs: bool) -> None:
    assert needs_slurms_word(outcome) is needs


def node(name: str, state: str, cpus: str, memory: str, used: str, *words: str) -> str:
    return line(SINFO_COLUMNS, name, state, cpus, memory, used, *words)


def test_nodes_and_what_is_free_on_them() -> None:
    info = cluster_of(
        [
            node(
                "n1", "mix", "3/5/0/8", "16000", "4000", "gpu:a100:4(S:0-1)", "gpu:a100:1(IDX:0)", "fast,a100"
            ),
            node(
                "n1", "mix", "3/5/0/8", "16000", "4000", "gpu:a100:4(S:0-1)", "gpu:a100:1(IDX:0)", "fast,a100"
            ),
            node("n2", "idle", "0/8/0/8", "16000", "0", "gpu:2,nic:1", "gpu:0", "(null)"),
            node("n3", "down*", "0/0/8/8", "16000", "0", "(null)", "gpu:0", "slow"),
        ],
        queued=12,
    )
    assert [(each.name, each.is_up, each.cpus, each.cpus_free) for each in info.nodes] == [
        ("n1", True, 8, 5),
        ("n2", True, 8, 8),
        ("n3", False, 8, 0),
    ]
    assert [(each.gpus, each.gpus_free) for each in info.nodes] == [(4, 3), (2, 2), (0, 0)]
    assert [each.memory_free_bytes // MIB for each in info.nodes] == [12_000, 16_000, 0]
    assert [each.labels for each in info.nodes] == [["fast", "a100"], [], ["slow"]]
    assert info.queued == 12

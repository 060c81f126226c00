"""Output: every byte, in its order, as it comes and afterwards."""

from collections.abc import Callable
from pathlib import Path

from bgjob.api import Shown
from bgjob.home.log_format import STDERR, STDOUT
from tests.clusters.engine import Engine
from tests.clusters.target import Target
from tests.support.gate import Gate

NewTarget = Callable[..., Target]


def test_three_megabytes_arrive_byte_for_byte(target: Target, tmp_path: Path) -> None:
    """Any bytes: no text, no lines."""
    job_id = target.start(f"head -c 3000000 /dev/urandom | tee {tmp_path}/kept")
    assert target.printed(job_id) == (tmp_path / "kept").read_bytes()
    assert target.jobs.status(job_id).output_bytes == 3_000_000


def test_of_a_flood_its_beginning_and_its_end_are_kept(new_target: NewTarget, engine: Engine) -> None:
    """Each piece that is there is what was printed at its place."""
    target = new_target(engine, MCP_BG_MAX_OUTPUT_SIZE="1MB")
    job_id = target.start("seq 1 1000000")
    target.ended(job_id)
    printed = "".join(f"{number}\n" for number in range(1, 1_000_001)).encode()
    pieces = list(target.jobs.follow(job_id, wait=True))
    assert all(piece.data == printed[piece.end - len(piece.data) : piece.end] for piece in pieces)
    assert pieces[-1].end == len(printed)
    assert sum(len(piece.data) + piece.dropped_bytes for piece in pieces) == len(printed)
    assert 100_000 < sum(len(piece.data) for piece in pieces) < 3_000_000
    assert target.jobs.tail(job_id, 2).stdout == "999999\n1000000\n"


def test_the_tail_is_the_last_lines(target: Target) -> None:
    job_id = target.start("seq 1 5000")
    target.ended(job_id)
    assert target.jobs.tail(job_id, 3).stdout == "4998\n4999\n5000\n"


def test_a_cursor_gives_what_came_since(target: Target, new_gate: Callable[[str], Gate]) -> None:
    first, second = new_gate("first"), new_gate("second")
    job_id = target.start(f"echo one; {first.pause}; echo two; {second.pause}; echo three")
    said, cursor = [], "0"
    for gate, word in ((first, "one"), (second, "two")):
        gate.wait_until_reached()
        target.wait_until_printed(job_id, word)
        output = target.jobs.output(job_id, cursor)
        said.append(output.stdout)
        cursor = output.cursor
        gate.open()
    target.ended(job_id)
    said.append(target.jobs.output(job_id, cursor).stdout)
    assert said == ["one\n", "two\n", "three\n"]


def test_output_is_there_while_the_job_runs(target: Target, gate: Gate) -> None:
    job_id = target.start(f"echo out; echo err >&2; printf unfinished; {gate.pause}; echo ' line'")
    gate.wait_until_reached()
    target.wait_until_printed(job_id, "unfinished")
    target.wait_until_printed(job_id, "err")
    output = target.jobs.output(job_id)
    assert (output.stdout, output.stderr) == ("out\nunfinished", "err\n")
    gate.open()
    target.ended(job_id)
    assert target.jobs.output(job_id).stdout == "out\nunfinished line\n"


def test_the_streams_are_kept_apart(target: Target) -> None:
    job_id = target.start("for n in 1 2 3; do echo out $n; echo err $n >&2; done")
    pieces = list(target.jobs.follow(job_id, wait=True))
    printed = [b"".join(each.data for each in pieces if each.stream == one) for one in (STDOUT, STDERR)]
    assert printed == [b"out 1\nout 2\nout 3\n", b"err 1\nerr 2\nerr 3\n"]
    output = target.jobs.output(job_id)
    assert (output.stdout, output.stderr) == ("out 1\nout 2\nout 3\n", "err 1\nerr 2\nerr 3\n")


def test_both_together_are_in_the_order_in_which_they_were_printed(
    target: Target, new_gate: Callable[[str], Gate]
) -> None:
    gates = [new_gate(name) for name in "abc"]
    said = ["out| one", "err| two", "out| three"]
    job_id = target.start(
        f"echo one; {gates[0].pause}; echo two >&2; {gates[1].pause}; echo three; {gates[2].pause}"
    )
    for gate, line in zip(gates, said, strict=True):
        gate.wait_until_reached()
        target.wait_until_printed(job_id, line.split()[1])
        gate.open()
    target.ended(job_id)
    shown = target.jobs.output(job_id, shown=Shown(view="interleaved")).interleaved or ""
    assert [line.split(" ", 1)[1] for line in shown.splitlines()] == said


def test_what_a_process_prints_that_was_left_behind_is_kept(target: Target, gate: Gate) -> None:
    job_id = target.start(f"(setsid sh -c '{gate.pause}; echo later' &); echo now")
    gate.wait_until_reached()
    target.ended(job_id)
    assert target.jobs.status(job_id).left_running >= 1
    gate.open()
    target.wait_until_printed(job_id, "later")
    assert target.jobs.output(job_id).stdout == "now\nlater\n"


def test_many_jobs_print_at_once(target: Target) -> None:
    """No byte of one comes into another."""
    ids = [target.start(f"for n in $(seq 1 2000); do echo job {number} line $n; done") for number in range(8)]
    for number, job_id in enumerate(ids):
        expected = "".join(f"job {number} line {n}\n" for n in range(1, 2001))
        assert target.printed(job_id).decode() == expected

"""Interaction: what is typed arrives once and whole, and a job that asks is seen to ask."""

import pytest

from bgjob.api import Typed
from bgjob.core.errors import NotRunning, StdinClosed, StdinIsNull
from tests.clusters.target import Target
from tests.support.waiting import PATIENCE_S


def test_two_turns(target: Target) -> None:
    job_id = target.start("read a; echo got $a; read b; echo then $b; exit 5")
    first = target.jobs.interact(job_id, Typed("one"), wait_s=PATIENCE_S)
    assert (first.output.stdout, first.accepted_bytes) == ("got one\n", 4)
    second = target.jobs.interact(job_id, Typed("two"), wait_s=PATIENCE_S)
    assert second.output.stdout == "then two\n"
    assert getattr(target.state(job_id), "code", None) == 5
    assert target.jobs.output(job_id).stdout == "got one\nthen two\n"


def test_a_prompt_is_seen(target: Target) -> None:
    job_id = target.start("printf 'Continue? [y/n] '; read answer; echo said $answer")
    waited = target.wait(job_id, for_input=True)
    assert waited.came
    assert waited.came.condition == "input"
    status = target.jobs.status(job_id)
    assert (status.waits_for_input, status.prompt) == (True, "Continue? [y/n]")
    said = target.jobs.interact(job_id, Typed("y"), wait_s=PATIENCE_S)
    assert said.output.stdout == "said y\n"


def test_a_wait_for_something_else_ends_where_the_job_asks(target: Target) -> None:
    job_id = target.start("printf 'password: '; read answer; echo ready")
    waited = target.wait(job_id, pattern="ready")
    assert waited.came
    assert (waited.came.condition, waited.came.asked, waited.status.prompt) == ("input", False, "password:")


def test_each_answer_brings_the_next_question(target: Target) -> None:
    job_id = target.start(
        "read -p 'name: ' a; read -p 'colour: ' b; echo $a likes $b", pty=True, shell="bash"
    )
    target.wait(job_id, for_input=True)
    said = target.jobs.interact(job_id, Typed("ann"), wait_s=PATIENCE_S)
    assert (said.waits_for_input, said.prompt) == (True, "colour:")
    said = target.jobs.interact(job_id, Typed("red"), wait_s=PATIENCE_S)
    assert "ann likes red" in said.output.stdout


def test_much_input_arrives_whole(target: Target) -> None:
    """More than a pipe holds, and more than a line of any wire."""
    text = "".join(f"line {number} of the input\n" for number in range(20_000))
    job_id = target.start("wc -lc")
    said = target.jobs.interact(job_id, Typed(text, close_stdin=True), wait_s=PATIENCE_S)
    assert said.accepted_bytes == len(text)
    assert target.printed(job_id).split() == [b"20000", str(len(text)).encode()]


def test_the_end_of_input_ends_a_job_that_reads_to_it(target: Target) -> None:
    job_id = target.start("cat; echo end; exit 4")
    target.jobs.interact(job_id, Typed("last", close_stdin=True), wait_s=PATIENCE_S)
    assert getattr(target.state(job_id), "code", None) == 4
    assert target.jobs.output(job_id).stdout == "last\nend\n"


def test_a_job_that_takes_no_input_says_why(target: Target) -> None:
    ended, deaf, closed = (
        target.start("true"),
        target.start("exec sleep 1000", stdin="null"),
        target.start("cat; cat"),
    )
    target.ended(ended)
    with pytest.raises(NotRunning, match="it completed"):
        target.jobs.interact(ended, Typed("x"))
    with pytest.raises(StdinIsNull):
        target.jobs.interact(deaf, Typed("x"))
    open_ended = target.start("cat; exec sleep 1000")
    target.jobs.interact(open_ended, Typed(close_stdin=True), wait_s=0)
    with pytest.raises(StdinClosed):
        target.jobs.interact(open_ended, Typed("x"))
    target.jobs.kill(closed)


def test_ctrl_c_interrupts(target: Target) -> None:
    job_id = target.start("trap 'echo interrupted; exit 9' INT; echo ready; while :; do sleep 0.1; done")
    target.wait_until_printed(job_id, "ready")
    target.jobs.interact(job_id, Typed(keys=["ctrl-c"]), wait_s=PATIENCE_S)
    assert getattr(target.state(job_id), "code", None) == 9
    assert target.jobs.output(job_id).stdout == "ready\ninterrupted\n"

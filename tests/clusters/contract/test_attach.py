"""Attach: a person at a terminal here is in the job over there."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bgjob.api import Typed
from bgjob.core.errors import HeldByPerson
from tests.clusters.target import Target
from tests.support.attached import Person
from tests.support.requires import needs
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = needs("tmux")


@pytest.fixture
def ann(target: Target, tmp_path: Path) -> Iterator[Person]:
    environment = {"BGJOB_HOME": str(target.home), "HOME": str(tmp_path), **target.settings}
    with closing(Person(tmp_path, environment, "ann")) as person:
        yield person


def repl(target: Target) -> str:
    job_id = target.start("PYTHONSTARTUP= exec python3 -q", pty=True)
    target.wait(job_id, for_input=True)
    return job_id


def test_what_is_typed_and_printed_is_live_and_leaving_leaves_the_job(target: Target, ann: Person) -> None:
    job_id = repl(target)
    ann.enter(job_id, ">>>")
    ann.run("print(6 * 7)")
    ann.wait_for("\n42\n")
    ann.detach()
    said = target.jobs.interact(job_id, Typed("print(7 * 7)"), wait_s=PATIENCE_S)
    assert "49" in said.output.stdout


def test_the_job_gets_the_size_of_the_terminal_and_is_held(target: Target, ann: Person) -> None:
    job_id = repl(target)
    ann.enter(job_id, ">>>")
    ann.resize(100, 30)
    ann.run("import os; os.get_terminal_size()")
    ann.wait_for("columns=100, lines=30", "columns=80, lines=24")
    wait_until(lambda: _asked_again(ann), "the job has the size of the terminal", lambda: ann.screen, 60)
    with pytest.raises(HeldByPerson):
        target.jobs.interact(job_id, Typed("x"))
    ann.detach()
    assert target.jobs.status(job_id).descendants == 1


def _asked_again(person: Person) -> bool:
    """The size comes with the next redraw: ask until it has."""
    person.run("os.get_terminal_size()")
    person.wait_for("columns=100, lines=30", "columns=80, lines=24")
    return "columns=100, lines=30" in person.screen


def test_the_end_of_the_job_is_seen(target: Target, ann: Person) -> None:
    job_id = repl(target)
    ann.enter(job_id, ">>>")
    ann.run("raise SystemExit(7)")
    ann.wait_for("[exit 7 after")
    assert getattr(target.state(job_id), "code", None) == 7

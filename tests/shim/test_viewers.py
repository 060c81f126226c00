"""Who holds a job: a person who is attached and gives signs of life."""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bgjob.api import Jobs, Typed, open_jobs
from bgjob.api.attach import Attachment
from bgjob.core.errors import HeldByPerson
from bgjob.link import spawn
from bgjob.system import own_argv
from tests.support.shims import Caller, ask
from tests.support.waiting import wait_until

SILENT_S = 3.0
IMPATIENT = own_argv.SHIM_CODE.replace(
    "entry.main(", f"from bgjob.shim import viewers; viewers.SILENT_S = {SILENT_S}; entry.main("
)


@pytest.fixture
def jobs(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Jobs]:
    """Their shims release a silent hold after seconds, not after a minute."""
    monkeypatch.setattr(spawn, "SHIM", [*own_argv.SHIM[:5], IMPATIENT, own_argv.PACKAGE_ROOT])
    with contextlib.closing(open_jobs({**os.environ, "BGJOB_HOME": str(home)}, many=False)) as jobs:
        yield jobs


def hold(jobs: Jobs, job_id: str, **how: object) -> Caller:
    person = Caller(jobs, job_id)
    person.request(op="attach", by="ann", **how)
    assert person.hear()["ok"]
    person.say(b'{"op": "stdin", "length": 2, "close": false, "wait_s": 30}\na\n')
    assert person.hear()["ok"]
    assert holder(jobs, job_id) == "ann"
    return person


def holder(jobs: Jobs, job_id: str) -> str | None:
    held = ask(jobs, job_id, op="waits")["held"]
    return str(held["by"]) if held else None


def test_a_hold_without_a_sign_of_life_is_released(jobs: Jobs) -> None:
    silent, older = (jobs.execute("cat").id for _ in range(2))
    people = [hold(jobs, older), hold(jobs, silent, beats=True)]
    wait_until(lambda: holder(jobs, silent) is None, "the silent one holds it no longer")
    jobs.interact(silent, Typed("from an agent"))
    with pytest.raises(HeldByPerson):  # a client of an older version gives no signs
        jobs.interact(older, Typed("from an agent"))
    people[1].request(op="status")
    assert people[1].hear()["held"] is None  # it comes back, and has to type to hold the job again
    for person in people:
        person.close()


def test_a_holder_has_a_name_that_every_client_can_show(jobs: Jobs) -> None:
    job_id = jobs.execute("cat").id
    person = Caller(jobs, job_id)
    person.request(op="attach", by="a\x1b[2J\n" + "n" * 1000)
    assert person.hear()["ok"]
    person.say(b'{"op": "stdin", "length": 2, "close": false, "wait_s": 30}\na\n')
    assert person.hear()["ok"]
    assert holder(jobs, job_id) == "a[2J" + "n" * 96
    person.close()


def test_signs_of_life_keep_a_hold(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bgjob.api.attach.BEAT_S", 0.0)
    beating, silent = (jobs.execute("cat").id for _ in range(2))
    other = hold(jobs, silent, beats=True)
    person = Attachment(jobs.context, jobs.status(beating).job, "bob")
    person.type(b"b\n")
    while holder(jobs, silent):
        person.beat()
        person.hear({*person.descriptors()[:1]})
        time.sleep(0.01)  # as a person's terminal, which has nothing to do
    assert holder(jobs, beating) == "bob"
    person.close()
    other.close()

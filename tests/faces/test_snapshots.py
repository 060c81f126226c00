"""What a call costs: it loads its job once, and opens the log once."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from bgjob.api import Jobs, Shown
from bgjob.output.log_reader import LogReader
from bgjob.store.store import Store
from tests.support.gate import Gate

Cost = Counter[str]


@pytest.fixture
def cost(monkeypatch: pytest.MonkeyPatch) -> Cost:
    """Counts as it goes; the real ones do the work."""
    counts: Cost = Counter()

    def count(where: type, method: str, what: str) -> None:
        real = getattr(where, method)

        def counted(*given: Any, **named: Any) -> Any:
            counts[what] += 1
            return real(*given, **named)

        monkeypatch.setattr(where, method, counted)

    count(Store, "load", "loads")
    count(LogReader, "__init__", "opens")
    return counts


@pytest.fixture
def ended(jobs: Jobs) -> str:
    job_id = jobs.execute("echo ready; echo gone >&2; exit 3").id
    assert jobs.wait_for([job_id])[0].met
    return job_id


@pytest.mark.parametrize(
    "call",
    [
        lambda jobs, job_id: jobs.wait_for([job_id], pattern="ready"),
        lambda jobs, job_id: jobs.wait_for([job_id], pattern="ready", stop_pattern="gone", mode="all"),
        lambda jobs, job_id: jobs.wait_for([job_id]),
        lambda jobs, job_id: jobs.status(job_id),
        lambda jobs, job_id: jobs.output(job_id),
        lambda jobs, job_id: jobs.output(job_id, shown=Shown(view="interleaved")),
        lambda jobs, job_id: jobs.tail(job_id, 1),
        lambda jobs, job_id: jobs.search("ready", job_ids=[job_id]),
    ],
)
def test_an_answer_about_an_ended_job_takes_one_load_and_one_look_at_its_log(
    jobs: Jobs, ended: str, cost: Cost, call: Callable[[Jobs, str], object]
) -> None:
    call(jobs, ended)
    assert cost == {"loads": 1, "opens": 1}


def test_a_pattern_that_is_there_is_found_in_one_look_while_the_job_runs(jobs: Jobs, cost: Cost) -> None:
    job_id = jobs.execute("echo ready; exec sleep 60 < /dev/null").id
    assert jobs.wait_for([job_id], pattern="ready")[0].met
    cost.clear()
    (waited,) = jobs.wait_for([job_id], pattern="ready")
    assert waited.met
    assert waited.output.stdout == "ready\n"
    assert cost == {"loads": 1, "opens": 1}


def test_a_question_that_a_wait_was_for_is_in_its_answer(jobs: Jobs) -> None:
    """Its snapshot may be older than the question: then the log is opened again."""
    job_id = jobs.execute("printf 'name? '; read name").id
    (waited,) = jobs.wait_for([job_id], for_input=True)
    assert waited.met
    assert (waited.status.prompt, waited.output.stdout) == ("name?", "name? ")


def test_in_a_wait_for_all_the_answer_about_the_first_is_not_older_than_the_last(
    jobs: Jobs, new_gate: Callable[[str], Gate]
) -> None:
    """It went on while the other was waited for."""
    first_gate, second_gate = new_gate("first"), new_gate("second")
    first = jobs.execute(f"echo ready; {first_gate.pause}; echo more").id
    first_gate.wait_until_reached()
    assert jobs.wait_for([first], pattern="ready")[0].met
    second = jobs.execute(f"{second_gate.pause}; echo ready").id
    second_gate.wait_until_reached()

    def end_both(_passed_s: float, _message: str) -> None:
        first_gate.open()
        jobs.wait_for([first])
        second_gate.open()

    waited = jobs.wait_for([first, second], pattern="ready", mode="all", tell=end_both)
    assert [each.came.condition if each.came else None for each in waited] == ["pattern", "pattern"]
    assert waited[0].output.stdout == "ready\nmore\n"
    assert waited[0].status.job == jobs.status(first).job

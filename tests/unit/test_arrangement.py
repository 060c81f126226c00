"""The order of a live view, and its filter."""

import pytest

from bgjob.api.arrangement import ORDERS, Arrangement, Order
from bgjob.core.errors import InvalidArgument
from bgjob.core.job import Job
from tests.support.rows import a_row, live, names

MB = 1 << 20
ALL = live(
    a_row("late", "ended", created_at=990),
    a_row("queued", "queued", created_at=995),
    a_row("idle", created_at=970, cpu_percent=0.4, memory_bytes=50 * MB),
    a_row("busy", created_at=960, cpu_percent=90.0, memory_bytes=2 * MB),
    a_row("asks", "asking", created_at=950, cpu_percent=0.1, memory_bytes=2 * MB + 1000),
    a_row("early", "ended", created_at=980),
    a_row("new", created_at=999),
)


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("state", "asks new idle busy queued early late"),
        ("cpu", "busy idle asks new queued early late"),
        ("memory", "idle busy asks new queued early late"),
        ("age", "new queued late early idle busy asks"),
    ],
)
def test_each_order(order: Order, expected: str) -> None:
    assert names(Arrangement((), order).of(ALL)) == expected
    assert order in ORDERS


def test_what_ended_last_is_the_first_of_the_ended_ones() -> None:
    assert names(Arrangement().of(ALL)[-2:]) == "early late"


@pytest.mark.parametrize("order", ORDERS)
def test_a_new_order_keeps_the_filter(order: Order) -> None:
    arrangement = Arrangement(["name=a"])
    arrangement.of(ALL)
    assert sorted(names(arrangement.reordered(order).of(ALL)).split()) == ["asks", "early", "late"]


def test_all_words_of_a_filter_must_fit() -> None:
    assert names(Arrangement(["status=running", "name=s"]).of(ALL)) == "asks busy"
    assert names(Arrangement(["nothing like it"]).of(ALL)) == ""


def test_a_word_that_is_no_filter_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="is no status"):
        Arrangement(["status=over"])


def test_ended_jobs_are_arranged_again_only_if_there_are_others() -> None:
    """With 10,000 of them that is what a look would cost."""
    looked_at: list[str] = []

    def fits(job: Job) -> bool:
        looked_at.append(job.spec.name or "")
        return True

    arrangement = Arrangement()
    arrangement._fits = fits
    arrangement.of(ALL)
    assert "late" in looked_at
    looked_at.clear()
    assert names(arrangement.of(ALL)) == "asks new idle busy queued early late"
    assert sorted(looked_at) == ["asks", "busy", "idle", "new", "queued"]
    more = live(*ALL.current, *ALL.ended, a_row("more", "ended", created_at=1))
    assert names(arrangement.of(more)[-3:]) == "more early late"

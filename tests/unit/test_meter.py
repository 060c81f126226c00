"""CPU and memory of a job, from one look to the next."""

from bgjob.api.activity import Activity
from bgjob.api.meter import MOST_SAMPLES, Meter


def used(cpu_s: float | None, memory_bytes: int | None = 1000) -> Activity:
    return Activity(1, cpu_s, memory_bytes, "pss", None, None, None, None)


def test_the_first_look_tells_no_share() -> None:
    meter = Meter()
    meter.add(used(50.0), at=10.0)
    assert (meter.cpu_percent, list(meter.cpu_history)) == (None, [])
    assert (meter.memory_bytes, list(meter.memory_history)) == (1000, [1000])


def test_a_share_is_what_was_used_since_the_look_before() -> None:
    meter = Meter()
    for at, cpu_s in [(10.0, 50.0), (12.0, 51.0), (13.0, 55.0)]:
        meter.add(used(cpu_s), at)
    assert list(meter.cpu_history) == [50.0, 400.0]
    assert meter.cpu_percent == 400.0


def test_processes_that_end_unseen_make_no_share_below_zero() -> None:
    meter = Meter()
    meter.add(used(50.0), at=10.0)
    meter.add(used(20.0), at=11.0)
    assert meter.cpu_percent == 0.0


def test_two_looks_at_once_tell_no_share() -> None:
    meter = Meter()
    meter.add(used(1.0), at=10.0)
    meter.add(used(2.0), at=10.0)
    assert meter.cpu_percent is None


def test_a_look_too_soon_after_another_is_not_counted() -> None:
    meter = Meter()
    for at, cpu_s in [(10.0, 1.0), (11.0, 1.5), (11.01, 1.51), (12.0, 2.0)]:
        meter.add(used(cpu_s), at)
    assert list(meter.cpu_history) == [50.0, 50.0]


def test_what_the_kernel_does_not_tell_is_not_known() -> None:
    meter = Meter()
    meter.add(used(None, None), at=10.0)
    meter.add(used(None, None), at=11.0)
    assert (meter.cpu_percent, meter.memory_bytes) == (None, None)
    assert not meter.cpu_history
    assert not meter.memory_history


def test_only_the_last_samples_are_kept() -> None:
    meter = Meter()
    for second in range(2 * MOST_SAMPLES):
        meter.add(used(second / 2), float(second))
    assert list(meter.cpu_history) == [50.0] * MOST_SAMPLES

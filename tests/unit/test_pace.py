"""How often a cluster is asked: every five seconds, once more after a change, and seldom while it does not answer."""

from bgjob.remote.pace import EVERY_S, LONGEST_PAUSE_S, Pace


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def looked(pace: Pace, clock: Clock, after_s: float, *, answered: bool = True) -> None:
    clock.now += after_s
    assert pace.due_in_s() < 1e-6
    pace.note_look(answered=answered)


def test_the_first_look_is_due_at_once_and_the_next_in_five_seconds() -> None:
    pace = Pace(clock := Clock())
    looked(pace, clock, 0)
    assert pace.due_in_s() == EVERY_S
    clock.now += 2
    assert pace.due_in_s() == EVERY_S - 2
    looked(pace, clock, 3)


def test_after_a_change_one_look_comes_before_its_time() -> None:
    """Of many changes in a row, too, there is one such look in five seconds."""
    pace = Pace(clock := Clock())
    looked(pace, clock, 0)
    pace.note_change()
    looked(pace, clock, 1)
    for _ in range(10):
        clock.now += 0.1
        pace.note_change()
        assert pace.due_in_s() > 3
    looked(pace, clock, 4.001)


def test_looks_in_any_hour_are_bounded_whatever_changes() -> None:
    pace = Pace(clock := Clock())
    looks = 0
    for _ in range(36_000):
        clock.now += 0.1
        pace.note_change()
        if pace.due_in_s() == 0:
            pace.note_look(answered=True)
            looks += 1
    assert looks <= 2 * 3600 / EVERY_S


def test_one_that_does_not_answer_is_asked_ever_less_often() -> None:
    """And is not asked before its time, whatever changes."""
    pace, pauses = Pace(clock := Clock()), list[float]()
    for _ in range(6):
        looked(pace, clock, pace.due_in_s(), answered=False)
        pace.note_change()
        pauses.append(round(pace.due_in_s()))
    assert pauses == [10, 20, 40, LONGEST_PAUSE_S, LONGEST_PAUSE_S, LONGEST_PAUSE_S]
    looked(pace, clock, LONGEST_PAUSE_S)
    assert pace.due_in_s() == EVERY_S

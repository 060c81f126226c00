"""A task for a model, played at each server: what it costs there, and the sums that are held to goals."""

import shutil
from collections.abc import Callable
from functools import wraps
from typing import Any

from bench.lab import OURS, REFERENCE, Lab, Side
from bench.report import Cost, Result, Row, Task, ours_at_most, ratio_at_most
from bench.session import WithBgjob, WithReference

Play = Callable[[Any], None]
Measure = Callable[[Lab], Result]
SESSIONS: dict[str, type[WithBgjob | WithReference]] = {OURS: WithBgjob, REFERENCE: WithReference}
A_THIRD = ratio_at_most(0.34)
ANSWER_AT_MOST = ours_at_most(8000, "tokens")


def task(*needs: str, reference_lacks: str = "") -> Callable[[Play], Measure]:
    """Played at both servers, or at ours alone. `needs` are programs without which it is skipped."""

    def measure_of(play: Play) -> Measure:
        @wraps(play)
        def measure(lab: Lab) -> Result:
            missing = [program for program in needs if not shutil.which(program)]
            if missing:
                return Result(notes=[f"{play.__name__}: skipped, not here: {', '.join(missing)}"])
            return _measured(play, lab, reference_lacks)

        return measure

    return measure_of


def _measured(play: Play, lab: Lab, reference_lacks: str) -> Result:
    sides = [lab.ours] if reference_lacks else lab.sides
    played = [_played(play, lab, side) for side in sides]
    ours, checked = played[-1]
    its = played[0][0] if len(played) > 1 else None
    notes = [f"{play.__name__}: the reference cannot, {reference_lacks}"] if reference_lacks else []
    return Result(tasks=[Task(play.__name__, ours, its, checked)], notes=notes)


def _played(play: Play, lab: Lab, side: Side) -> tuple[Cost, str]:
    """In a directory of its own; what it has checked."""
    with lab.server(side) as server:
        session = SESSIONS[side.name](server, lab.new_home())
        play(session)
        return session.cost(), ", ".join(session.checked)


def sums(tasks: list[Task]) -> list[Row]:
    """Over the tasks that both servers can do; the largest answer over all."""
    if not tasks:
        return []
    largest = float(max(one.ours.largest for one in tasks))
    rows = [Row("largest answer", "tokens", [largest], [], "", ANSWER_AT_MOST)]
    if pairs := [(one.ours, one.its) for one in tasks if one.its]:
        rows += [
            _sum("turns", [(ours.turns, its.turns) for ours, its in pairs]),
            _sum("tokens of answers", [(ours.tokens, its.tokens) for ours, its in pairs]),
        ]
    return rows


def _sum(what: str, pairs: list[tuple[int, int]]) -> Row:
    ours, its = (float(sum(column)) for column in zip(*pairs, strict=True))
    return Row(f"{what}, sum of {len(pairs)} tasks", "", [ours], [its], REFERENCE, A_THIRD)

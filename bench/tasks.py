"""A task for a model, played at each server: what it costs there, and the sums that are held to goals."""

import json
import shutil
from collections.abc import Callable
from functools import wraps
from typing import Any

from bench.lab import OURS, REFERENCE, Lab, Side
from bench.report import Cost, Goal, Result, Row, Task, ours_at_most, ratio_at_most
from bench.session import BYTES_PER_TOKEN, WithBgjob, WithReference

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


def tool_list(lab: Lab) -> Result:
    """What a model reads of each server once a session; in no sum."""
    samples = [[_tokens_of_tools(lab, side)] for side in lab.sides]
    return Result([lab.row("tool_list, once a session", samples, unit="tokens")])


def _tokens_of_tools(lab: Lab, side: Side) -> float:
    with lab.server(side) as server:
        text = json.dumps(server.tools(), separators=(",", ":"), ensure_ascii=False)
        return len(text.encode()) // BYTES_PER_TOKEN


def sums(tasks: list[Task]) -> list[Row]:
    """Over the tasks that both servers can do; the largest answer over all."""
    both = sorted((one for one in tasks if one.its), key=_its_tokens)
    answers = [float(one.ours.largest) for one in tasks]
    largest = [Row("largest answer", "tokens", [max(answers)], [], "", ANSWER_AT_MOST)] if answers else []
    if len(both) < 2:
        return largest
    return [
        _sum("seconds", both, lambda cost: cost.seconds),
        _sum("turns", both, lambda cost: cost.turns, A_THIRD),
        _sum("tokens of answers", both, lambda cost: cost.tokens, A_THIRD),
        _sum(f"tokens without {both[-1].title}", both[:-1], lambda cost: cost.tokens),
        *largest,
    ]


def _sum(what: str, tasks: list[Task], figure: Callable[[Cost], float], goal: Goal | None = None) -> Row:
    ours, its = sum(figure(one.ours) for one in tasks), sum(figure(one.its) for one in tasks if one.its)
    return Row(f"{what}, {len(tasks)} tasks", "", [ours], [its], REFERENCE, goal)


def _its_tokens(one: Task) -> int:
    return one.its.tokens if one.its else 0

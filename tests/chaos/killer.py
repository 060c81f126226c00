"""Strikes at random: kill -9 to one after the other of a stage's servers, zygotes, guards and shims.

    python -m tests.chaos.killer MARK KILLS SEED      a program of its own: it must not wait for those it strikes

Of guard and shim only one: a pair is struck while both live. Who the victim is, is looked up in the process table, and
once more when its pid is pinned.
"""

import collections
import json
import os
import random
import select
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from bgjob.system import processes
from tests.chaos.servers import NAME as SERVER
from tests.support.process_table import every_pid, seen
from tests.support.waiting import PATIENCE_S, wait_until

WEIGHTS = {"shim": 35, "guard": 30, "zygote": 20, "server": 15}
FEW_PAIRS = 6  # these are left to grow up: else all would be struck in their first moment
STRIKES_PER_LOOK = 12
LONGEST_PAUSE_S = 0.005
DEAD = ("Z", "X")
NAMES = {"server": SERVER, "zygote": "bgjob-zygote", "guard": "bgjob-guard", "shim": "bgjob-shim"}


class Victim(NamedTuple):
    pid: int
    is_still: Callable[[], bool]
    """Looked at once more, when nobody else can have its pid."""


class Pair(NamedTuple):
    guard: int
    shim: int


class Killer:
    def __init__(self, mark: str, chance: random.Random) -> None:
        self._mark, self._chance = mark.encode(), chance
        self._victims: dict[str, list[Victim]] = {}
        self.struck: collections.Counter[str] = collections.Counter()

    def strike(self, times: int) -> None:
        for number, role in enumerate(self._chance.choices(list(WEIGHTS), list(WEIGHTS.values()), k=times)):
            if number % STRIKES_PER_LOOK == 0:
                self._look_around()
            wait_until(partial(self._strikes, role), f"there is a {role} to strike")
            time.sleep(self._chance.uniform(0, LONGEST_PAUSE_S))

    def _strikes(self, role: str) -> bool:
        victims = self._victims[role]
        while victims:
            if kill(victims.pop(self._chance.randrange(len(victims)))):
                self.struck[role] += 1
                return True
        self._look_around()
        return False

    def _look_around(self) -> None:
        """A look at all processes of the machine takes its time: it is good for several strikes."""
        pids: dict[str, list[int]] = {name: [] for name in NAMES.values()}
        for pid in every_pid():
            now = seen(pid)
            if now and now.name in pids and processes._carries(pid, self._mark):
                pids[now.name].append(pid)
        pairs = [pair for pair in map(pair_of, pids[NAMES["shim"]]) if pair]
        self._chance.shuffle(pairs)
        self._victims = {
            "guard": [Victim(pair.guard, partial(is_whole, pair)) for pair in pairs[FEW_PAIRS:]],
            "shim": [Victim(pair.shim, partial(is_whole, pair)) for pair in pairs[FEW_PAIRS:]],
        }
        for role in ("server", "zygote"):
            name = NAMES[role]
            self._victims[role] = [Victim(pid, partial(is_named, pid, name)) for pid in pids[name]]


def is_named(pid: int, name: str) -> bool:
    now = seen(pid)
    return now is not None and now.name == name and now.state not in DEAD


def pair_of(shim: int) -> Pair | None:
    """This shim and its guard, if both live. A guard that has taken over has a shim's name, and none above it.

    A guard with two children has inherited the second one: a job that is not yet exec'd bears the name of the shim that
    forked it, and that shim is dead.
    """
    now = seen(shim)
    if now and is_named(shim, NAMES["shim"]) and is_named(now.parent, NAMES["guard"]):
        return Pair(now.parent, shim) if processes.children(now.parent) == [shim] else None
    return None


def is_whole(pair: Pair) -> bool:
    return pair_of(pair.shim) == pair


def kill(victim: Victim) -> bool:
    """And see it die: until then it may look alive, and be struck again."""
    try:
        pin = os.pidfd_open(victim.pid)
    except ProcessLookupError:
        return False
    try:
        if not victim.is_still():
            return False
        signal.pidfd_send_signal(pin, signal.SIGKILL)
        assert select.select([pin], [], [], PATIENCE_S)[0], f"{victim.pid} does not die"
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(pin)


def main(mark: str, kills: str, seed: str) -> None:
    killer = Killer(mark, random.Random(int(seed)))
    killer.strike(int(kills))
    print(json.dumps(killer.struck))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A start whose answer is lost is asked for again by its id: the job runs once, or it is said that it did not."""

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from bgjob.core.errors import BgjobError, TargetUnreachable
from bgjob.core.job import Exited, Lost, NeverStarted
from bgjob.home import target_dir
from bgjob.system import processes
from tests.clusters.drills.story import code_of
from tests.clusters.engine import Ssh
from tests.clusters.far_side import FarSide, disturbed
from tests.clusters.target import Target
from tests.support.queueing import Diary
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(600)  # many trials
STARTS = """
import os, sys
from bgjob.api import open_jobs
jobs = open_jobs(os.environ)
print("ready", flush=True)
jobs.execute(sys.argv[1], name=sys.argv[2], target=sys.argv[3])
sys.stdin.read()
"""


class Trials:
    """Starts that were disturbed: each job writes a word of its own into the diary."""

    def __init__(self, target: Target, diary: Diary) -> None:
        self._target, self._diary = target, diary
        self.started: dict[str, str] = {}
        self.refused: list[str] = []

    def start(self, word: str) -> None:
        try:
            self.started[word] = self._target.start(self._diary.entry(word), name=word)
        except TargetUnreachable:
            self.refused.append(word)

    def check(self) -> None:
        """Each that has ended has run once; one that was refused, or is said not to have run, never."""
        states = {word: self._target.state(job_id) for word, job_id in self.started.items()}
        assert {type(state) for state in states.values()} <= {Exited, Lost, NeverStarted}
        ran = sorted(word for word, state in states.items() if isinstance(state, Exited))
        assert sorted(self._diary.words()) == ran
        assert ran
        known = {job.spec.name for job in self._target.jobs.list(limit=1000).jobs}
        assert known & {*self.started, *self.refused} == set(self.started)


@pytest.fixture
def trials(target: Target, diary: Diary) -> Trials:
    """The line is there: the first start makes it."""
    target.ended(target.start("true"))
    return Trials(target, diary)


def test_the_line_is_cut_at_each_millisecond_of_a_start(far: FarSide, trials: Trials) -> None:
    for ms in range(61):
        with disturbed(far.host.line.cut, ms):
            trials.start(f"cut-{ms}")
    trials.check()


def test_the_line_is_cut_while_it_is_made(far: FarSide, trials: Trials) -> None:
    """In the greeting of ssh, before the code is asked for, before the agent says hello."""
    for ms in range(0, 600, 40):
        far.host.line.cut()
        with disturbed(far.host.line.cut, ms):
            trials.start(f"cut-{ms}")
    trials.check()


def test_the_agent_is_killed_in_a_start(far: FarSide, trials: Trials) -> None:
    for step in range(40):
        wait_until(lambda: bool(far.host.agents()), "there is an agent")
        with disturbed(partial(kill_all, far.host.agents()), step / 2):
            trials.start(f"killed-{step}")
    trials.check()


def kill_all(pids: list[int]) -> None:
    for pid in pids:
        processes.send(pid, 9)


def test_the_relay_is_killed_in_a_start(far: FarSide, trials: Trials) -> None:
    """A few times: its keeper waits ever longer before it starts the next."""
    for ms in (0, 2, 4, 8, 16):
        with disturbed(partial(kill_all, far.relay("")), ms):
            trials.start(f"killed-{ms}")
    trials.check()


def test_the_starter_is_killed_in_a_start(target: Target, trials: Trials, diary: Diary) -> None:
    """Whoever comes later finds the job, which has run once; or nothing of it, and it has not run."""
    words = [f"killed-{ms}" for ms in range(0, 100, 5)]
    for word in words:
        with starter(target, word, diary) as process, disturbed(process.kill, int(word.split("-")[1])):
            process.wait()
    trials.start("not-killed")
    found = {job.spec.name: job.id for job in target.open().list(limit=1000).jobs}
    trials.started |= {word: found[word] for word in words if word in found}
    trials.check()


@contextlib.contextmanager
def starter(target: Target, word: str, diary: Diary) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that begins to start a job now."""
    command = [sys.executable, "-c", STARTS, diary.entry(word), word, str(target.name)]
    with subprocess.Popen(
        command, env=target.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        process.stdout.readline()
        yield process


def test_a_host_that_refuses_is_an_error_and_nothing_is_left(target: Target, diary: Diary) -> None:
    with target.unreachable(), pytest.raises(TargetUnreachable, match="refused"):
        target.start(diary.entry("ran"))
    check_nothing_left(target)
    assert code_of(target, target.start("exit 4")) == 4  # it is there again
    assert diary.words() == []


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("home", "/dev/null/home", "/dev/null"),
        ("ssh_options", ["UserKnownHostsFile=/dev/null"], "[Hh]ost key"),
        ("ssh_options", ["IdentityFile=/dev/null"], "[Pp]ermission denied"),
        ("ssh_options", ["ProxyCommand=/no/such/program"], "/no/such/program|closed"),
    ],
    ids=str,
)
def test_a_host_that_cannot_be_used_says_why_and_nothing_is_left(
    new_target: Callable[..., Target], ssh: Ssh, key: str, value: Any, said: str
) -> None:
    if key == "ssh_options":
        value = [
            *value,
            *(each for each in ssh.hosts.options(ssh.host) if name_of(each) != name_of(value[0])),
        ]
    target = new_target(ssh, keys={key: value})
    with pytest.raises(BgjobError, match=said):
        target.start("true")
    check_nothing_left(target)


def name_of(option: str) -> str:
    return option.partition("=")[0]


def check_nothing_left(target: Target) -> None:
    assert target.jobs.list().jobs == []
    assert list((target.home / "jobs").glob("*")) == []
    assert target_dir.registered(str(target.home), str(target.name)) == []

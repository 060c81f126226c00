"""Claude Code tells its model of the end of a job by a task: a wait that goes on after its call was answered."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.claude import EXECUTE, EXIT_CODE, WAIT, Claude, GatedJob, keep
from tests.clients.model.script import call, found
from tests.clients.model.server import PATIENCE_S, running_model
from tests.support.gate import Gate
from tests.support.npm_packages import installing_takes_long
from tests.support.requires import linux_only, needs
from tests.support.waiting import wait_until

pytestmark = [linux_only, installing_takes_long, needs("tmux")]

NewJob = Callable[[int], GatedJob]
LONG_S = 40
"""Who waits so long wants to know the end: the wait goes on until then."""
JOB_THAT_RUNS = r'"job_id":"([0-9a-f-]{36})","status":"running"'
TASK_OF_CLIENT = r"moved to the background as task (\w+)"
IDLE_CALL = call("ToolSearch", query="select:Monitor")
"""A tool of the client that has nothing to do with jobs."""


@pytest.fixture
def claude(npm_packages: None, tmp_path: Path, home: Path) -> Iterator[Claude]:
    """Its waits become tasks at once."""
    with running_model() as model:
        yield Claude(tmp_path, home, model, MCP_BG_TASK_AFTER="0")


@pytest.fixture
def new_job(tmp_path: Path) -> NewJob:
    return lambda number: GatedJob(tmp_path, number)


def sent(claude: Claude, method: str) -> list[dict[str, Any]]:
    return [message for message in claude.tap.asked if message.get("method") == method]


def is_answered(claude: Claude, method: str) -> bool:
    """Whether the client has asked this, and the server has answered it each time."""
    answered = {message.get("id") for message in claude.tap.answered}
    return bool(asked := {message["id"] for message in sent(claude, method)}) and asked <= answered


def test_an_idle_session_is_woken(claude: Claude, new_job: NewJob) -> None:
    """First by the wait of a start, whose answer is cut to max_tokens, then by a wait for a job that runs."""
    first, second = new_job(1), new_job(2)
    printing = f"seq 100000; {first.command}"
    claude.connect()
    with claude.session(call(EXECUTE, command=printing, wait_s=LONG_S, max_tokens=200)) as session:
        session.wait_until_idle()
        task = session.found(r"started server-side task ([0-9a-f-]{36})\. It was moved")
        first.end()
        told = session.told(first.says).news
        assert f'"job_id":"{task}","status":"failed","exit_code":{EXIT_CODE}' in told
        assert len(told) < 2500, told  # 200 tokens of output and what the client says around it
        session.ask(call(EXECUTE, command=second.command), call(WAIT, job_ids=[found(JOB_THAT_RUNS)]))
        session.wait_until_idle()
        assert session.found(rf"started server-side task ({session.found(JOB_THAT_RUNS)})\. It was moved")
        second.end()
        assert f'"exit_code":{EXIT_CODE}' in session.told(second.says).news
        assert session.tellings(first.says) == session.tellings(second.says) == 1
    keep("task", "idle", "wakes")


def test_a_model_is_told_in_its_turn(claude: Claude, new_job: NewJob) -> None:
    job = new_job(1)
    claude.connect()
    held = IDLE_CALL._replace(held="the job has ended")
    steps = [call(EXECUTE, command=job.command, wait_s=LONG_S), held, *[IDLE_CALL] * 3]
    with claude.session(*steps) as session:
        session.model.wait_for(lambda asked: asked.step.held == held.held, "the model thinks")
        job.end()
        claude.wait_for_task("completed")
        session.model.release(held.held)
        assert session.told(job.says).step.text in ("", session.over)  # a step of the turn
        session.wait_until_idle()
        assert session.tellings(job.says) == 1
    keep("task", "in a turn", "told in the turn")


def test_three_ends_at_once_are_told_once_each(claude: Claude, new_job: NewJob) -> None:
    jobs = [new_job(number) for number in (1, 2, 3)]
    claude.connect()
    with claude.session(*[call(EXECUTE, command=job.command, wait_s=LONG_S) for job in jobs]) as session:
        session.wait_until_idle()
        for job in jobs:
            job.end()
        for job in jobs:
            session.told(job.says)
        session.ask()
        session.wait_until_idle()
        assert [session.tellings(job.says) for job in jobs] == [1, 1, 1]


def test_ends_are_told_after_a_kill_of_the_server(claude: Claude, new_job: NewJob) -> None:
    """The client waits until its user reconnects; then it asks the new server for the tasks of the old one."""
    before, after = new_job(1), new_job(2)
    claude.connect(is_tapped=False)
    with claude.session(
        *[call(EXECUTE, command=job.command, wait_s=LONG_S) for job in (before, after)]
    ) as session:
        session.wait_until_idle()
        claude.kill_server()
        before.end()
        claude.wait_until_ended(session.find_jobs()[0])
        session.command("/mcp reconnect bgjob", "reconnected to bgjob")
        session.told(before.says)
        after.end()
        session.told(after.says)
        session.ask()
        session.wait_until_idle()
        assert [session.tellings(job.says) for job in (before, after)] == [1, 1]
    keep("task", "after kill -9 and reconnect", "wakes")


def test_a_task_that_the_model_stops_leaves_its_job_running(claude: Claude, new_job: NewJob) -> None:
    job = new_job(1)
    claude.connect()
    with claude.session(
        call(EXECUTE, command=job.command, wait_s=LONG_S), call("TaskStop", task_id=found(TASK_OF_CLIENT))
    ) as session:
        session.wait_until_idle()
        (job_id,) = session.find_jobs()
        wait_until(lambda: is_answered(claude, "tasks/cancel"), "the wait is cancelled", within_s=PATIENCE_S)
        assert {each["params"]["taskId"] for each in sent(claude, "tasks/cancel")} == {job_id}
        assert claude.is_running(job_id)
        job.end()
        claude.wait_until_ended(job_id)
        session.ask()
        session.wait_until_idle()
        assert session.tellings(job.says) == 0


def test_a_prompt_is_answered_by_the_user_or_left_to_the_model(claude: Claude) -> None:
    """Claude Code declares elicitation, and shows its user a form for a task that is input_required."""
    command = 'read -p "Your name? " name; echo "said-$((1000 + 1)) $name"; read -p "Your age? "'
    claude.connect()
    with claude.session(call(EXECUTE, command=command, pty=True, wait_s=LONG_S)) as session:
        session.wait_until_idle()
        name = session.terminal.wait_for("asks: Your name?")
        session.terminal.type("Ada")
        session.terminal.wait_for("✔ Input: Ada")
        session.send_form(name, "Accept")
        age = session.terminal.wait_for("asks: Your age?")
        assert session.tellings("said-1001") == 0
        session.send_form(age, "Decline")
        told = session.told("said-1001 Ada").news
        assert '"waits_for_input":true,"prompt":"Your age?"' in told
    answers = [list(each["params"]["inputResponses"].values()) for each in sent(claude, "tasks/update")]
    assert answers == [[{"action": "accept", "content": {"input": "Ada"}}], [{"action": "decline"}]]
    keep("task", "at a prompt", "its user is asked by a form; if the user declines, wakes")


def test_a_prompt_for_a_password_is_left_to_the_model(claude: Claude, gate: Gate) -> None:
    claude.connect()
    command = f'{gate.pause}; read -s -p "Password: "'
    with claude.session(call(EXECUTE, command=command, pty=True, wait_s=LONG_S)) as session:
        session.wait_until_idle()
        gate.wait_until_reached()
        gate.open()
        assert '"waits_for_input":true' in session.told('"prompt":"Password:"').news
    assert not claude.tasks("input_required")


def test_a_long_call_is_moved_to_the_background(claude: Claude, new_job: NewJob) -> None:
    """By the client itself, after two minutes, or as its user has set; it needs no task."""
    job = new_job(1)
    claude.environment |= {
        "MCP_BG_TASK_AFTER": "400",
        "MCP_BG_MAX_WAIT": "400",
        "CLAUDE_CODE_MCP_AUTO_BACKGROUND_MS": "500",
    }
    claude.connect()
    with claude.session(call(EXECUTE, command=job.command, wait_s=300)) as session:
        session.wait_until_idle()
        assert "is still running after" in session.model.asked[-1].conversation.text
        job.end()
        assert f'"exit_code":{EXIT_CODE}' in session.told(job.says).news
    assert not claude.tasks("working")
    keep("long wait", "idle", "wakes")

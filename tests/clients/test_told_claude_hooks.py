"""Claude Code tells its model of the end of a job by the hooks of `bgjob client add claude --hooks`, each once."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clients.claude import EXECUTE, EXIT_CODE, Claude, GatedJob, keep
from tests.clients.client_user import BGJOB
from tests.clients.model.script import NOTED, call, say
from tests.clients.model.server import running_model
from tests.support.npm_packages import installing_takes_long
from tests.support.requires import linux_only, needs
from tests.support.server import StartServer

pytestmark = [linux_only, installing_takes_long, needs("tmux")]

NewJob = Callable[[int], GatedJob]
PLUGIN = Path(__file__).parents[2] / "plugins" / "claude-code"
PLUGIN_EXECUTE = "mcp__plugin_bgjob_bgjob__execute_command"
FAILED = f"failed with exit code {EXIT_CODE}"
LINE = "bgjob: job "
"""How what a hook tells of an end begins."""


@pytest.fixture
def claude(npm_packages: None, tmp_path: Path, home: Path) -> Iterator[Claude]:
    with running_model() as model:
        yield Claude(tmp_path, home, model)


@pytest.fixture
def new_job(tmp_path: Path) -> NewJob:
    return lambda number: GatedJob(tmp_path, number)


# -- one hook alone ---------------------------------------------------------------------------------


def test_an_idle_session_is_woken(claude: Claude, new_job: NewJob) -> None:
    """By the hook that waits, with asyncRewake: a start without a wait makes no task."""
    job = new_job(1)
    claude.add_bgjob("PostToolUse")
    with claude.session(call(EXECUTE, command=job.command)) as session:
        session.wait_until_idle()
        job.end()
        told = session.told(job.says)
        assert "A background job has ended." in told.news
        assert FAILED in told.news
        assert told.step.text.startswith(NOTED)
    keep("hook PostToolUse", "idle", "wakes")


def test_a_model_is_told_with_the_next_prompt(claude: Claude, new_job: NewJob) -> None:
    job = new_job(1)
    claude.add_bgjob("UserPromptSubmit")
    with claude.session(call(EXECUTE, command=job.command)) as session:
        session.wait_until_idle()
        job.end()
        claude.wait_until_ended(*session.find_jobs())
        session.ask()
        told = session.told(job.says)
        assert LINE in told.news
        assert FAILED in told.news
        assert told.step.text == session.over
    keep("hook UserPromptSubmit", "idle", "told with the next prompt")


def test_a_model_that_would_stop_is_told_of_a_failure_and_goes_on_once(
    claude: Claude, new_job: NewJob
) -> None:
    """The client shows it what the hook said twice: as feedback, and as an error of the hook's command."""
    job = new_job(1)
    claude.add_bgjob("Stop")
    with claude.session(call(EXECUTE, command=job.command), say("I STOP", held="failed")) as session:
        session.model.wait_for(lambda asked: asked.step.held == "failed", "the model is about to stop")
        job.end()
        claude.wait_until_ended(*session.find_jobs())
        session.model.release("failed")
        told = session.told(job.says)
        assert f"Stop hook feedback:\n{LINE}" in told.news
        assert told.step.text == session.over
        session.wait_until_idle()
        assert session.tellings("Stop hook feedback:") == 1
        assert len(session.model.asked) == 3
    keep("hook Stop", "end of turn", "goes on and is told")


def test_a_model_is_told_when_its_session_begins_again(claude: Claude, new_job: NewJob) -> None:
    """After a compaction it reads what still runs, in a resumed session also what has ended meanwhile."""
    ends, runs = new_job(1), new_job(2)
    claude.add_bgjob("SessionStart")
    with claude.session(
        call(EXECUTE, command=ends.command, name="tests"), call(EXECUTE, command=runs.command, name="dev")
    ) as session:
        session.wait_until_idle()
        first, _ = session.find_jobs()
        assert session.tellings("bgjob: ") == 0
        session.command("/compact", "Compacted")
        session.ask()
        assert 'bgjob: still running: "tests"' in session.told("bgjob: ").news
        session.wait_until_idle()
    ends.end()
    claude.wait_until_ended(first)
    with claude.session(options=["--continue"]) as session:
        told = session.told(ends.says).news
        assert f'bgjob: job "tests" ({first[:8]}) {FAILED}' in told
        assert 'bgjob: still running: "dev"' in told
    keep("hook SessionStart", "compacted", "told what runs")
    keep("hook SessionStart", "resumed", "told with the next prompt")


# -- all that bgjob adds ----------------------------------------------------------------------------


def test_with_tasks_and_hooks_each_end_is_told_once_and_none_of_others(
    claude: Claude, new_job: NewJob, start_server: StartServer
) -> None:
    by_task, by_hook, of_shell, of_server = map(new_job, (1, 2, 3, 4))
    claude.environment["MCP_BG_TASK_AFTER"] = "0"
    claude.add_bgjob()
    claude.connect()
    with claude.session(
        call(EXECUTE, command=by_task.command, wait_s=40), call(EXECUTE, command=by_hook.command)
    ) as session:
        session.wait_until_idle()
        others = [run_by_shell(claude, of_shell), start_server().execute(of_server.command)]
        for job in (of_shell, of_server, by_task, by_hook):
            job.end()
        claude.wait_until_ended(*others)
        session.told(by_task.says)
        session.told(by_hook.says)
        claude.wait_for_task("completed")
        claude.wait_until_no_hook_runs()
        for _ in range(2):  # the first prompt may come together with what the client has just been told
            session.ask()
            session.wait_until_idle()
        assert [session.tellings(job.says) for job in (by_task, by_hook)] == [1, 1]
        assert [session.tellings(job.says) for job in (of_shell, of_server)] == [0, 0]


def run_by_shell(claude: Claude, job: GatedJob) -> str:
    command = [BGJOB, "run", job.command]
    done = subprocess.run(command, env=claude.environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_without_a_terminal_nothing_waits(claude: Claude, new_job: NewJob) -> None:
    """`claude -p` would wait for its hooks; and it does not know tasks."""
    started, waited_for = new_job(1), new_job(2)
    claude.environment |= {"MCP_BG_TASK_AFTER": "0", "MCP_BG_MAX_WAIT": "1"}
    claude.add_bgjob()
    claude.connect()
    printed = claude.printed(
        call(EXECUTE, command=started.command),
        call(EXECUTE, command=waited_for.command, wait_s=40),
        say("BOTH STILL RUN"),
    )
    assert "BOTH STILL RUN" in printed
    answers = [message.get("result", {}) for message in claude.tap.answered]
    assert "task" not in [answer.get("resultType") for answer in answers]
    assert claude.model.asked[-1].conversation.text.count('"status":"running"') == 2
    keep("task", "`-p`", "no task: its waits are answered in the call")
    keep("hook PostToolUse", "`-p`", "does not wait")


def test_the_plugin_alone_wakes_an_idle_session(claude: Claude, new_job: NewJob) -> None:
    started, waited_for = new_job(1), new_job(2)
    claude.environment["MCP_BG_TASK_AFTER"] = "0"
    with claude.session(
        call(PLUGIN_EXECUTE, command=started.command),
        call(PLUGIN_EXECUTE, command=waited_for.command, wait_s=40),
        options=["--plugin-dir", str(PLUGIN)],
    ) as session:
        session.wait_until_idle()
        started.end()
        session.told(started.says)
        waited_for.end()
        session.told(waited_for.says)
        claude.wait_until_no_hook_runs()
        session.ask()
        session.wait_until_idle()
        assert [session.tellings(job.says) for job in (started, waited_for)] == [1, 1]
    keep("plugin", "idle", "wakes")

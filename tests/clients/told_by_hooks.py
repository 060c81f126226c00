"""What a client tells its model by hooks at the edges of a turn, the same for each client that has such hooks.

A module with a session (the fixtures chat, setup and job) inherits from it. Its tests share that session.
"""

import contextlib
from typing import ClassVar

from anyio.from_thread import BlockingPortal

from tests.clients import seen
from tests.clients.chats import Chat
from tests.clients.model.script import Step, call, say
from tests.clients.sessions import HeldJobs, Setup, declared, tasks_in, times_told
from tests.support.server import Server


class ToldByHooks:
    client: ClassVar[str]
    """As docs/clients.md names it."""
    at_prompt: ClassVar[str]
    at_stop: ClassVar[str]
    after_tool: ClassVar[str]
    """The names of its hooks."""
    other_tool: ClassVar[Step]
    """A call of a tool that is not ours."""
    turns_when_it_goes_on: ClassVar[int] = 1
    """How many turns the client counts where a hook makes its model go on."""

    def test_ends_while_it_is_idle_are_told_with_the_next_prompt(
        self, chat: Chat, setup: Setup, job: HeldJobs
    ) -> None:
        """All in one message, and once."""
        ones = [job(name) for name in ("idle1", "idle2", "idle3")]
        chat.ask(*(one.start for one in ones), say("begun"))
        for one in ones:
            one.end()
        asked_before = len(setup.model.asked)
        chat.ask(say("next"))
        (asked,) = setup.model.asked[asked_before:]
        assert [asked.news.count(one.line) for one in ones] == [1, 1, 1]
        chat.ask(say("after that"))
        assert [times_told(setup.model.asked[-1], one) for one in ones] == [1, 1, 1]
        seen.told(self.client, f"hook {self.at_prompt}", "idle", "told with the next prompt")

    def test_a_failure_in_the_turn_makes_the_model_go_on_once(
        self, chat: Chat, setup: Setup, job: HeldJobs
    ) -> None:
        one, before = job("fails", exit_code=3), chat.turns_over()
        chat.ask(one.start, say("I stop", held="fails has ended"), say("I stop again"), meanwhile=one.end)
        chat.wait_for_turn(before + self.turns_when_it_goes_on)
        (asked,) = one.tellings
        assert asked.step.text == "I stop again"
        assert f"{one.line}failed with exit code 3 after " in asked.news
        assert ': "fails is over". tail_job_output' in asked.news.replace("\\", "")
        stops = [stop.given["stop_hook_active"] for stop in setup.hooks(self.at_stop)[-2:]]
        assert stops == [False, True]
        chat.ask(say("next"))
        assert times_told(setup.model.asked[-1], one) == 1
        seen.told(self.client, f"hook {self.at_stop}", "end of turn", "goes on and is told")

    def test_a_job_that_completes_in_the_turn_does_not_hold_it_up(
        self, chat: Chat, setup: Setup, job: HeldJobs
    ) -> None:
        one = job("completes")
        chat.ask(one.start, say("I stop", held="completes has ended"), say("never said"), meanwhile=one.end)
        chat.ask(say("next"))
        (asked,) = one.tellings
        assert asked.step.text == "next"

    def test_a_call_of_another_tool_tells_in_the_turn(self, chat: Chat, setup: Setup, job: HeldJobs) -> None:
        one = job("between")
        other = self.other_tool._replace(held="between has ended")
        chat.ask(one.start, other, say("I know"), meanwhile=one.end)
        (asked,) = one.tellings
        assert asked.step.text == "I know"
        assert one.line in asked.news.replace("\\", "")
        seen.told(self.client, f"hook {self.after_tool}", "in a turn", "told in the turn")

    def test_an_answer_of_ours_tells_in_the_turn_and_no_hook_again(
        self, chat: Chat, setup: Setup, job: HeldJobs
    ) -> None:
        one = job("answered")
        ours = call("list_jobs", held="answered has ended", status="running")
        chat.ask(one.start, ours, say("I know"), meanwhile=one.end)
        (asked,) = one.tellings
        assert (asked.step.text, one.line in asked.news) == ("I know", False)
        chat.ask(say("next"))
        assert times_told(setup.model.asked[-1], one) == 1
        seen.told(self.client, "answer", "in a turn", "told in the turn")

    def test_what_others_started_is_not_told(
        self, chat: Chat, setup: Setup, job: HeldJobs, portal: BlockingPortal
    ) -> None:
        by_hand, by_another, own = job("byhand"), job("byanother"), job("own")
        with contextlib.closing(Server(portal, setup.jobs_home, {}, "auto")) as server:
            by_hand.run_by_hand()
            server.execute(by_another.command, name=by_another.name)
            chat.ask(own.start, say("begun"))
            for one in (by_hand, by_another, own):
                one.end()
            chat.ask(say("next"))
            assert [len(one.tellings) for one in (by_hand, by_another, own)] == [0, 0, 1]

    def test_a_wait_is_answered_in_the_call_and_never_by_a_task(
        self, chat: Chat, setup: Setup, job: HeldJobs
    ) -> None:
        """With these settings a client that knows tasks would get one at once."""
        one, before = job("waited"), chat.turns_over()
        chat.submit(one.start, call("wait_for_job", job_ids=[one.name], timeout_s=40), say("I know"))
        one.end_once_waited_for()
        chat.wait_for_turn(before + 1)
        assert '"exit_code":0' in setup.model.asked[-1].news.replace("\\", "")
        chat.ask(say("next"))
        assert times_told(setup.model.asked[-1], one) == 0
        assert tasks_in(setup.tap) == []
        assert not {"tasks", "extensions"} & declared(setup.tap)
        seen.told(self.client, "task", "in a turn", "no task: its waits are answered in the call")

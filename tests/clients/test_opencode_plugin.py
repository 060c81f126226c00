"""The plugin for opencode, in Node: which session it tells, and when. In opencode itself it runs in Bun."""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bgjob.clients.command import Server
from bgjob.clients.hooks import HOOKS
from tests.clients import packages
from tests.support.gate import Gate
from tests.support.npm_packages import installing_takes_long
from tests.support.process_table import wait_until_gone
from tests.support.requires import linux_only

pytestmark = [linux_only, installing_takes_long]

HOST = Path(__file__).with_name("plugin_host.mjs")
ENDED = "bgjob: job tests failed"
JOB, OTHER_JOB = "1a2b3c4d-0000-4000-8000-000000000000", "5e6f7a8b-0000-4000-8000-000000000000"


class Host:
    """opencode with the plugin; `bgjob hook opencode` is a script of the test's."""

    def __init__(self, directory: Path, script: str, *words: str) -> None:
        self.asked, self.has_hook = directory / "asked", False
        program = directory / "bgjob"
        program.write_text(f"#!/bin/sh\nread -r event; echo $$ $event >> {self.asked}\n{script}\n")
        program.chmod(0o755)
        plugin = directory / "plugin.mjs"
        plugin.write_text(HOOKS["opencode"].by_hand(Server("bgjob", (str(program), "mcp"), {})))
        command = [str(packages.node()), str(HOST), str(plugin), *words]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            start_new_session=True,
        )

    def call(self, hook: str, *given: dict[str, Any]) -> list[dict[str, Any]]:
        """What the plugin has prompted by the time the hook is done."""
        assert self.process.stdin
        print(json.dumps([hook, *given]), file=self.process.stdin, flush=True)
        said = []
        while "called" not in (line := self.said()):
            said.append(line)
        self.has_hook = line["called"]
        return said

    def uses_a_tool(self, session: str, tool: str = "bgjob_execute_command", job_id: str = JOB) -> None:
        answer = {"content": [{"type": "text", "text": json.dumps({"job_id": job_id, "status": "running"})}]}
        self.call("tool.execute.after", {"tool": tool, "sessionID": session, "callID": "1"}, answer)

    def is_idle(self, session: str) -> None:
        event = {"type": "session.idle", "properties": {"sessionID": session}}
        assert self.call("event", {"event": event}) == []

    def said(self) -> dict[str, Any]:
        assert self.process.stdout
        line: dict[str, Any] = json.loads(self.process.stdout.readline())
        return line

    def leave(self) -> None:
        with self.process:
            pass  # its stdin is closed, and its end waited for

    @property
    def given(self) -> list[dict[str, Any]]:
        """What each call of the hook got."""
        texts = self.asked.read_text().splitlines() if self.asked.exists() else []
        return [json.loads(text.partition(" ")[2]) for text in texts]

    @property
    def events(self) -> list[str]:
        return [given["hook_event_name"] for given in self.given]


class Hosts:
    def __init__(self, directory: Path) -> None:
        self._directory, self._started = directory, list[Host]()

    def __call__(self, script: str, *words: str) -> Host:
        self._started.append(host := Host(self._directory, script, *words))
        return host

    def end(self) -> None:
        """With the hooks that still wait."""
        for host in self._started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(host.process.pid, signal.SIGKILL)
            host.leave()


@pytest.fixture
def start(npm_packages: None, tmp_path: Path) -> Iterator[Hosts]:
    hosts = Hosts(tmp_path)
    yield hosts
    hosts.end()


def on(event: str, script: str) -> str:
    return f"case $event in *{event}*) {script};; esac"


def text(of: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": of}]


def test_an_idle_session_is_told_of_what_has_ended(start: Hosts) -> None:
    host = start(on("session.idle", f"echo '{ENDED}'"))
    host.uses_a_tool("root")
    host.is_idle("root")
    assert host.said() == {"prompted": "root", "parts": text(ENDED)}
    assert host.events == ["session.idle"]


def test_it_is_told_of_an_end_that_comes_later(start: Hosts, gate: Gate) -> None:
    host = start(on("wait", f"{gate.pause}; echo '{ENDED}'"))
    host.uses_a_tool("root", "jobs_wait_for_job")
    host.is_idle("root")
    gate.wait_until_reached()
    host.is_idle("root")  # a second time: one process waits already
    gate.open()
    assert host.said() == {"prompted": "root", "parts": text(ENDED)}
    host.is_idle("root")
    gate.wait_until_reached()
    assert host.events == ["session.idle", "wait"] * 2
    gate.open()
    host.said()


def test_agent_and_model_stay_what_the_user_chose(start: Hosts) -> None:
    host = start(on("session.idle", f"echo '{ENDED}'"))
    model = {"providerID": "p", "modelID": "m"}
    host.call("chat.message", {"sessionID": "root", "agent": "plan", "model": model})
    host.uses_a_tool("root")
    host.is_idle("root")
    assert host.said() == {"prompted": "root", "agent": "plan", "model": model, "parts": text(ENDED)}


def test_what_a_subagent_started_is_told_to_the_session_above_it(start: Hosts) -> None:
    host = start(on("session.idle", f"echo '{ENDED}'"))
    host.uses_a_tool("child")
    host.is_idle("child")
    host.is_idle("root")
    assert host.said()["prompted"] == "root"
    assert host.events == ["session.idle"]


@pytest.mark.parametrize("session", ["unknown", "orphan"])
def test_a_session_that_cannot_be_asked_for_counts_as_one_without_a_parent(
    start: Hosts, session: str
) -> None:
    """And the call of the tool does not fail."""
    host = start(on("session.idle", f"echo '{ENDED}'"))
    host.uses_a_tool(session)
    host.is_idle("unknown")
    assert host.said() == {"prompted": "unknown", "parts": text(ENDED)}


def test_each_session_is_told_of_its_own_jobs(start: Hosts, gate: Gate) -> None:
    host = start(on("wait", f"case $event in *{JOB}*) {gate.pause}; echo one;; *) echo two;; esac"))
    host.uses_a_tool("root", job_id=JOB)
    host.uses_a_tool("other", job_id=OTHER_JOB)
    host.is_idle("root")
    gate.wait_until_reached()
    host.is_idle("other")
    assert host.said() == {"prompted": "other", "parts": text("two")}
    gate.open()
    assert host.said() == {"prompted": "root", "parts": text("one")}
    assert [given["job_ids"] for given in host.given] == [[JOB]] * 2 + [[OTHER_JOB]] * 2


def test_a_job_that_is_started_while_another_is_waited_for_is_waited_for_too(
    start: Hosts, gate: Gate
) -> None:
    host = start(on("wait", f"case $event in *{JOB}*) {gate.pause};; *) echo two;; esac"))
    host.uses_a_tool("root", job_id=JOB)
    host.is_idle("root")
    gate.wait_until_reached()
    host.uses_a_tool("root", job_id=OTHER_JOB)
    host.is_idle("root")
    assert host.said() == {"prompted": "root", "parts": text("two")}
    gate.open()


@pytest.mark.parametrize("tool", ["bash", "bgjob_list_jobs"])
def test_a_session_that_started_no_job_is_left_alone(start: Hosts, tool: str) -> None:
    host = start(f"echo '{ENDED}'")
    host.uses_a_tool("root", tool)
    host.is_idle("root")
    host.uses_a_tool("other")
    host.is_idle("other")
    assert host.said()["prompted"] == "other"
    assert host.events == ["session.idle"]


def test_a_hook_that_fails_has_told_nothing(start: Hosts, gate: Gate, tmp_path: Path) -> None:
    once = f"[ -e {tmp_path}/failed ] || {{ touch {tmp_path}/failed; exit 3; }}"
    host = start(f"{once}; {on('wait', f'{gate.pause}; echo {ENDED!r}')}")
    host.uses_a_tool("root")
    host.is_idle("root")
    gate.wait_until_reached()
    gate.open()
    assert host.said()["prompted"] == "root"


def test_the_process_that_waits_ends_with_opencode(start: Hosts, gate: Gate) -> None:
    host = start(on("wait", gate.pause))
    host.uses_a_tool("root")
    host.is_idle("root")
    gate.wait_until_reached()
    waiter = int(host.asked.read_text().splitlines()[-1].split()[0])
    host.leave()
    wait_until_gone(waiter)


def test_a_run_that_ends_with_its_first_turn_is_left_alone(start: Hosts) -> None:
    host = start(f"echo '{ENDED}'", "run")
    host.uses_a_tool("root")
    assert not host.has_hook
    host.is_idle("root")
    assert not host.has_hook

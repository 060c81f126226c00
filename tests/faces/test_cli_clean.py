"""bgjob clean: what is older than it is to be kept goes, and it says how many and how much."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from bgjob.api import Jobs
from bgjob.store.store import Store
from tests.faces.command_line import Cli, Ended, assert_one_line_of_error
from tests.faces.own_terminal import assert_only_shown, terminal
from tests.support.escapes import ESCAPES, as_text
from tests.support.stores import ended_job, listed
from tests.support.waiting import wait_until

DAY_S = 86_400.0


@pytest.fixture
def store(home: Path) -> Store:
    return Store(str(home))


def of_age(store: Store, *days: float, **more: Any) -> list[str]:
    now = time.time()
    return [ended_job(store, ended_at=now - each * DAY_S, **more) for each in days]


class TestWhatGoes:
    def test_what_the_settings_do_not_keep_any_longer(self, cli: Cli, store: Store) -> None:
        young, _old = of_age(store, 1, 30, keep_days=7.0, keep_jobs=1000)
        said = cli("clean", env={"MCP_BG_KEEP_DAYS": "7"})
        assert re.fullmatch(r"1 job removed, [0-9.]+K?B freed\n", said.stdout)
        assert listed(store) == [young]

    def test_not_what_its_starter_promised_to_keep_longer(self, cli: Cli, store: Store) -> None:
        kept = of_age(store, 30, keep_days=90.0, keep_jobs=1000)
        assert cli("clean", env={"MCP_BG_KEEP_DAYS": "7"}).stdout == "0 jobs removed, 0B freed\n"
        assert listed(store) == kept

    def test_whatever_ended_longer_ago(self, cli: Cli, store: Store) -> None:
        young, _, _ = of_age(store, 1, 3, 30, keep_days=90.0, keep_jobs=1000)
        assert cli("clean", "--older-than", "2d").stdout.startswith("2 jobs removed, ")
        assert listed(store) == [young]

    def test_all_that_have_ended(self, cli: Cli, store: Store, jobs: Jobs) -> None:
        of_age(store, 0, 1, 2)
        running = cli.run("exec cat")
        left = cli.run("sleep 1000 & exit 3")
        waited_for = of_age(store, 1)
        queued = cli.run("--after", waited_for[0], "--delay", "1000", "true")
        wait_until(lambda: jobs.status(left).left_running == 1)
        assert cli("clean", "--all", "-y").stdout.startswith("3 jobs removed, ")
        assert set(listed(store)) == {running, left, queued, *waited_for}

    def test_a_dry_run_only_shows(self, cli: Cli, store: Store) -> None:
        ids = of_age(store, 3, 4, name="old one")
        shown = cli("clean", "--older-than", "2d", "--dry-run").stdout.splitlines()
        assert [re.sub(r"\(.*", "", line) for line in shown[:2]] == [f"{each[:8]}  old one  " for each in ids]
        assert shown[2].startswith("2 jobs would be removed, ")
        assert listed(store) == ids

    def test_as_json(self, cli: Cli, store: Store) -> None:
        ids = of_age(store, 3, 4)
        shown = json.loads(cli("clean", "--older-than", "2d", "-n", "--json").stdout)
        done = json.loads(cli("clean", "--older-than", "2d", "--json").stdout)
        assert shown == done
        assert (done["job_ids"], done["freed_bytes"] > 0) == (ids, True)


class TestAsking:
    def test_without_a_terminal_all_needs_a_yes(self, cli: Cli, store: Store) -> None:
        ids = of_age(store, 1, 2)
        assert_one_line_of_error(cli("clean", "--all"), "there is no terminal to ask on", "-y")
        assert listed(store) == ids

    @pytest.mark.parametrize(("answer", "are_removed"), [("yes", True), ("no", False), ("\x04", False)])
    def test_at_a_terminal_it_asks(self, cli: Cli, store: Store, answer: str, are_removed: bool) -> None:
        ids = of_age(store, 1, 2)
        with terminal(cli, "clean", "--all") as opened:
            opened.read_until(b"remove these 2 jobs? [y/N] ")
            opened.type(f"{answer}\n".encode())
            shown = opened.read_to_the_end()
        assert (b"nothing was removed" in shown) is not are_removed
        assert opened.process.returncode == (0 if are_removed else 1)
        assert listed(store) == ([] if are_removed else ids)

    def test_no_name_steers_the_terminal(self, cli: Cli, store: Store) -> None:
        text = "|".join(map(as_text, ESCAPES.values()))
        for at in range(0, len(text), 150):
            ended_job(store, name=text[at : at + 150])
        with terminal(cli, "clean", "--all") as opened:
            opened.read_until(b"[y/N] ")
            opened.type(b"n\n")
            assert_only_shown(opened.read_to_the_end())
        with terminal(cli, "clean", "--all", "--dry-run", columns=4000) as opened:
            assert_only_shown(opened.read_to_the_end())

    @pytest.mark.parametrize(
        "arguments",
        [["--older-than", "soon"], ["--older-than", "2d", "--all"], ["x"], ["--older-than", "-1"]],
    )
    def test_wrong_usage_is_exit_code_2(self, cli: Cli, arguments: list[str], ended: Ended) -> None:
        job_id = cli.run("true")
        ended(job_id)
        assert cli("clean", *arguments).returncode == 2
        assert job_id[:8] in cli("ps").stdout

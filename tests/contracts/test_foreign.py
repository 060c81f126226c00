"""Records that we did not write: of the future, torn, foreign. A table of cases and verbs.

Whatever lies in the place of a record: every verb answers, at once and without a traceback; what cannot be read is
said to be so and is never guessed; no job is left out of a list, and none is cleaned up for not being understood.
"""

import re
import shutil
from pathlib import Path

import pytest

from bgjob import __version__, cli
from bgjob.store.retention import clean
from bgjob.store.store import Store
from tests.support.foreign import (
    ANOTHER_ID,
    BYSTANDER,
    EMPTY_OR_NO_FORMAT,
    FUTURE,
    HALF_A_CHARACTER,
    LOST,
    NO_COUNT,
    NO_NUMBER,
    NO_RECORDS,
    NO_TEXT,
    NO_TIME,
    ON_A_TERMINAL,
    VICTIM,
    WHOLE,
    Gallery,
    Places,
    answer,
    call,
    cases,
    changed,
    damage,
    each,
    hang,
    locked,
    new_home,
    without,
)
from tests.support.stores import jobs_on, listed

pytestmark = pytest.mark.timeout(600)  # nothing here takes a second, unless it hangs

SPECS = {
    **NO_RECORDS,
    **FUTURE,
    **EMPTY_OR_NO_FORMAT,
    **{
        f"no {field}": without(field)
        for field in ("command", "created_at", "cwd", "shell", "max_output_bytes")
    },
    **each({**NO_TEXT, "null": None}, "command", "cwd"),
    **each(NO_TEXT, "name"),
    **each(NO_TIME, "created_at"),
    **each(NO_NUMBER, "timeout_s"),
    **each({**NO_COUNT, "none": 0}, "rows"),
    **each({"a number": 1, "null": None, "a text": "no"}, "pty"),
    **each(HALF_A_CHARACTER, "command", "cwd", "name", "group", "on_event", "target"),
    **each({**NO_TEXT, "a path": "../jobs", "a NUL": "\0", "empty": "", "the parent": ".."}, "target"),
    **each({"half a character inside": {"x": {"\ud800": "x"}}}, "resources"),
    **each({"half a character inside": {"client": "\ud800"}}, "by"),
}
OUTCOMES = {
    **{what: make for what, make in NO_RECORDS.items() if what != "nothing"},
    **FUTURE,
    **EMPTY_OR_NO_FORMAT,
    **{
        f"no {field}": without(field)
        for field in ("cause", "exit_code", "ended_at", "duration_s", "output_bytes")
    },
    **each({**NO_TEXT, "null": None, "one we do not know": "abducted", "ours alone": "lost"}, "cause"),
    **each(NO_TIME, "ended_at", "duration_s"),
    **each(NO_COUNT, "output_bytes", "stdout_bytes", "exit_code"),
    **each(NO_NUMBER, "signal"),
    "a signal of none": changed(cause="signaled"),
    "a signal beyond all signals": changed(cause="signaled", signal=4000),
    "no reason": changed(cause="never_started"),
    "a reason that is a list": changed(cause="never_started", reason=["x"]),
}
RUNS = {
    **NO_RECORDS,
    **FUTURE,
    **EMPTY_OR_NO_FORMAT,
    **{f"no {field}": without(field) for field in ("pid", "shim_pid", "started_at", "boot_id")},
    **each({**NO_COUNT, "none": 0}, "pid", "shim_pid"),
    **each(NO_TIME, "started_at"),
    **each(NO_TEXT, "boot_id"),
}
PLACES: Places = {
    "spec.json": (VICTIM, SPECS),
    "outcome.json": (VICTIM, OUTCOMES),
    "run.json": (VICTIM, RUNS),
    "run.json of a lost job": (LOST, RUNS),
}


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Gallery:
    return Gallery(tmp_path_factory.mktemp("gallery") / "home", PLACES)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return new_home(tmp_path / "home")


# -- what is said of them -----------------------------------------------------------------------------------


@cases(PLACES)
def test_every_verb_answers(gallery: Gallery, place: str, what: str) -> None:
    told = gallery.told(gallery.ids[place, what])
    assert told["look"]["status"] != "running"
    assert told["kill"]["status"] == "already_terminated"
    assert told["wait"]["jobs"][0]["condition"] == "exit"


@cases(PLACES, "spec.json")
def test_a_spec_that_cannot_be_read_is_said_to_be_so(gallery: Gallery, place: str, what: str) -> None:
    """And all that the shim recorded of the job is still true."""
    job_id = gallery.ids[place, what]
    told = gallery.told(job_id)
    assert (told["look"]["status"], told["look"]["exit_code"]) == ("completed", 0)
    assert told["output"]["stdout"] == WHOLE
    command = gallery.store.load(job_id).spec.command
    assert command.startswith("(spec.json cannot be read: it")
    assert len(command) < 200


@cases(PLACES, "outcome.json")
def test_an_outcome_that_cannot_be_read_is_lost_and_says_so(gallery: Gallery, place: str, what: str) -> None:
    told = gallery.told(gallery.ids[place, what])
    look = told["look"]
    assert (look["status"], look["cause"]) == ("failed", "lost")
    assert re.search(r"outcome\.json.* (cannot|cannot be) read", look["reason"])
    assert len(look["reason"]) < 250
    assert told["output"]["stdout"] == WHOLE


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("of format 2", "it is of format 2; bgjob 0.9 or newer reads that"),
        ("of format 2, needs a list", "it is of format 2; a newer bgjob reads that"),
        ("cause is one we do not know", "its cause is 'abducted'"),
        ("exit_code is a text", "its exit_code is '17'"),
        ("ended_at is a list", "its ended_at is a list"),
        ("no cause", "its cause is null"),
    ],
)
def test_a_reason_names_the_version_and_what_it_does_not_know(gallery: Gallery, what: str, why: str) -> None:
    look = gallery.told(gallery.ids["outcome.json", what])["look"]
    assert (
        look["reason"] == f"how it ended is in its outcome.json, which bgjob {__version__} cannot read: {why}"
    )


@cases(PLACES, "run.json")
def test_a_run_that_cannot_be_read_changes_nothing_of_how_it_ended(
    gallery: Gallery, place: str, what: str
) -> None:
    look = gallery.told(gallery.ids[place, what])["look"]
    assert (look["status"], look["exit_code"], look["descendants"]) == ("completed", 0, 0)


@cases(PLACES, "run.json of a lost job")
def test_why_a_job_is_lost_is_not_guessed(gallery: Gallery, place: str, what: str) -> None:
    told = gallery.told(gallery.ids[place, what])
    assert told["look"]["cause"] == "lost"
    assert told["look"]["reason"] == (
        "its shim and its guard were killed as they started it: whether it ran is not known"
        if what == "nothing"
        else "nobody saw its end, and its run.json cannot be read"
    )
    assert told["output"]["stdout"] == "last words\n"


def test_fields_that_we_do_not_know_are_passed_over(home: Path) -> None:
    """A version that only adds to a format does not raise its number."""
    job_id = hang(home, VICTIM)
    for name in ("spec.json", "run.json", "outcome.json"):
        damage(home / "jobs" / job_id / name, changed(novelty={"a": [1]}, state="frozen", needs="0.9"))
    jobs = jobs_on(Store(str(home)))
    look = answer(jobs, "look", job_id)
    assert (look["status"], look["exit_code"], look["name"], look["cwd"]) == ("completed", 0, VICTIM, "/")
    assert answer(jobs, "output", job_id)["stderr"] == "err 1\nerr 2\nerr 3\n"


@pytest.mark.parametrize("given", [ANOTHER_ID, "../../etc", 17, None, ["x"]], ids=str)
def test_whose_directory_it_is_decides_the_id(home: Path, given: object) -> None:
    job_id = hang(home, VICTIM, "spec.json", changed(id=given))
    job = Store(str(home)).load(job_id)
    assert (job.id, job.spec.name) == (job_id, VICTIM)


# -- none is dropped ----------------------------------------------------------------------------------------


def test_all_are_listed(gallery: Gallery) -> None:
    jobs = jobs_on(Store(str(gallery.home)), MCP_BG_MAX_RESPONSE="1MB")
    everything = call(jobs, "list_jobs", limit=1000)["jobs"]
    assert sorted(job["job_id"] for job in everything) == gallery.all_ids
    assert call(jobs, "list_jobs", status="running")["jobs"] == []
    assert jobs.search("out 1").searched_jobs == len(gallery.all_ids)


def test_all_are_shown_on_the_command_line(
    gallery: Gallery, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BGJOB_HOME", str(gallery.home))
    with pytest.raises(SystemExit) as end:
        cli.main(["ps", "--limit", "1000"])
    assert end.value.code == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(gallery.all_ids)


def test_none_is_cleaned_up_for_not_being_understood(gallery: Gallery) -> None:
    store = Store(str(gallery.home))
    clean(store, keep_jobs=1000, keep_days=7, interval_s=0)
    assert sorted(listed(store)) == gallery.all_ids


def test_an_index_is_made_of_all_of_them(gallery: Gallery) -> None:
    shutil.rmtree(gallery.home / "index")
    assert sorted(listed(Store(str(gallery.home)))) == gallery.all_ids


def test_the_untouched_ones_are_as_they_were(gallery: Gallery) -> None:
    assert gallery.told(gallery.untouched[BYSTANDER])["output"]["stdout"] == "out\n"
    assert gallery.told(gallery.untouched[LOST])["look"]["reason"] == "the machine was restarted while it ran"
    assert gallery.told(gallery.untouched[ON_A_TERMINAL])["screen"]["screen"] == "\n\n    here"


# -- those that run -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["spec.json", "run.json"])
@pytest.mark.parametrize("what", FUTURE)
def test_a_job_of_the_future_that_runs_is_running(home: Path, name: str, what: str) -> None:
    """That its spec is locked means that it lives, in every format; what it is, is not known."""
    job_id = hang(home, LOST, name, FUTURE[what])
    with locked(home, job_id) as jobs:
        look = answer(jobs, "look", job_id)
        assert (look["status"], look["output_bytes"]) == ("running", 11)
        assert answer(jobs, "wait", job_id)["met"] is False
        clean(Store(str(home)), keep_jobs=0, keep_days=0, interval_s=0)
        assert listed(Store(str(home))) == [job_id]


@pytest.mark.parametrize("what", ["of format 2", "cause is one we do not know"])
def test_a_job_with_an_outcome_of_the_future_does_not_run(home: Path, what: str) -> None:
    """Its shim stays for what the job has left behind, and would be taken for the job."""
    job_id = hang(home, VICTIM, "outcome.json", OUTCOMES[what])
    with locked(home, job_id) as jobs:
        look = answer(jobs, "look", job_id)
    assert (look["status"], look["cause"]) == ("failed", "lost")


@pytest.mark.parametrize("what", ["nothing", "a directory", "a FIFO", "a symlink to a good one"])
def test_without_a_spec_nobody_can_ask_for_the_lock(home: Path, what: str) -> None:
    """Whether its shim was killed is not known then, and not said."""
    job_id = hang(home, LOST, "spec.json", NO_RECORDS[what])
    assert "nobody can tell whether it runs" in answer(jobs_on(Store(str(home))), "look", job_id)["reason"]

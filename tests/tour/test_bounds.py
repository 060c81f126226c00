"""No answer is larger than a model can take: what does not fit is said, and can be asked for."""

import json
from typing import Any

import pytest

from tests.support.gate import Gate
from tests.support.searching import matches
from tests.support.server import Server, StartServer

BYTES_PER_TOKEN = 4
MOST_BYTES = 4096
ROOM = 2.0  # for the names of fields, quotes and escapes


def tokens(answer: dict[str, Any]) -> float:
    return len(json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode()) / BYTES_PER_TOKEN


@pytest.fixture
def server(start_server: StartServer) -> Server:
    return start_server(MCP_BG_MAX_RESPONSE=str(MOST_BYTES), MCP_BG_MAX_JOBS="40")


HUGE = {
    "many lines": "seq 1 200000; seq 1 200000 >&2",
    "one line": "head -c 2000000 /dev/zero | tr '\\0' x; head -c 2000000 /dev/zero | tr '\\0' y >&2",
    "quotes": "yes '\"\"\\\\\\\\' | head -c 2000000 | awk '{print NR $0}' | tee /dev/stderr",
    "quotes alone": "head -c 2000000 /dev/zero | tr '\\0' '\"' | tee /dev/stderr",
    "no text": "head -c 2000000 /dev/zero | tr '\\0' '\\377' | tee /dev/stderr",
    "controls": "head -c 2000000 /dev/zero | tr '\\0' '\\001' | tee /dev/stderr",
    "characters of three bytes": "yes 漢字漢字漢字 | head -c 2000000 | awk '{print NR $0}' | tee /dev/stderr",
}
MOST_TOKENS = 8000


@pytest.mark.parametrize("what", HUGE)
def test_whatever_a_job_prints_an_answer_by_default_stays_small(
    start_server: StartServer, gate: Gate, what: str
) -> None:
    server = start_server()
    ran = server.call("execute_command", command=HUGE[what], wait_s=45)
    assert_fits(ran)
    waits = {"job_ids": [ran["job_id"]], "timeout_s": 45}
    assert_fits(server.call("wait_for_job", **waits))
    assert_fits(server.call("wait_for_job", **waits, raw=True))
    assert_fits(server.call("wait_for_job", **waits, pattern="."))
    for tool in ("tail_job_output", "get_job_output"):
        for raw in (False, True):
            for view in ("apart", "interleaved"):
                assert_fits(server.call(tool, job_id=ran["job_id"], raw=raw, view=view))
    assert_fits(server.call("tail_job_output", job_id=ran["job_id"], lines=1000))
    asked = server.execute(f"read line; {HUGE[what]}; {gate.pause}")
    for raw in (False, True):
        assert_fits(server.call("interact_with_job", job_id=asked, input="", wait_s=1, raw=raw))


def assert_fits(answer: dict[str, Any]) -> None:
    assert as_sent(answer) <= MOST_TOKENS * BYTES_PER_TOKEN


def as_sent(answer: dict[str, Any]) -> int:
    return len(json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode())


@pytest.mark.parametrize("tool", ["get_job_output", "tail_job_output"])
def test_what_one_stream_does_not_use_of_an_answer_the_other_has(
    start_server: StartServer, tool: str
) -> None:
    server = start_server()
    command = "seq -f 'out %05g' 90000; seq -f 'err %05g' 300 >&2"
    ran = server.call("execute_command", command=command, wait_s=45)
    lines = {"lines": 1000} if tool == "tail_job_output" else {}
    answer = server.call(tool, job_id=ran["job_id"], **lines)
    assert "stderr_left_out_bytes" not in answer
    assert answer["stderr"].count("err") == 300
    assert answer["stdout"].count("out ") == 1000 if lines else as_sent(answer) > 30_000
    assert_fits(answer)


def test_a_wait_for_many_jobs_shows_a_little_of_each(start_server: StartServer) -> None:
    server = start_server(MCP_BG_MAX_JOBS="40")
    job_ids = [server.execute("seq 1 20000") for _ in range(20)]
    answer = server.call("wait_for_job", job_ids=job_ids, mode="all", timeout_s=45)
    assert all("20000" in job["stdout"] for job in answer["jobs"])
    assert_fits(answer)


def test_a_huge_screen_is_shown_by_its_top_and_its_bottom(start_server: StartServer) -> None:
    server = start_server()
    fill = "printf '\\033[?1049h\\033[H'; for n in $(seq 500); do printf \"%s %0990d\\r\\n\" row$n 0; done; printf end"
    ran = server.call("execute_command", command=fill, pty=True, rows=500, cols=1000, wait_s=45)
    last = server.call("tail_job_output", job_id=ran["job_id"])
    for answer in (ran, last):
        assert_fits(answer)
        assert " rows left out here" in answer["screen"]
        assert answer["screen"].endswith("end")


def test_progress_is_told_whole_however_much_it_was_redrawn(start_server: StartServer) -> None:
    """What counts is how much is shown: of many redrawn lines that is little."""
    server = start_server()
    draw = "echo begin; for n in $(seq 3000); do printf '\\r\\033[K%s of 3000' $n; done; echo; echo done"
    ran = server.call("execute_command", command=draw, pty=True, wait_s=45)
    assert ran["stdout"] == "begin\n3000 of 3000\ndone\n"


def test_a_page_of_jobs_ends_where_the_answer_is_full(server: Server) -> None:
    names = {f"{'x' * 90} {number}" for number in range(20)}
    for name in names:
        server.execute(f"true {'x' * 400}", name=name)
    seen: list[str] = []
    cursor = None
    while True:
        page = server.call("list_jobs", limit=1000, cursor=cursor)
        assert len(json.dumps(page)) < ROOM * MOST_BYTES
        seen += [job["name"] for job in page["jobs"]]
        if (cursor := page.get("next_cursor")) is None:
            break
    assert sorted(seen) == sorted(names)


def test_a_long_command_is_shortened_in_a_list_and_whole_in_the_status(server: Server) -> None:
    command = f"true {'x' * 1000}"
    job_id = server.execute(command)
    (job,) = server.call("list_jobs")["jobs"]
    assert job["command"] == f"{command[:200]}... (805 more characters)"
    assert server.status(job_id)["command"] == command


def test_no_command_is_too_long_for_an_answer(server: Server) -> None:
    job_id = server.execute(f"true {'x' * 100_000}")
    (job,) = server.call("list_jobs")["jobs"]
    assert len(job["command"]) < 300
    assert server.status(job_id)["command"].endswith("... (80005 more characters)")


def test_a_list_of_many_jobs_is_a_page_of_the_newest(start_server: StartServer) -> None:
    server = start_server(MCP_BG_MAX_JOBS="90")
    commands = [f"cd packages/app && npm run build -- --only {number} 2>&1 | tail -5" for number in range(90)]
    ids = [server.execute(command, name=f"build {number}") for number, command in enumerate(commands)]
    server.call("wait_for_job", job_ids=ids, mode="all")
    page = server.call("list_jobs")
    assert [(job["job_id"], job["command"]) for job in page["jobs"]] == [
        (job_id, command) for job_id, command in list(zip(ids, commands, strict=True))[:-21:-1]
    ]
    assert tokens(page) <= 1300
    ids_seen = [job["job_id"] for job in page["jobs"]]
    while cursor := page.get("next_cursor"):
        page = server.call("list_jobs", cursor=cursor)
        ids_seen += [job["job_id"] for job in page["jobs"]]
    assert ids_seen == ids[::-1]


def test_a_search_that_finds_much_stays_within_8_000_tokens(start_server: StartServer) -> None:
    server = start_server(MCP_BG_MAX_RESPONSE="32kB")
    job_id = server.execute("for n in $(seq 600); do printf '%03d \"%0300d\"\\tneedle\\n' $n 0; done")
    server.call("wait_for_job", job_ids=[job_id])
    found = server.call("search_job_output", pattern="needle", limit=500, context_lines=1)
    assert found["count"] == 600
    assert found["shown"] == len(matches(found))
    assert 4000 < tokens(found) < 8200
    assert matches(found)[-1]["line"].startswith("600 ")  # of what does not fit, the oldest is left out


def test_matches_are_as_many_as_fit(server: Server) -> None:
    job_id = server.execute("for n in $(seq 50); do printf '%0500d needle\\n' $n; done")
    server.call("wait_for_job", job_ids=[job_id])
    found = server.call("search_job_output", pattern="needle", job_ids=[job_id], limit=500)
    assert found["count"] == 50
    assert 1 < found["shown"] == len(matches(found)) < 10
    assert len(json.dumps(found)) < ROOM * MOST_BYTES


def test_a_very_long_line_is_shown_around_its_match_and_read_whole_by_its_cursor(server: Server) -> None:
    job_id = server.execute("printf 'begin %050000d needle\\n' 0")
    server.call("wait_for_job", job_ids=[job_id])
    (match,) = matches(server.call("search_job_output", pattern="needle", job_ids=[job_id]))
    assert match["line"].startswith("…000")
    assert match["line"].endswith("000 needle")
    assert len(match["line"]) < 1000
    start, _, end = match["cursor"].partition("-")
    assert int(end) - int(start) == len("begin  needle\n") + 50_000

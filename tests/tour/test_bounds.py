"""No answer is larger than a model can take: what does not fit is said, and can be asked for."""

import json

import pytest

from tests.support.server import Server, StartServer

MOST_BYTES = 4096
ROOM = 2.0  # for the names of fields, quotes and escapes


@pytest.fixture
def server(start_server: StartServer) -> Server:
    return start_server(MCP_BG_MAX_RESPONSE=str(MOST_BYTES), MCP_BG_MAX_JOBS="40")


def test_a_page_of_jobs_ends_where_the_answer_is_full(server: Server) -> None:
    commands = {f"true {'x' * 400} {number}" for number in range(20)}
    for command in commands:
        server.execute(command)
    seen: list[str] = []
    cursor = None
    while True:
        page = server.call("list_jobs", limit=1000, cursor=cursor)
        assert len(json.dumps(page)) < ROOM * MOST_BYTES
        seen += [job["command"] for job in page["jobs"]]
        if (cursor := page.get("next_cursor")) is None:
            break
    assert sorted(seen) == sorted(commands)


def test_one_job_is_listed_however_long_its_command_is(server: Server) -> None:
    server.execute(f"true {'x' * 100_000}")
    (job,) = server.call("list_jobs")["jobs"]
    assert len(job["command"]) < 1000


def test_matches_are_as_many_as_fit(server: Server) -> None:
    job_id = server.execute("for n in $(seq 50); do printf '%0500d needle\\n' $n; done")
    server.call("wait_for_job", job_ids=[job_id])
    found = server.call("search_job_output", pattern="needle", job_ids=[job_id], limit=500)
    assert found["count"] == 50
    assert 1 < len(found["matches"]) < 10
    assert len(json.dumps(found)) < ROOM * MOST_BYTES


def test_a_very_long_line_is_shown_around_its_match_and_read_whole_by_its_cursor(server: Server) -> None:
    job_id = server.execute("printf 'begin %050000d needle\\n' 0")
    server.call("wait_for_job", job_ids=[job_id])
    (match,) = server.call("search_job_output", pattern="needle", job_ids=[job_id])["matches"]
    assert match["line"].endswith("000 needle")
    assert len(match["line"]) < 1000
    start, _, end = match["cursor"].partition("-")
    assert int(end) - int(start) == len("begin  needle\n") + 50_000

"""Reading as a model does: within a budget, without noise, by search, and told what the job is doing."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bgjob.api import Jobs, JobStatus
from bgjob.mcp.results import Started
from tests.support.gate import Gate
from tests.support.searching import matches
from tests.support.server import Server, ToolError

Ended = Callable[[str], JobStatus]


def test_a_budget_gives_head_and_tail_and_the_way_to_the_rest(server: Server, ended: Ended) -> None:
    job_id = server.execute("seq 1 5000")
    ended(job_id)
    output = server.output(job_id, max_tokens=100)
    assert len(output["stdout"]) < 700
    assert output["stdout"].startswith("1\n2\n")
    assert output["stdout"].endswith("\n5000\n")
    cursor = re.search(r'since="([0-9-]+)"', output["stdout"])
    assert cursor
    rest = server.output(job_id, since=cursor[1], max_tokens=25_000)["stdout"]
    assert "2500\n" in rest


def test_noise_is_taken_out_and_raw_keeps_it(server: Server, ended: Ended) -> None:
    job_id = server.execute(
        r"printf '\033[31mred\033[0m\n'; for i in 10 50 100; do printf '\rdownload %s%%' $i; done; echo; "
        r"for i in 1 2 3 4 5 6 7 8 9; do echo 'the same warning again'; done"
    )
    ended(job_id)
    clean, raw = server.output(job_id)["stdout"], server.output(job_id, raw=True)["stdout"]
    assert clean.splitlines()[:3] == ["red", "download 100%", "the same warning again"]
    assert clean.count("the same warning") == 1
    assert "8 more times" in clean
    assert "\x1b[31m" in raw
    assert raw.count("the same warning") == 9


def test_the_interleaved_view_has_the_order_and_the_time(
    server: Server, ended: Ended, tmp_path: Path
) -> None:
    gates = [Gate(tmp_path / name) for name in "ab"]
    job_id = server.execute(f"echo one; {gates[0].pause}; echo two >&2; {gates[1].pause}; echo three")
    for gate, printed in zip(gates, ["one", "two"], strict=True):
        gate.wait_until_reached()
        server.wait_until_printed(job_id, printed)
        gate.open()
    ended(job_id)
    output = server.output(job_id, view="interleaved")
    lines = output["interleaved"].splitlines()
    assert [line.split(" ", 1)[1] for line in lines] == ["out| one", "err| two", "out| three"]
    assert all(re.match(r"\d\d:\d\d:\d\d\.\d{3} ", line) for line in lines)
    assert (output["stdout"], output["stderr"]) == ("", "")
    tail = server.call("tail_job_output", job_id=job_id, lines=1, view="interleaved")
    assert tail["interleaved"].endswith("out| three\n")


READS: dict[str, dict[str, str]] = {
    "get_job_output": {},
    "tail_job_output": {},
    "get_job_output interleaved": {"view": "interleaved"},
    "tail_job_output interleaved": {"view": "interleaved"},
}


@pytest.mark.parametrize("how", READS)
@pytest.mark.parametrize(
    ("first", "rest", "text"),
    [
        (r"a\033[3", r"1mRED\033[0m\n", ("a", "RED\n")),
        (r"a\033]8;;http://example.org", r"/\033\\link\n", ("a", "link\n")),
        (r"abc\303", r"\244def\n", ("abc", "ädef\n")),
    ],
)
def test_what_the_cursor_cuts_is_read_as_if_it_were_not_cut(
    server: Server, gate: Gate, ended: Ended, how: str, first: str, rest: str, text: tuple[str, str]
) -> None:
    """A colour, a link, a character: the first answer has nothing of it, and the next nothing but its end."""
    job_id = server.execute(f"printf '{first}'; {gate.pause}; printf '{rest}'")
    gate.wait_until_reached()
    server.wait_until_printed(job_id, text[0])
    before = read(server, how, job_id)
    gate.open()
    ended(job_id)
    after = read(server, how, job_id, since=before["cursor"])
    assert (words_in(before), words_in(after)) == text


def read(server: Server, how: str, job_id: str, **more: Any) -> dict[str, Any]:
    return server.call(how.split(maxsplit=1)[0], job_id=job_id, **READS[how], **more)


def words_in(answer: dict[str, Any]) -> str:
    return re.sub(r"^\S+ out\| ", "", answer.get("interleaved") or answer["stdout"])


def test_an_interleaved_tail_says_what_it_leaves_out(server: Server, ended: Ended) -> None:
    job_id = server.execute("seq 1000 1999")
    ended(job_id)
    tail = server.call("tail_job_output", job_id=job_id, view="interleaved", lines=50, max_tokens=60)
    assert 0 < tail["interleaved"].count("out| ") < 50
    assert f"{tail['stdout_left_out_bytes']} bytes left out here" in tail["interleaved"]


def test_the_last_lines_of_a_range_are_those_of_the_range(server: Server, ended: Ended) -> None:
    job_id = server.execute("seq 1000 1999")
    ended(job_id)
    assert server.call("tail_job_output", job_id=job_id, since="0-10", lines=1)["stdout"] == "1001\n"


def test_two_readers_take_nothing_from_each_other(server: Server, ended: Ended) -> None:
    job_id = server.execute("seq 1 100")
    ended(job_id)
    first = server.output(job_id)
    assert server.output(job_id) == first
    assert server.call("tail_job_output", job_id=job_id, lines=1, since=first["cursor"])["stdout"] == ""


def search(server: Server, pattern: str, **options: Any) -> dict[str, Any]:
    return server.call("search_job_output", pattern=pattern, **options)


def lines(found: dict[str, Any]) -> list[str]:
    return [match["line"] for match in matches(found)]


def test_lines_are_found_in_one_job_or_in_all(server: Server, ended: Ended) -> None:
    one = server.execute("seq 1 1000 | sed 's/^/needle-a /'")
    other = server.execute("echo before; echo 'needle-b here' >&2; echo after >&2; exit 1")
    for job_id in (one, other):
        ended(job_id)
    found = search(server, r"needle-a 99\d$", job_ids=[one], limit=3)
    assert found["count"] == 10
    assert lines(found) == ["needle-a 997", "needle-a 998", "needle-a 999"]
    (match,) = matches(
        search(server, "NEEDLE-B HERE".lower(), literal=True, stream="stderr", context_lines=1)
    )
    assert (match["job_id"], match["line"], match["after"]) == (other, "needle-b here", ["after"])
    assert server.output(other, since=match["cursor"])["stderr"] == "needle-b here\n"
    oldest = search(server, "needle-a", job_ids=[one], limit=1, oldest_first=True)
    assert lines(oldest) == ["needle-a 1"]


def test_what_is_found_reads_like_the_log_newest_job_first(server: Server, ended: Ended) -> None:
    """A traceback does not read backwards. Which lines are shown is another matter: the newest, or the oldest."""
    old = server.execute("printf 'verse %s\n' 1 2 3", name="first run")
    ended(old)
    new = server.execute("printf 'verse %s\n' 4 5; echo verse 6 >&2")
    ended(new)
    found = search(server, "^verse", limit=5)
    assert (found["count"], found["complete"], "shown" in found) == (6, True, False)
    newest, oldest = found["jobs"]
    assert (newest["job_id"], "name" in newest) == (new, False)
    assert (oldest["job_id"], oldest["name"]) == (old, "first run")
    assert sorted(match["line"] for match in newest["matches"]) == ["verse 4", "verse 5", "verse 6"]
    assert [match["line"] for match in oldest["matches"]] == ["verse 2", "verse 3"]
    first = search(server, "^verse", limit=4, oldest_first=True)["jobs"]
    assert [job["job_id"] for job in first] == [new, old]
    assert [match["line"] for match in first[1]["matches"]] == ["verse 1", "verse 2", "verse 3"]
    given = search(server, "verse", job_ids=[old, new], limit=1)["jobs"]
    assert [job["job_id"] for job in given] == [new]  # in whichever order the ids are given


def test_a_match_has_no_more_than_is_asked_for(server: Server, ended: Ended) -> None:
    job_id = server.execute("echo out; echo err >&2")
    ended(job_id)
    out, err = sorted(
        matches(search(server, "out|err", job_ids=[job_id])), key=lambda match: "stream" in match
    )
    assert out.keys() == {"job_id", "line", "cursor"}
    assert err.keys() == {"job_id", "line", "cursor", "stream"}
    assert err["stream"] == "stderr"
    for asked in ({"times": True}, {"after": "2020-01-01"}, {"before": "2999-01-01T00:00:00Z"}):
        timed = matches(search(server, "out|err", job_ids=[job_id], **asked))
        assert len(timed) == 2
        assert all(re.fullmatch(r"\d{4}-.*Z", match["time"]) for match in timed)


def test_fifteen_matches_cost_little_more_than_their_lines(server: Server, ended: Ended) -> None:
    line = "FAILED tests/shop/test_checkout.py::test_a_cart_of_%d_is_paid - AssertionError: assert 402 == 200"
    job_id = server.execute(f"seq -f '{line.replace('%d', '%.0f')}' 2000; seq 5000")
    ended(job_id)
    found = search(server, "cart_of_1..0_", limit=15)
    texts = [line % number for number in range(1850, 2000, 10)]
    assert (found["count"], lines(found)) == (100, texts)
    answer = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    assert len(answer) < 1.6 * len("\n".join(texts))


@pytest.mark.parametrize("pty", [False, True])
def test_a_pattern_matches_a_line_as_the_answer_shows_it(server: Server, ended: Ended, pty: bool) -> None:
    job_id = server.execute(
        r"printf '\033[31merror\033[0m: boom\n\033[32m➜\033[39m  \033[1mLocal\033[22m:   \033[36mhttp://x/\033[39m\n'; "
        r"for i in 10 50 100; do printf '\rprogress %s%%' $i; done; echo; printf 'ab\b\bxy\n'",
        pty=pty,
    )
    ended(job_id)
    for pattern, shown in {
        "^error: boom$": "error: boom",
        "Local: +http": "➜  Local:   http://x/",
        "^progress 100%$": "progress 100%",
        "^xy$": "xy",
    }.items():
        found = search(server, pattern, job_ids=[job_id])
        assert (found["count"], lines(found)) == (1, [shown])
    assert lines(search(server, "Local:   http://x/", job_ids=[job_id], literal=True)) == [
        "➜  Local:   http://x/"
    ]
    assert search(server, r"error|progress|xy", job_ids=[job_id])["count"] == 3
    assert search(server, r"\x1b\[31m|50%", job_ids=[job_id])["count"] == 2  # as they were printed, too


def test_a_context_line_that_is_cut_says_so(server: Server, ended: Ended) -> None:
    job_id = server.execute("printf '%0499d+\\n%0501d\\nneedle\\n%0501d\\n' 0 0 0")
    ended(job_id)
    (match,) = matches(search(server, "needle", job_ids=[job_id], context_lines=2))
    assert match["before"] == ["0" * 499 + "+", "0" * 500 + "…"]
    assert match["after"] == ["0" * 500 + "…"]


def test_a_search_of_no_jobs_is_an_error_not_an_answer_of_no_lines(server: Server) -> None:
    with pytest.raises(ToolError, match="job_ids has 0 ids"):
        search(server, "a", job_ids=[])


def test_a_bad_pattern_and_a_bad_time_are_clear_errors(server: Server) -> None:
    with pytest.raises(ToolError, match=r"position|missing"):
        search(server, "a(b")
    with pytest.raises(ToolError, match="ISO 8601"):
        search(server, "a", after="yesterday")


def test_what_a_job_is_doing_is_told_on_request(server: Server, gate: Gate) -> None:
    job_id = server.execute(f"sleep 1000 & {gate.reach}; read line")
    gate.wait_until_reached()
    activity = server.call("get_job_status", job_id=job_id, detail=True)["activity"]
    assert activity["process_count"] >= 2
    assert activity["memory_bytes"] > 0
    assert activity["memory_kind"] in ("pss", "rss")
    assert any("sleep 1000" in process["command"] for process in activity["tree"])
    assert "activity" not in server.status(job_id)


def test_a_dev_server_is_not_started_twice(server: Server) -> None:
    first = server.call("execute_command", command="cat", name="the dev server", if_running="reuse")
    second = server.call("execute_command", command="cat", name="the dev server", if_running="reuse")
    assert second["job_id"] == first["job_id"]
    assert second["reused"] is True
    with pytest.raises(ToolError, match=first["job_id"]):
        server.call("execute_command", command="cat", name="the dev server", if_running="refuse")
    third = server.call("execute_command", command="cat", name="the dev server", if_running="restart")
    assert third["job_id"] != first["job_id"]
    assert server.status(first["job_id"])["status"] == "killed"
    with pytest.raises(ToolError, match="needs a name"):
        server.call("execute_command", command="cat", if_running="reuse")


def test_a_reused_job_with_another_command_is_shown_with_both(jobs: Jobs) -> None:
    """What was asked for does not run, and the answer does not read as if it did."""
    jobs.run("cat", name="dev", if_running="reuse")
    same, other = (
        Started.of(replace(jobs.run(asked, name="dev", if_running="reuse"), asked_command=asked))
        for asked in ("cat", "cat --number")
    )
    assert (same.reused, same.command, same.hint) == (True, None, None)
    assert (other.reused, other.command) == (True, "cat")
    assert other.hint
    assert "'cat --number' was not started" in other.hint


def test_of_many_callers_at_once_one_starts_it(server: Server) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def ensure(_: int) -> dict[str, Any]:
        return server.call("execute_command", command="cat", name="only one", if_running="reuse")

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ensure, range(8)))
    assert len({answer["job_id"] for answer in answers}) == 1
    assert sum(not answer.get("reused") for answer in answers) == 1


SERVERS = {
    "python": "python3 -m http.server --bind 127.0.0.1 PORT",
    "python, number in an address": "python3 -c 'import socket; socket.create_server((\"127.0.0.1\", PORT))'",
    "node": 'node -e \'require("net").createServer().listen(PORT, "127.0.0.1")\'',
    "message": "echo 'listen EADDRINUSE: address already in use :::PORT'; exit 1",
}


@pytest.mark.parametrize("what", SERVERS)
def test_a_job_whose_port_is_taken_is_told_by_which_job(server: Server, what: str) -> None:
    """Node names the port in the first line of its message only, Python not at all: then the command tells it."""
    if not shutil.which(SERVERS[what].split()[0]):
        pytest.skip(f"{what} is not installed")
    holder = server.execute(
        'python3 -c \'import http.server as h; s = h.HTTPServer(("127.0.0.1", 0), h.BaseHTTPRequestHandler); '
        "print(s.server_port, flush=True); s.serve_forever()'"
    )
    (job,) = server.call("wait_for_job", job_ids=[holder], pattern=r"^\d+$", timeout_s=30)["jobs"]
    second = SERVERS[what].replace("PORT", job["match"])
    answer = server.call("execute_command", command=second, wait_s=30)
    assert (answer["status"], answer["hint"]) == ("failed", f"Port {job['match']} is held by job {holder}.")

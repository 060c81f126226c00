"""Output: every byte that is kept can be read, what is not kept is said, and an answer never floods the caller."""

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bgjob.api import JobStatus
from tests.support.gate import Gate
from tests.support.searching import matches
from tests.support.server import Server, StartServer, ToolError

Ended = Callable[[str], JobStatus]


def test_stdout_and_stderr_are_apart(server: Server, ended: Ended) -> None:
    job_id = server.execute("echo to stdout; echo to stderr >&2; echo more")
    ended(job_id)
    output = server.output(job_id)
    assert (output["stdout"], output["stderr"]) == ("to stdout\nmore\n", "to stderr\n")


def test_a_prompt_without_a_newline_is_visible_at_once(server: Server, gate: Gate) -> None:
    job_id = server.execute(f"printf 'Password: '; {gate.pause}")
    gate.wait_until_reached()
    server.wait_until_printed(job_id, "Password: ")
    assert server.output(job_id)["stdout"] == "Password: "


def test_the_tail_is_the_last_lines_of_each_stream(server: Server, ended: Ended) -> None:
    job_id = server.execute("seq 1 1000; seq 1 10 >&2; printf unfinished")
    ended(job_id)
    tail = server.call("tail_job_output", job_id=job_id, lines=3)
    assert tail["stdout"] == "999\n1000\nunfinished"
    assert tail["stderr"] == "8\n9\n10\n"


@pytest.mark.parametrize("lines", [0, 1001, -5, "many"])
def test_lines_out_of_range_is_a_clear_error(server: Server, lines: object) -> None:
    job_id = server.execute("true")
    with pytest.raises(ToolError, match="lines"):
        server.call("tail_job_output", job_id=job_id, lines=lines)


def test_a_cursor_gives_only_what_is_new(server: Server, gate: Gate, ended: Ended) -> None:
    job_id = server.execute(f"echo before; {gate.pause}; echo after")
    gate.wait_until_reached()
    server.wait_until_printed(job_id, "before")
    first = server.output(job_id)
    gate.open()
    ended(job_id)
    second = server.output(job_id, since=first["cursor"])
    assert (first["stdout"], second["stdout"]) == ("before\n", "after\n")
    assert server.output(job_id, since=second["cursor"])["stdout"] == ""


def test_bytes_that_are_no_text_come_through_as_replacements(server: Server, ended: Ended) -> None:
    job_id = server.execute(r"printf 'caf\303\251 \377 \000 end\n'")
    ended(job_id)
    assert server.output(job_id, raw=True)["stdout"] == "café \ufffd \0 end\n"


def test_a_character_cut_by_a_cursor_is_not_torn(server: Server, tmp_path: Path, ended: Ended) -> None:
    gate = Gate(tmp_path / "between")
    job_id = server.execute(rf"printf 'caf\303'; {gate.pause}; printf '\251!'")
    gate.wait_until_reached()
    server.wait_until_printed(job_id, "caf")
    first = server.output(job_id)
    gate.open()
    ended(job_id)
    assert first["stdout"] + server.output(job_id, since=first["cursor"])["stdout"] == "café!"


def test_a_long_output_is_head_and_tail_and_the_gap_can_be_read(
    start_server: StartServer, ended: Ended
) -> None:
    server = start_server(MCP_BG_MAX_RESPONSE="10KB")
    job_id = server.execute("seq 1 20000")
    ended(job_id)
    whole = "".join(f"{number}\n" for number in range(1, 20001))
    output = server.output(job_id)
    head, note, tail = split_at_note(output["stdout"])
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert output["stdout_left_out_bytes"] == len(whole) - len(head) - len(tail) > 0
    assert str(output["stdout_left_out_bytes"]) in note
    assert head + read_gap(server, job_id, note) + tail == whole


def split_at_note(text: str) -> tuple[str, str, str]:
    before, mark, rest = text.partition("[bgjob: ")
    note, _, after = rest.partition("]\n")
    assert mark
    return before, note, after


def read_gap(server: Server, job_id: str, note: str) -> str:
    """As a model would: by the cursor in the note, again and again."""
    text = server.output(job_id, since=note.split('"')[1])["stdout"]
    if "[bgjob: " not in text:
        return str(text)
    head, inner, tail = split_at_note(text)
    return head + read_gap(server, job_id, inner) + tail


def test_one_huge_line_does_not_fill_a_tail(server: Server, ended: Ended) -> None:
    """Of a long line a tail has the two ends, and the cursor that reads the rest."""
    job_id = server.execute("echo begin; head -c 500000 /dev/zero | tr '\\0' x; echo; echo end")
    ended(job_id)
    tail = server.call("tail_job_output", job_id=job_id, lines=3)["stdout"]
    head, note, rest = split_at_note(tail)
    assert head.startswith("begin\nx")
    assert rest.endswith("x\nend\n")
    assert len(tail) < 2200
    cursor = re.search(r'since="([0-9-]+)"', note)
    assert cursor
    assert server.output(job_id, since=cursor[1])["stdout"].startswith("xxx")


def test_of_a_job_that_has_ended_the_end_is_worth_more_than_the_beginning(
    server: Server, ended: Ended, gate: Gate
) -> None:
    """Half and half while it runs; then a quarter of what is shown is its beginning, the rest its end."""
    job_id = server.execute(f"seq 100000 199999; echo printed >&2; {gate.pause}")
    server.wait_until_printed(job_id, "printed")
    assert head_share(server, job_id) == pytest.approx(1 / 2, abs=0.02)
    gate.wait_until_reached()
    gate.open()
    ended(job_id)
    assert head_share(server, job_id) == pytest.approx(1 / 4, abs=0.02)


def head_share(server: Server, job_id: str) -> float:
    head, _, tail = split_at_note(server.output(job_id)["stdout"])
    return len(head) / (len(head) + len(tail))


def test_grep_finds_a_line_in_the_file_that_the_status_names(server: Server, ended: Ended) -> None:
    """One file, also where the log has many."""
    for command in ("echo first; echo needle 1", "seq 1 500000; echo needle 2; seq 1 500000"):
        job_id = server.execute(command)
        ended(job_id)
        log = server.status(job_id)["log"]
        assert Path(log).is_absolute()
        found = subprocess.run(["grep", "needle", log], capture_output=True, text=True, check=True)
        assert found.stdout == f"needle {command.partition('needle ')[2][0]}\n"


def test_of_a_job_that_runs_the_file_is_as_of_the_call_and_the_status_says_so(
    server: Server, ended: Ended, gate: Gate
) -> None:
    """When the log goes on in another file, the first one stops growing."""
    job_id = server.execute(f"echo first; {gate.pause}; seq 1 500000; echo needle")
    gate.wait_until_reached()
    server.call("wait_for_job", job_ids=[job_id], pattern="first")
    running = server.status(job_id)
    assert Path(running["log"]).read_text() == "first\n"
    assert running["log_note"] == "as of this call: ask again for newer output"
    gate.open()
    ended(job_id)
    over = server.status(job_id)
    assert "log_note" not in over
    assert Path(over["log"]).read_text().endswith("needle\n")
    assert not Path(running["log"]).read_text().endswith("needle\n")


def test_a_job_that_has_printed_nothing_has_no_file_to_read(server: Server) -> None:
    assert "log" not in server.status(server.execute("cat"))


def test_beyond_the_limit_the_middle_is_dropped_and_said(
    start_server: StartServer, ended: Ended, home: Path
) -> None:
    server = start_server(MCP_BG_MAX_OUTPUT_SIZE="256KB", MCP_BG_MAX_RESPONSE="1MB")
    job_id = server.execute("seq 1 200000; echo err >&2")
    ended(job_id)
    whole = "".join(f"{number}\n" for number in range(1, 200001))
    output = server.output(job_id)
    head, note, tail = split_at_note(output["stdout"])
    assert whole.startswith(head.removesuffix("\n"))
    assert whole.endswith(tail)
    missing = len(whole) - len(head.removesuffix("\n")) - len(tail)  # the note has a line of its own
    assert output["stdout_dropped_bytes"] in (missing, missing - 1)
    assert f"{output['stdout_dropped_bytes']} bytes dropped here" in note
    assert "stderr_dropped_bytes" not in output
    assert 256_000 * 0.8 < len(head) + len(tail) <= 256 << 10
    assert disk_use(home / "jobs" / job_id / "log") <= (256 << 10) + 4096


def disk_use(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.iterdir())


def test_a_flood_through_a_small_log_can_be_read_at_any_moment(server: Server) -> None:
    """It replaces its output in milliseconds: an answer has what is there, and none is an error."""
    flood = server.call(
        "execute_command", command="yes", pty=True, options={"output": "16KB"}, wait_s=1, max_tokens=100
    )
    job_id = flood["job_id"]
    for _ in range(5):
        for more in ({}, {"raw": True}, {"view": "interleaved"}):
            assert "y" in str(server.output(job_id, **more))
            assert "y" in str(server.call("tail_job_output", job_id=job_id, **more))
        (waited,) = server.call("wait_for_job", job_ids=[job_id], timeout_s=0.1)["jobs"]
        assert waited["status"] == "running"


@pytest.mark.parametrize(("quiet", "chatty"), [("stderr", "stdout"), ("stdout", "stderr")])
def test_what_one_stream_prints_does_not_push_out_the_other(
    server: Server, ended: Ended, quiet: str, chatty: str
) -> None:
    """A traceback in the middle of 25 MB: it is shown, found, and in the tail of its stream."""
    much, line = f"yes 'of no interest' | head -c %d > /dev/{chatty}", "Traceback: it failed"
    job_id = server.execute(f"{much % 5_000_000}; echo '{line}' > /dev/{quiet}; {much % 20_000_000}")
    assert ended(job_id).output_bytes == 25_000_000 + len(line) + 1
    assert server.call("tail_job_output", job_id=job_id, lines=5)[quiet] == f"{line}\n"
    output = server.output(job_id)
    assert output[quiet] == f"{line}\n"
    assert f"{quiet}_dropped_bytes" not in output
    assert output[f"{chatty}_dropped_bytes"] > 14_000_000
    found = matches(server.call("search_job_output", job_ids=[job_id], pattern="it failed"))
    assert [(match["line"], match.get("stream", "stdout")) for match in found] == [(line, quiet)]


@pytest.mark.parametrize(("first", "last"), [("stderr", "stdout"), ("stdout", "stderr")])
def test_the_last_lines_of_each_stream_stay_however_small_the_limit(
    start_server: StartServer, ended: Ended, first: str, last: str
) -> None:
    """Whichever pipe is read last: what comes through it is more than is kept in all."""
    server = start_server(MCP_BG_MAX_OUTPUT_SIZE="20KB")
    job_id = server.execute(f"seq 1 50 > /dev/{first}; seq 1 9000 > /dev/{last}")
    ended(job_id)
    tail = server.call("tail_job_output", job_id=job_id, lines=3)
    assert (tail[first], tail[last]) == ("48\n49\n50\n", "8998\n8999\n9000\n")


def test_alternating_streams_stay_within_the_limit_too(
    start_server: StartServer, ended: Ended, home: Path
) -> None:
    """Each change of stream costs a record of its own: it counts against the limit."""
    server = start_server(MCP_BG_MAX_OUTPUT_SIZE="64KB")
    job_id = server.execute(
        'python3 -c \'import os\nfor i in range(30000): os.write(1, b"o\\n"); os.write(2, b"e\\n")\''
    )
    ended(job_id)
    output = server.output(job_id, raw=True)
    assert set(output["stdout"].replace("\n", "")[:10]) == {"o"}
    assert disk_use(home / "jobs" / job_id / "log") <= (64 << 10) + 4096


def test_a_gigabyte_leaves_the_servers_memory_and_the_disk_flat(
    server: Server, ended: Ended, home: Path
) -> None:
    before = rss_bytes(server.pid)
    job_id = server.execute(
        "head -c 64000000 /dev/zero | tr '\\0' x; yes 'a line of output' | head -c 936000000"
    )
    ended(job_id)
    tail = server.call("tail_job_output", job_id=job_id, lines=2)
    output = server.output(job_id, raw=True)
    assert tail["stdout"].splitlines()[0] == "a line of output"
    assert output["stdout"].startswith("x" * 1000)
    assert len(output["stdout"]) < 110_000
    assert server.status(job_id)["output_bytes"] == 1_000_000_000
    assert disk_use(home / "jobs" / job_id / "log") <= (10 << 20) + (2 << 20)
    assert rss_bytes(server.pid) - before <= 20 << 20


def rss_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_a_full_disk_costs_output_and_nothing_else(tmp_path: Path) -> None:
    """The job goes on, the gap is said, the exit code is kept, and output is kept again once there is room."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0 or os.system(f"mount -t tmpfs -o size=3m tmpfs {disk} 2>/dev/null") != 0:
        pytest.skip("needs to mount a tmpfs")
    try:
        run_on_a_full_disk(disk, tmp_path)
    finally:
        os.system(f"umount -l {disk}")


def run_on_a_full_disk(disk: Path, tmp_path: Path) -> None:
    from bgjob.api import open_jobs

    ballast = disk / "ballast"
    ballast.write_bytes(b"x" * 2_000_000)
    jobs = open_jobs({**os.environ, "BGJOB_HOME": str(disk / "home")}, many=False)
    gate = Gate(tmp_path / "gate")
    job_id = jobs.execute(f"seq 1 500000; {gate.pause}; sleep 1.1; echo after; exit 5").id
    gate.wait_until_reached()
    ballast.unlink()
    gate.open()
    for _ in jobs.follow(job_id, wait=True):
        pass
    output = jobs.output(job_id)
    assert getattr(jobs.status(job_id).job.state, "code", None) == 5
    assert output.stdout.startswith("1\n2\n3\n")
    assert output.stdout.endswith("after\n")
    assert output.stdout_dropped_bytes > 0

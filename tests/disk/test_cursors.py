"""The door's cursors over a log that grows and rotates: nothing kept is missed, nothing comes twice."""

import re
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bgjob.api import Jobs
from bgjob.api.snapshot import Snapshot
from bgjob.home.log_format import STDERR, STDOUT
from bgjob.output.log_reader import LogReader
from bgjob.output.tail import tail
from bgjob.store.store import Store
from tests.support.logs import STREAMS, PipedLog, joined
from tests.support.stores import jobs_on, running_job, write_outcome

LETTERS = {
    STDOUT: b"".join(b"%d," % number for number in range(100_000)),
    STDERR: b"".join(b"%x;" % number for number in range(100_000)),
}
LEFT_OUT = re.compile(
    r"\n?\[bgjob: (\d+) bytes left out here; get_job_output with since=\"(\d+-\d+)\" reads them\]\n"
)
DROPPED = re.compile(r"\n?\[bgjob: (\d+) bytes dropped here[^\]]*\]\n")
STEPS = st.lists(st.tuples(st.sampled_from(STREAMS), st.integers(1, 6000), st.booleans()), max_size=25)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS, limit=st.integers(1 << 10, 64 << 10), budget=st.integers(1 << 10, 9000))
def test_whoever_reads_on_by_cursors_gets_every_kept_byte_once(
    steps: list[tuple[int, int, bool]], limit: int, budget: int
) -> None:
    """Running and then ended; what an answer leaves out is read by the cursor in its note, however often that takes."""
    with tempfile.TemporaryDirectory() as scratch:
        store = Store(f"{scratch}/home")
        new = running_job(store)
        job_id, jobs = Path(new.directory).name, jobs_on(store, MCP_BG_MAX_RESPONSE=str(budget))
        with PipedLog(Path(new.directory) / "log", limit, contents=LETTERS) as log:
            cursor = None
            for stream, size, reads in [*steps, (STDOUT, 1, True)]:
                log.print(stream, size)
                log.take_all()
                if reads:
                    cursor = check_answer(jobs, job_id, cursor, log)
            write_outcome(Path(new.directory), output_bytes=log.writer.end)
            check_answer(jobs, job_id, cursor, log)
            check_answer(jobs, job_id, None, log)


def check_answer(jobs: Jobs, job_id: str, cursor: str | None, log: PipedLog) -> str:
    answer = jobs.output(job_id, since=cursor)
    reader = LogReader(str(log.directory))
    for stream, text in zip(STREAMS, (answer.stdout, answer.stderr), strict=True):
        kept = joined(list(reader.forward(stream, int(cursor or 0), reader.end))).decode()
        assert with_what_was_left_out(jobs, job_id, stream, text) == kept
    left_out = [
        sum(int(count) for count, _ in LEFT_OUT.findall(text)) for text in (answer.stdout, answer.stderr)
    ]
    assert left_out == [answer.stdout_left_out_bytes, answer.stderr_left_out_bytes]
    assert int(answer.cursor) == reader.end
    return answer.cursor


def with_what_was_left_out(jobs: Jobs, job_id: str, stream: int, text: str) -> str:
    text = DROPPED.sub("", text)
    found = LEFT_OUT.search(text)
    if found is None:
        return text
    answer = jobs.output(job_id, since=found[2])
    inner = answer.stdout if stream == STDOUT else answer.stderr
    whole = with_what_was_left_out(jobs, job_id, stream, inner)
    assert len(whole) == int(found[1])
    return text[: found.start()] + whole + text[found.end() :]


def test_output_that_is_replaced_faster_than_it_is_read_is_read_all_the_same(tmp_path: Path) -> None:
    """Whatever is opened again, by the time it is read the job has printed more than the log keeps."""
    store = Store(str(tmp_path))
    new = running_job(store)
    with PipedLog(Path(new.directory) / "log", 4096, contents=LETTERS) as log:

        def print_much_and_read(reader: LogReader) -> tuple[int, str]:
            for _ in range(3):
                log.print(STDOUT, 1500)
                log.take_all()
            return reader.end, tail(reader, STDOUT, 1, 1000).text

        log.print(STDOUT, 6000)
        log.take_all()
        snapshot = Snapshot(jobs_on(store).context, Path(new.directory).name)
        end, last = snapshot.read(print_much_and_read)
        assert end < log.writer.end
        assert last.endswith(LETTERS[STDOUT][end - 300 : end].decode())

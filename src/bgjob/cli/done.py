"""What became of each of several jobs: one line, or one JSON object, for each."""

from typing import Any

from bgjob.cli import streams
from bgjob.cli.streams import CannotPrint
from bgjob.cli.words import in_our_words
from bgjob.core.errors import BgjobError
from bgjob.core.job import Job, called
from bgjob.output.tty_text import cut, one_line


def processes_word(count: int) -> str:
    return f"{count} {'process' if count == 1 else 'processes'}"


class Report:
    """Told as it comes. What cannot be printed stops no act on the other jobs: it is raised at the end."""

    def __init__(self, count: int, *, as_json: bool) -> None:
        """`count`: of how many jobs it is; the only one needs no name."""
        self._is_only, self._as_json = count == 1, as_json
        self._exit_code = 0
        self._unprinted: CannotPrint | None = None

    def done(self, job: Job, how: str, record: dict[str, Any]) -> None:
        try:
            streams.tell(self._line(job, how, record), done=how if self._is_only else f"{job.id[:8]}: {how}")
        except CannotPrint as problem:
            self._unprinted = problem

    def failed(self, error: BgjobError) -> None:
        self._exit_code = 1
        streams.complain(in_our_words(error))

    def exit_code(self) -> int:
        if self._unprinted:
            raise self._unprinted
        return self._exit_code

    def _line(self, job: Job, how: str, record: dict[str, Any]) -> str:
        if self._as_json:
            import json

            return json.dumps({"job_id": job.id, **record})
        if self._is_only:
            return how
        line = f"{job.id[:8]}  {how}  {one_line(called(job.spec))}"
        columns = streams.columns()
        return cut(line, columns) if columns else line

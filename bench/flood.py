"""How soon a shim answers while its job prints without end: status requests on the job's control socket.

    python -m bench.flood [requests]

Three rows: a silent job, a job that prints (`yes`), and the same beyond the size from which its output is slowed down.
"""

import json
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable

from bgjob.api import Jobs, open_jobs

REQUESTS = 1000
PAUSE_S = 0.002
SLOWED_FROM_BYTES = 2 << 30


class Control:
    """A connection to one job's shim."""

    def __init__(self, home: str, job_id: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(f"{home}/jobs/{job_id}/ctl")
        self._answers = self._socket.makefile("rb")

    def log_end(self) -> int:
        self._socket.sendall(b'{"op": "status"}\n')
        end: int = json.loads(self._answers.readline())["end"]
        return end

    def answer_ms(self) -> float:
        began = time.perf_counter()
        self.log_end()
        return (time.perf_counter() - began) * 1000


def measure(jobs: Jobs, home: str, command: str, is_ready: Callable[[int], bool], requests: int) -> str:
    job_id = jobs.execute(command).id
    control = Control(home, job_id)
    while not is_ready(control.log_end()):
        time.sleep(PAUSE_S)
    answers_ms = []
    for _ in range(requests):
        answers_ms.append(control.answer_ms())
        time.sleep(PAUSE_S)
    jobs.kill(job_id, grace_s=0)
    cuts = statistics.quantiles(answers_ms, n=100)
    return f"p50 {cuts[49]:7.2f} ms   p95 {cuts[94]:7.2f} ms   most {max(answers_ms):7.2f} ms"


def main(requests: int) -> None:
    with tempfile.TemporaryDirectory() as home:
        jobs = open_jobs({**os.environ, "BGJOB_HOME": home})
        rows: dict[str, tuple[str, Callable[[int], bool]]] = {
            "silent": ("sleep 1000", lambda _end: True),
            "prints": ("yes", lambda end: end > 0),
            "slowed down": ("yes", lambda end: end > SLOWED_FROM_BYTES),
        }
        for name, (command, is_ready) in rows.items():
            print(f"{name:12} {measure(jobs, home, command, is_ready, requests)}", flush=True)
        jobs.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else REQUESTS)

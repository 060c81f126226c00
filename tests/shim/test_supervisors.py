"""The supervisors of a job, found in the process table: they are signalled, and no process of the job is."""

import subprocess
import sys
from pathlib import Path

from bgjob.link.supervisors import Identity, Supervisors
from tests.support.requires import linux_only

JOB_ID = "00000000-0000-4000-8000-000000000000"
SHIM_BEFORE_EXEC = """
import os, signal, sys
from bgjob.system import processes
signal.signal(signal.SIGHUP, lambda *_: os.write(1, b"SIGHUP\\n"))
processes.set_process_name(processes.SHIM)
child = os.fork()
if child == 0:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.write(1, b"ready\\n")
    os.read(0, 1)
    os._exit(0)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), flush=True)
"""


@linux_only
def test_a_job_that_is_not_exec_ed_yet_is_not_taken_for_its_shim(tmp_path: Path) -> None:
    """It has its shim's name and its directory until then; a SIGHUP would end it."""
    shim = subprocess.Popen(
        [sys.executable, "-c", SHIM_BEFORE_EXEC], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with shim:
        assert shim.stdin is not None
        assert shim.stdout is not None
        assert shim.stdout.readline() == b"ready\n"
        with Supervisors(Identity(JOB_ID, str(tmp_path), list)) as found:
            assert found.were_found
            found.wake()
        assert shim.stdout.readline() == b"SIGHUP\n"
        shim.stdin.close()
        assert shim.stdout.readline() == b"0\n"

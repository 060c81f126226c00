"""The launch file: what to run, in which environment and with which umask.

The starter hands it over as a descriptor: of a file in memory, or, for a queued job, of the file in the job's
directory. It is read at each start of the job and forgotten after the last: an environment may hold secrets.
"""

from __future__ import annotations

import json
import marshal
import os

from bgjob.home import jobdir

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bgjob.home.jobdir import Record
    from bgjob.shim.handoff import Inherited


def read(fd: int) -> tuple[Record, dict[str, str]]:
    """The spec, and the environment."""
    data = os.pread(fd, os.fstat(fd).st_size, 0)
    if data.startswith(b"{"):  # from a server that was started before an upgrade
        return spec_on_disk(), json.loads(data)
    spec, environment, *_ = marshal.loads(data)
    return spec, environment


def read_umask(fd: int) -> int:
    """The umask of the process that queued the job."""
    umask: int = marshal.loads(os.pread(fd, os.fstat(fd).st_size, 0))[2]
    return umask


def forget(inherited: Inherited) -> None:
    """Emptied, not just closed: the guard has this descriptor too."""
    if inherited.launch_file < 0:
        return
    try:
        os.ftruncate(inherited.launch_file, 0)
    except OSError:
        pass  # a server from before an upgrade may have handed over a descriptor that is read-only
    os.close(inherited.launch_file)
    inherited.launch_file = -1


def spec_on_disk() -> Record:
    spec = jobdir.read_record(jobdir.SPEC)
    if (
        spec is None
        or not isinstance(spec.get("id"), str)
        or not isinstance(spec.get("max_output_bytes"), int)
    ):
        raise OSError("no readable spec")
    return spec

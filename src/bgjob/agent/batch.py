"""The batch script of a cluster's job: what runs on the node, below the cluster's own process.

    run-job ROOT ID      makes the job that is asked for in ROOT/requests/ID, waits for it, ends as it ended
    hold ROOT SECONDS    holds the allocation: agents start jobs through it, see link.hold; ends when so long idle

The job is made here, on its node: its home, boot and locks are those of this machine.
"""

import contextlib
import os
import sys
import time
from collections.abc import Mapping
from typing import Any

from bgjob.agent.allocation import on_node, variables_of_allocation
from bgjob.agent.below import Below
from bgjob.agent.busy import linger
from bgjob.agent.host import own_environ
from bgjob.api.context import Context, checked_settings
from bgjob.api.start_once import start_once
from bgjob.core.config import environment_for_jobs, own_variables, settings_from
from bgjob.core.errors import BgjobError
from bgjob.home import jobdir
from bgjob.link.hold import Hold
from bgjob.link.spawn import SpawnerBelow, start_zygote_below
from bgjob.remote.codec import pack_error
from bgjob.remote.shared_root import LOG, TAKEN, home_of, request_of
from bgjob.store.config_file import read_config_file
from bgjob.store.store import Store
from bgjob.system.own_argv import PACKAGE_ROOT

# As a shell tells it: the command could not be run.
NO_CODE, SIGNAL_CODE = 127, 128
LOOK_EVERY_S = 1.0


def main(arguments: list[str]) -> None:
    below = Below()
    environ = _own_environ()
    with contextlib.suppress(OSError, KeyError):
        os.utime(PACKAGE_ROOT)  # our code is in use
        os.chdir(environ["HOME"])  # where a job runs that names no directory, as by ssh
    verb, root, word = arguments
    code = hold(below, root, float(word), environ) if verb == "hold" else run_job(below, root, word, environ)
    sys.stdout.flush()
    os._exit(code)


def _own_environ() -> dict[str, str]:
    """Without the settings of a server that submitted us: they are about its own machine."""
    foreign = own_variables(os.environ) | {"BGJOB_HOME", "BGJOB_ID"}
    return {name: value for name, value in own_environ(os.environ).items() if name not in foreign}


def _node(environ: Mapping[str, str]) -> str:
    return environ.get("SLURMD_NODENAME") or os.uname().nodename


# -- one job -------------------------------------------------------------------------------------------


def run_job(below: Below, root: str, job_id: str, environ: Mapping[str, str]) -> int:
    """The exit code of the job, or 128 + the signal that ended it."""
    request_path, home = request_of(root, job_id), home_of(root, _node(environ))
    request = _taken(request_path)
    if request is None:
        print(f"bgjob: the request {job_id} was withdrawn, or taken by another job", file=sys.stderr)
        return 0
    record: dict[str, Any] = {"engine_id": environ.get("SLURM_JOB_ID"), "node": _node(environ)}
    try:
        _make(below, home, job_id, request, environ)
    except (BgjobError, OSError) as error:
        record["error"] = pack_error(error)
        print(f"bgjob: {error}", file=sys.stderr)
    jobdir.write_record(request_path + TAKEN, record)
    below.wait_for_all()
    if "error" in record:
        return 1
    linger(f"{home}/jobs/{job_id}")
    _remove_if_empty(request_path + LOG)
    return _code(jobdir.read_record(f"{home}/jobs/{job_id}/{jobdir.OUTCOME}") or {})


def _taken(path: str) -> dict[str, Any] | None:
    """The request, which nobody else can take now. None: it is not there."""
    try:
        os.rename(path, path + TAKEN)
    except FileNotFoundError:
        return None
    return jobdir.read_record(path + TAKEN)


def _make(
    below: Below, home: str, job_id: str, request: Mapping[str, Any], environ: Mapping[str, str]
) -> None:
    settings = on_node(checked_settings(environ, read_config_file(environ)))
    context = Context.of(Store(home), settings, environ, SpawnerBelow())
    if not below.is_stopping:
        start_once(context, request["command"], **{**(request.get("asked") or {}), "id": job_id})


def _remove_if_empty(path: str) -> None:
    with contextlib.suppress(OSError):
        if os.stat(path).st_size == 0:
            os.unlink(path)


def _code(outcome: Mapping[str, Any]) -> int:
    code, number = outcome.get("exit_code"), outcome.get("signal")
    if code is not None:
        return int(code)
    return SIGNAL_CODE + int(number) if number else NO_CODE


# -- a held allocation ---------------------------------------------------------------------------------


def hold(below: Below, root: str, idle_s: float, environ: Mapping[str, str]) -> int:
    """Until SIGTERM comes, or no job has run for so long."""
    home = home_of(root, _node(environ))
    Store(home)
    held = Hold(home, environ["SLURM_JOB_ID"], variables_of_allocation(environ))
    inherited = _visible_to_jobs(environ)
    used_at = time.monotonic()
    while not _is_at_end(below, held, used_at + idle_s):
        if below.wait(LOOK_EVERY_S, held.listener):
            for starter in held.accepted():
                start_zygote_below(starter.fileno(), inherited)
        below.reap()
        if below.shims():
            used_at = time.monotonic()
    held.remove()
    return 0


def _visible_to_jobs(environ: Mapping[str, str]) -> dict[str, str]:
    try:
        settings = checked_settings(environ, read_config_file(environ))
    except BgjobError:
        settings = settings_from({})  # the start of a job here fails with the same error
    return environment_for_jobs(environ, settings)


def _is_at_end(below: Below, held: Hold, idle_until: float) -> bool:
    """No job runs, and from now on none can be started: in this order, as one may have been started just now."""
    if not below.is_stopping and time.monotonic() < idle_until:
        return False
    if held.close_for_good() and not below.shims():
        return True
    if not below.is_stopping:
        held.reopen()
    return False

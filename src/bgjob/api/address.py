"""The address at which a job can be opened in a browser."""

from bgjob.api.activity import Listening, listening_ports
from bgjob.api.context import Context
from bgjob.api.processes import processes_of
from bgjob.core.errors import BgjobError
from bgjob.core.job import Queued

# At these a process listens for this machine, or for every network that it is in.
HERE = ("0.0.0.0", "::", "127.0.0.1", "::1", "::ffff:127.0.0.1")


class NoAddress(BgjobError):
    def __init__(self, job_id: str, why: str) -> None:
        super().__init__(f"Job {job_id} cannot be opened: {why}.")


def address_of(context: Context, job_id: str, port: int | None = None) -> str:
    """Of the port, or of the lowest that the job listens on. NoAddress: it listens on none, or not on that."""
    job = context.store.load(job_id)
    if job.spec.target:
        raise NoAddress(job_id, _why_elsewhere(context, job.spec.target, port))
    pids = processes_of(context, job)
    if not pids:
        raise NoAddress(job_id, "it waits in the queue" if isinstance(job.state, Queued) else "it has ended")
    listening = listening_ports(pids)
    if listening is None:
        raise NoAddress(
            job_id, "on which ports it listens cannot be seen here; give the port to your browser"
        )
    chosen = next((each for each in listening if port in (None, each.port)), None)
    if chosen is None:
        raise NoAddress(job_id, _why_not(listening, port))
    return f"http://{_host(chosen.address)}:{chosen.port}"


def _why_elsewhere(context: Context, name: str, port: int | None) -> str:
    target, number = context.targets.get(name), port or "PORT"
    way = (
        f": ssh -L {number}:localhost:{number} {target.host} brings a port here"
        if target and target.host
        else ""
    )
    return f"it runs on {name}, whose ports are not open on this machine{way}"


def _why_not(listening: list[Listening], port: int | None) -> str:
    ports = ", ".join(map(str, sorted({each.port for each in listening})))
    return f"it does not listen on {port}, but on {ports}" if ports else "it listens on no port"


def _host(address: str) -> str:
    if address in HERE:
        return "localhost"
    return f"[{address}]" if ":" in address else address

"""What a relay asks of a target, whatever the target is; and what all of them do at the end of a job."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from bgjob.core.targets import Target
from bgjob.remote.channel import Channel, Order
from bgjob.remote.host import Host
from bgjob.remote.messages import said
from bgjob.remote.replica import Replica

CLUSTER = ""
"""The key of jobs that are on no node yet: their cluster is reached by one machine, e.g. its login node."""
CONNECT_PATIENCE_S = 30.0
ANSWER_PATIENCE_S = 20.0

Note = Callable[[str, str | None], None]
"""Of a machine of the target, by its key: why it cannot be reached; None: it can."""
Forget = Callable[[Replica], None]
"""Nothing more will come of the job, or its target has refused it."""


class Engine(Protocol):
    async def start(self, replica: Replica) -> None:
        """TargetUnreachable: nothing was sent. Another BgjobError: the target refuses the job.

        It also returns if the answer is lost on its way, as the job is then queried again by its id, and if the job
        was killed while it waited, as nothing is sent then.
        """

    async def check(self, start: Mapping[str, Any], resources: Mapping[str, Any]) -> None:
        """Raise BgjobError if it cannot be reached or would refuse this start. Nothing is started."""

    async def follow(self, replica: Replica) -> None:
        """A job of an earlier relay: it may be anywhere between its request and its end."""

    def host_of(self, replica: Replica) -> Host | None:
        """From which the job is copied. None: the job is on no machine yet."""

    def steered_through(self, replica: Replica) -> Host | None:
        """By whose connection it is typed into and asked: one that lasts as long as the job, if there is one."""

    async def kill(self, replica: Replica, words: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answered once nothing of the job is left, with its status and the number of its processes."""

    async def drop(self, replica: Replica) -> None:
        """Release what the job was given: it is over, because it was never sent or is given up."""

    async def check_entry(self) -> None:
        """Raise TargetUnreachable if no job could start with its entry in the file: home, python, partition.

        Also asked of an engine without jobs, beside the one that has them: no news is taken from their host.
        """

    async def info(self) -> Mapping[str, Any]: ...

    async def close(self) -> None: ...


def order_of(target: Target) -> Order:
    """What an agent of this target is started with."""
    home = {"BGJOB_HOME": target.home} if target.home else {}
    return Order(target=target.name, environ={**target.settings, **home}, python=target.python)


async def request_start(replica: Replica, channel: Channel) -> None:
    """Asked twice it is the same job: by its id. BgjobError: its machine refuses it."""
    request = replica.request
    if replica.phase != "submitting" or replica.is_over:
        return
    if request is None:
        return replica.lose("what was asked of its target is gone, and whether it was started is not known")
    replica.sending()
    answer = await channel.call("start", id=replica.id, **request["start"])
    known = {name: answer["spec"].get(name) for name in ("cwd", "shell")}
    replica.accepted(phase="queued" if answer["queued"] else "running", **known)


def note_end(host: Host, replica: Replica, news: Mapping[str, Any]) -> bool:
    """Record what the machine has told of the job's end. True: nothing more will come of the job."""
    if news.get("missing"):
        replica.lose(f"its records on {host.name} are gone")
    elif news.get("lost"):
        replica.lose(said(host.target, news["lost"]))
    else:
        return bool(news.get("over"))
    return True

"""An agent in a step of Slurm: what it starts itself would end with its step, so it starts jobs through a holder.

Slurm decides how many jobs run on a node: the slots of the home there are no limit. A watcher or a command for
events would end with the step, too: those are the near end's.
"""

from collections.abc import Mapping

from bgjob.api.context import Context
from bgjob.core.config import Settings
from bgjob.core.frozen import replace
from bgjob.link.hold import environ_of, path_of
from bgjob.link.spawn import SpawnerInHold

MOST_JOBS = 1000
# The name of no allocation.
NO_HOLD = "none"
# What tells a process which allocation it is in, and what of the machine is its own.
OF_ALLOCATION = ("SLURM", "CUDA_", "NVIDIA_", "GPU_", "ROCR_", "HIP_", "ZE_", "TMPDIR")


def is_in_step(environ: Mapping[str, str]) -> bool:
    """By srun, beside what runs in the allocation."""
    return "SLURM_JOB_ID" in environ and "SLURM_STEP_ID" in environ


def on_node(settings: Settings) -> Settings:
    return replace(settings, max_jobs=MOST_JOBS, on_event=None)


def in_step(context: Context) -> Context:
    """Starts nothing: `in_hold` does."""
    return in_hold(replace(context, settings=on_node(context.settings)), NO_HOLD)


def in_hold(context: Context, allocation: str) -> Context:
    """Starts jobs below the process that holds this allocation, which is on this machine."""
    path = path_of(context.store.home, allocation)
    own = {name: value for name, value in context.environment.items() if not name.startswith(OF_ALLOCATION)}
    return replace(context, spawner=SpawnerInHold(path), environment={**own, **environ_of(path)})


def variables_of_allocation(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name.startswith(OF_ALLOCATION)}

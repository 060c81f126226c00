"""Which tests share a worker: those that use the same cluster, whatever file they are in. A cluster is dear."""

import re
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from tests.clusters.installed import PROGRAMS

SLOWEST = ("ray", "slurm", "test_network", "test_starts", "test_killed", "ssh", "local")
PARAMETERS = re.compile(r"\[(.*)\]$")


class ByEngine(LoadScopeScheduling):  # type: ignore[misc]
    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def group_of(nodeid: str) -> str:
    """The engine that the test is run on, by its parameter or the name of the file; or else the file."""
    file, _, name = nodeid.partition("::")
    parameters = PARAMETERS.search(name)
    words = {*(parameters[1].split("-") if parameters else ()), *Path(file).stem.split("_")}
    return next((engine for engine in PROGRAMS if engine in words), Path(file).stem)

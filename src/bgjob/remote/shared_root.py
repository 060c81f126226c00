"""The directory that all nodes of a cluster see, and the login node too: what is where in it.

    code/<hash>/          our code, unpacked, for each version that is in use
    nodes/<node>/         a home per node: pids, locks and sockets in a home are those of one machine
    requests/<id>         a job that is to be made, with its environment, closed to others; see agent.batch
    requests/<id>.taken   which job of the cluster has made it, on which node, or why it could not
    requests/<id>.log     what was printed there before, instead of and after the job; empty if all went well

Who takes a request renames it: of two jobs of the cluster with one request, one makes the job.
"""

NODES, REQUESTS = "nodes", "requests"
# Of an agent, if it is set: the home that it is to read is another machine's.
ELSEWHERE = "BGJOB_ELSEWHERE"
TAKEN, LOG = ".taken", ".log"


def home_of(root: str, node: str) -> str:
    return f"{root}/{NODES}/{node}"


def request_of(root: str, job_id: str) -> str:
    return f"{root}/{REQUESTS}/{job_id}"

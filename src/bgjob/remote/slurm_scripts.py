"""What is run on the login node, one round trip each.

Each script is one line: it may go through a login shell of any kind, and in some a quoted text has no newlines.
"""

import shlex

from bgjob.core.slurm import NEVER, OF_A_SUM
from bgjob.remote.archive import code_name
from bgjob.remote.loader import expanded

NO_DIRECTORY, IMPOSSIBLE, UNKNOWN = 10, 11, 12
SQUEUE = ("squeue", "--me", "--noheader", "--all", "--states=all")
LOG_BYTES = 2000
NEW = ("python3", "python3.14", "python3.13", "python3.12", "python3.11")
OLD = ("python3.10", "python3.9")
BATCH_CODE = (
    "import sys; sys.path.insert(0, sys.argv[1]); from bgjob.agent.batch import main; main(sys.argv[2:])"
)


def shell(script: str, *arguments: str) -> list[str]:
    return ["sh", "-c", script, "sh", *arguments]


def _find(states: str) -> str:
    """Sets $number to Slurm's number of the job with this comment; empty if there is none."""
    squeue = f"squeue --me --noheader --all --states={states} -O Comment:100,JobID:20"
    first = "awk -v ours=\"$comment\" '$1 == ours { print $2; exit }'"
    return f'known=$({squeue}) || exit {UNKNOWN}; number=$(echo "$known" | {first});'


# A job is not refused because a node is down, which may come back, nor by a controller that was just started and
# does not know its nodes yet.
_TRY = (
    'why=$(sbatch --test-only "$@" 2>&1 < /dev/null) || case $why in *"down, drained"*|*"are busy"*) ;; '
    "*) case $(sinfo --noheader --format=%t) in *unk*) "
    f'echo "Slurm was just started, and does not know all of its nodes yet" >&2; exit {UNKNOWN};; esac; '
    f'echo "$why" >&2; exit {IMPOSSIBLE};; esac; '
)
# Slurm accepts some jobs that can never run, and shows that only as the reason why they are pending.
_SBATCH = (
    f"{_TRY}"
    'number=$(sbatch --parsable "$@" < /dev/null) || exit $?; number=${number%%;*}; '
    'why=$(squeue --noheader --states=PENDING --jobs="$number" -O Reason:80 2> /dev/null | tr -d " "); '
    f"case $why in {'|'.join(OF_A_SUM)}) ;; {'|'.join(NEVER)}) "
    f'scancel "$number"; echo "$why" >&2; exit {IMPOSSIBLE};; esac; echo "$number"'
)
_TELL = 'if [ -n "$number" ]; then echo "$number"; exit; fi;'

# ROOT ID COMMENT FLAG…, and the request on stdin. It is there, or taken, if an earlier call was cut: what of that was
# heard?
SUBMIT = (
    "umask 077; requests=$1/requests; request=$requests/$2; comment=$3; shift 3; "
    f'mkdir -p "$requests" || exit {NO_DIRECTORY}; '
    f'if [ -e "$request" ] || [ -e "$request.taken" ]; then {_find("all")} {_TELL} fi; '
    'if [ -e "$request.taken" ]; then cat "$request.taken"; exit; fi; '
    f'[ -e "$request" ] || {{ cat > "$request.$$" && mv "$request.$$" "$request"; }} || exit {NO_DIRECTORY}; '
    f"{_SBATCH}"
)
# ROOT COMMENT FLAG…
HOLD = (
    f'umask 077; mkdir -p "$1/requests" || exit {NO_DIRECTORY}; comment=$2; shift 2; '
    f"{_find('PENDING,CONFIGURING,RUNNING,SUSPENDED')} {_TELL} {_SBATCH}"
)
# ROOT FLAG…
CHECK = (
    'umask 077; mkdir -p "$1/requests" && mkdir "$1/requests/$$.check" && rmdir "$1/requests/$$.check" '
    f"|| exit {NO_DIRECTORY}; shift; {_TRY}"
)
# COMMENT. All that have it: there may be two, if a call was cut
CANCEL = (
    "comment=$1; known=$(squeue --me --noheader --all -O Comment:100,JobID:20) "
    f'|| exit {UNKNOWN}; numbers=$(echo "$known" | awk -v ours="$comment" \'$1 == ours {{ print $2 }}\'); '
    '[ -z "$numbers" ] || exec scancel $numbers'
)
# NUMBER: how its jobs ended, and who cancelled them; empty without accounting
ENDED = 'sacct --noheader --parsable2 --allocations --jobs="$1" --format=State 2> /dev/null; exit 0'
# REQUEST
FORGET = 'rm -f "$1" "$1.taken" "$1.log"'
# REQUEST: a line of JSON, or an empty one; then the log
TAKEN = f'cat "$1.taken" 2> /dev/null; echo; tail -c {LOG_BYTES} "$1.log" 2> /dev/null; exit 0'
# REQUESTS ID…: of each that was taken, its id and a line of JSON
ALL_TAKEN = (
    'cd "$1" || exit 0; shift; for id; do if [ -e "$id.taken" ]; then echo "$id $(cat "$id.taken")"; fi; done'
)
# COLUMNS: nodes, then the length of the queue
INFO = (
    'sinfo --noheader --Node -O "$1" || exit 1; '
    "waiting=$(squeue --noheader --all --array --states=PENDING -o %i) || exit 1; "
    'if [ -n "$waiting" ]; then echo "$waiting" | wc -l; else echo 0; fi'
)


def batch(python: str | None, root: str, *words: str) -> str:
    """The batch script: finds a Python of the node, and becomes it.

    The shared directory has our code as the login node needs it, at least: for 3.11, or lowered for 3.9.
    """
    run = shlex.join(["-I", "-S", "-c", BATCH_CODE])
    become = (
        'become() { least=$1; code=$2; shift 2; [ -d "$code" ] || return 0; for python; do '
        'if "$python" -I -S -c "import sys; sys.exit(sys.version_info < (3, $least))" 2> /dev/null; '
        f'then exec "$python" {run} "$code" {shlex.join(words)}; fi; done; }}'
    )
    lines = [
        f"become {least} {shlex.quote(f'{root}/code/{code}')} {expanded(python) if python else ' '.join(pythons)}"
        for least, code, pythons in ((11, code_name(), NEW), (9, code_name(lowered=True), (*NEW, *OLD)))
    ]
    return (
        f'{become}; {"; ".join(lines)}; echo "bgjob: there is no Python of 3.11 or newer here" >&2; exit 127'
    )

"""The verbs that every face uses: functions on a Context, and `Jobs`, which has them as methods.

The faces import this folder; it imports everything below but the shim. A command that needs few verbs imports
the files that have them; the names that this file exports are imported when they are first used.

    context         what every verb is given: store, settings, environment, spawner
    jobs            the verbs as methods of one object
    connect         a connection to a job's shim, or to its guard
    shim_wait       woken by a shim when the job prints or ends
    snapshot        a job and its log, as they were at one moment
    execute         run a command: start it or find it running, and wait for it
    spec            what a caller asks for, checked, as the spec of a job
    start           start a job, now or in its turn
    start_once      ... with an id of its caller's, who may ask twice
    rerun           a job again, as a new job
    find            the job that is meant by an id, a name or the beginning of one
    job_words       what jobs are called, for completion
    filter          which jobs a person asks for
    status          how a job stands; a page of jobs
    job_json        a job as JSON
    status_json     ... and how it stands
    survey          all jobs in the order in which they matter to a person
    last_look       what has ended since a person last looked
    processes       the processes of a job, its shim and its guard
    prompt          whether a job waits for input, and sits at a prompt
    activity        what processes do: CPU, memory, ports
    meter           CPU and memory of a job over time
    address         where a job is opened in a browser
    idle            how long a job has run and been silent
    hints           what may help a caller, and the job does not say
    output          what a job printed: all, the last lines, as it comes
    follow          what jobs print, as it comes
    screen          the screen of a job on a terminal
    terminal_feed   what the terminal of an attached person is fed with
    terminal_state  a terminal as it stands, for who looks at it live
    preview         what a job shows who looks at it from afar
    preview_reader  a thread that reads that again when it changes
    read            what a job printed, and how it stands
    search          lines that match, in one job or all
    lines           lines of a log around a place, and those that match
    wait            wait until conditions come true
    kept_waits      waits that go on when their call has been answered
    missed          what came true while nobody waited
    conditions      what a wait is for, and whether it has come true
    interact        type into a job
    feed            bytes of any number into a job
    audit           the audit trail: kills, signals, typing, refusals, logins
    attach          a person in a job: live output, keys, size
    hold            while a person types, nobody else does
    kill            end a job
    kill_many       end several at once
    remove          remove ended jobs
    signal          send it one signal, and no more
    pause           stop a job, and continue it
    queue           places in the queue: tell, move, cancel
    changes         what has changed since the last look, of jobs of any server
    live            all jobs as they stand, looked at again and again
    live_reader     a thread that keeps that up to date
    arrangement     its rows, sorted and filtered
    events          what happened to jobs since a cursor
    event_words     an event in a few words
    remote          jobs of targets: started, killed and asked for there
    targets         other machines as they stand: what is free there, whether they answer
    target_nodes    ... their machines in the same words, whatever the engine calls things
    target_advice   ... what to do where one cannot be used
    session         the session of a caller, which is told once of each end
    news            the line about jobs that ended since a session was last told
    news_gate       whether a job has ended since the last look for news
    notify          the rules by which a person is told of jobs: for the command line
    doctor          what of this machine can be used, and what is missing
    doctor_machine  ... of kernel and environment
    doctor_home     ... of the home
    results         what the verbs answer
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bgjob.api.conditions import Conditions
    from bgjob.api.execute import IfRunning
    from bgjob.api.interact import Typed
    from bgjob.api.jobs import Jobs, open_jobs
    from bgjob.api.output import FEW_TOKENS, Shown, View
    from bgjob.api.results import (
        Chunk,
        EventPage,
        Executed,
        Found,
        FoundInJob,
        Interaction,
        JobEvent,
        JobStatus,
        Kill,
        KillWord,
        Match,
        Output,
        Page,
        Picture,
        Reading,
        Waited,
    )
    from bgjob.api.spec import absolute
    from bgjob.api.wait import Cancellation, Mode
    from bgjob.home.home_dir import home_from

__all__ = [
    "FEW_TOKENS",
    "Cancellation",
    "Chunk",
    "Conditions",
    "EventPage",
    "Executed",
    "Found",
    "FoundInJob",
    "IfRunning",
    "Interaction",
    "JobEvent",
    "JobStatus",
    "Jobs",
    "Kill",
    "KillWord",
    "Match",
    "Mode",
    "Output",
    "Page",
    "Picture",
    "Reading",
    "Shown",
    "Typed",
    "View",
    "Waited",
    "absolute",
    "home_from",
    "open_jobs",
]

_ELSEWHERE = {
    "Conditions": "api.conditions",
    "IfRunning": "api.execute",
    "Typed": "api.interact",
    "Jobs": "api.jobs",
    "open_jobs": "api.jobs",
    "FEW_TOKENS": "api.output",
    "Shown": "api.output",
    "View": "api.output",
    "absolute": "api.spec",
    "Cancellation": "api.wait",
    "Mode": "api.wait",
    "home_from": "home.home_dir",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"bgjob.{_ELSEWHERE.get(name, 'api.results')}"), name)
    globals()[name] = found  # the next use finds it here
    return found

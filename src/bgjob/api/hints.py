"""What may help a caller, and the job does not say: which port was taken, what it has left running."""

import re

from bgjob.core.job import SHORT_ID_CHARACTERS, Exited, State, end_details, reason
from bgjob.core.late_pattern import late_pattern
from bgjob.home.jobdir import how_ended

NO_AMPERSAND = "Do not end a command with & or nohup: a job is in the background already."

_IN_USE = late_pattern(
    r"EADDRINUSE|address already in use|port (?:\d+ )?is (?:already )?(?:in use|allocated|taken)|"
    r"only one usage of each socket address|bind: .*in use",
    re.IGNORECASE,
)
_PORT = late_pattern(r"(?:port[ =:]*|:::|[\w\])]:|\()(\d{2,5})\b", re.IGNORECASE)
_NUMBER = late_pattern(r"(?<![\w.])\d{2,5}(?![\w.])")
LAST_PORT = 65535
COMMANDS = {
    "search_job_output": "bgjob grep",
    "kill_job": "bgjob kill",
    "list_jobs": "bgjob ps",
    "get_job_status": "bgjob status",
}
# A command with more numbers does not tell which one is its port.
MOST_NAMED = 10


def with_commands(hint: str) -> str:
    """For a person: commands of the command line in place of tools."""
    for tool, command in COMMANDS.items():
        hint = hint.replace(tool, command)
    return hint


def still_running(state: State, count: int) -> str:
    """What to do about processes that an ended job has left; empty if there are none."""
    if not count:
        return ""
    whose = "1 process of it still runs: kill_job ends it."
    if count > 1:
        whose = f"{count} processes of it still run: kill_job ends them."
    return f"{whose} {NO_AMPERSAND}" if isinstance(state, Exited) else whose


def unrecorded_end(state: State) -> str:
    """Say how a job ended, and why its shim cannot record that, in words that follow "it"."""
    return f"{how_ended(end_details(state))}; {reason(state) or 'this end cannot be recorded'}"


def out_of_reach(job_id: str) -> str:
    """Return the advice for a job whose machine does not answer."""
    return (
        "This does not end the job: try again later. If its machine will never answer again, "
        f"`bgjob kill --give-up {job_id[:SHORT_ID_CHARACTERS]}` records the job as lost."
    )


def ports_in_question(last_words: str, command: str) -> set[int]:
    """The port that a server could not have, if the text complains of that; else what its command may name."""
    complaints = [line for line in reversed(last_words.splitlines()) if _IN_USE.search(line)]
    for line in complaints:
        if ports := [int(text) for text in _PORT.findall(line) if int(text) <= LAST_PORT]:
            return {ports[-1]}
    named = (
        {int(text) for text in _NUMBER.findall(command) if int(text) <= LAST_PORT} if complaints else set()
    )
    return named if len(named) <= MOST_NAMED else set()

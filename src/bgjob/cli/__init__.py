"""The command line: parse, call the api, print. What is not needed by a command is not imported by it.

It parses and renders, and decides nothing. No other folder imports it.

What every command uses:

    verbs          every command, its file, and what it is for
    commands       does what was typed, and tells errors
    parser         what can be typed after `bgjob`
    arguments      values of arguments
    chosen         which jobs a person means
    confirm        asks before what cannot be undone
    done           what became of each of several jobs
    ourselves      who we are, for the record of a job
    streams        stdin, stdout and stderr of the command
    words          errors in the words of the command line
    outcome        how a job ended: in a word, in a sentence, as an exit code
    amounts        times, sizes and shares as a person reads them
    as_json        JSON on a line
    colours        whether and how text is coloured
    labels         what jobs are called where lines of several are shown
    table          a table that fits the terminal
    repaint        a text that is painted again and again
    progress       what is waited for, in one line
    pager          shows the end of a text first
    browser        shows an address

The commands, and the parts of some:

    run            start a job, and perhaps stay with it
    run_options    what can be typed after `bgjob run`
    ps             a list of jobs
    columns        what the list says of each
    overview       bgjob alone: the state of things
    status         everything known of a job
    status_lines   ... in lines
    logs           what jobs printed
    follow         prints it until they have ended
    log_printer    bytes of one job, or labelled lines of several
    grep           lines in what jobs printed
    wait           until something comes true
    events         what happened to jobs
    send           type into a job
    kill           stop jobs
    signal         one signal; pause and resume
    restart        a job again, as a new job
    priority       move jobs within the queue
    open           the port of a job in the browser
    rm             remove ended jobs
    clean          remove old ones
    client         bgjob in MCP clients
    client_remove  ... taken out again
    client_check   ... and whether it works there
    targets        other machines that jobs run on
    target_lines   ... in lines
    notify         how a person is told of jobs
    config         each setting, and where it comes from
    doctor         what of this machine bgjob can use
    man            this command line as a man page
    man_page       ... in roff
    mcp            the MCP server, for a client to start
    serve          MCP over HTTP, and the page
    page           the page in the browser, logged in
    token          who may use it
    agent          the far half of jobs on another machine
    hook           tell a client's model that jobs have ended
    hook_command   ... by hand
    hook_prompts   its part that looks for jobs at a prompt
    hook_wait      its part that waits

Folders of their own: attach, top, completion.
"""

import gc
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from bgjob.cli import streams


def main(arguments: Sequence[str] | None = None) -> None:
    streams.secure()
    given = _default_command(sys.argv[1:] if arguments is None else list(arguments))
    if given == ["mcp"]:
        serve_mcp()  # clients start many servers: there is nothing to parse
    if given[:1] == ["hook"] and not {"-h", "--help"} & set(given) and not _is_terminal():
        run_hook(given[1:])  # clients run it at each turn, and usage errors would stop them
    from bgjob.cli.commands import exit_code

    code = exit_code(given)
    streams.abandon_unwritten()
    sys.exit(code)


def mcp_main() -> None:
    """The reference's command: client configurations written for it keep working."""
    main(["mcp", *sys.argv[1:]])


def _default_command(arguments: list[str]) -> list[str]:
    """One word is enough in a client's configuration: without a terminal we are the server."""
    if arguments:
        return arguments
    if not _is_terminal():
        return ["mcp"]
    return [] if sys.stdout.isatty() else ["--help"]


def _is_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def run_hook(arguments: Sequence[str]) -> NoReturn:
    """Ends the process at once: nothing is left to be written."""
    from bgjob.cli.hook import run

    os._exit(run(arguments, os.environ))


def serve_mcp() -> None:
    """Over stdin and stdout, until the client is gone; does not return."""
    if _is_terminal():
        from bgjob.cli.mcp import explain

        explain()
    gc.disable()  # the imports make only objects that stay: looking for garbage takes a tenth of the start
    from bgjob.mcp.server import serve

    gc.freeze()
    gc.enable()
    serve(os.environ)

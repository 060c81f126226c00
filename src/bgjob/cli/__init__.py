"""The command line: parse, call the api, print. What is not needed by a command is not imported by it.

It parses and renders, and decides nothing. No other folder imports it.

    commands      what each command does
    parser        what can be typed after `bgjob`
    serve         bgjob serve: MCP over HTTP
    token         bgjob token: who may use it
    client        bgjob client: make bgjob known to MCP clients
    client_table  the clients: their commands, their files
    table         a list of jobs that fits the terminal
    outcome       how a job ended: in a word, in a sentence, as an exit code
    words         errors in the words of the command line
    streams       stdin, stdout and stderr of the command
"""

import gc
import os
import sys
from collections.abc import Sequence

from bgjob.cli import streams


def main(arguments: Sequence[str] | None = None) -> None:
    streams.secure()
    given = _default_command(sys.argv[1:] if arguments is None else list(arguments))
    if given == ["mcp"]:
        serve_mcp()  # clients start many servers: there is nothing to parse
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
    return ["--help"] if sys.stdin is not None and sys.stdin.isatty() else ["mcp"]


def serve_mcp() -> None:
    """Over stdin and stdout, until the client is gone; does not return."""
    gc.disable()  # the imports make only objects that stay: looking for garbage takes a tenth of the start
    from bgjob.mcp.server import serve

    gc.freeze()
    gc.enable()
    serve(os.environ)

"""Does what was typed: the file of the command is found, run, and its errors are told in one line."""

import os

from bgjob.cli import streams
from bgjob.cli.streams import CannotPrint
from bgjob.core.errors import BgjobError

OUTPUT_FAILED = 74  # EX_IOERR of sysexits.h
INTERRUPTED = 130


def exit_code(arguments: list[str]) -> int:
    """Does what the arguments say; without any, shows the state of things."""
    try:
        done = _act(arguments)
        streams.flush()
        return done
    except BrokenPipeError:  # `bgjob logs x | head` ends quietly
        return 0
    except CannotPrint as problem:
        streams.complain(str(problem))
        return OUTPUT_FAILED
    except BgjobError as error:
        from bgjob.cli.words import in_our_words

        streams.complain(in_our_words(error))
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED


def _act(arguments: list[str]) -> int:
    if not arguments:
        from bgjob.cli.overview import show

        return show(os.environ)
    if arguments == ["--version"]:
        from bgjob.system.own_package import full_version

        return _print(f"bgjob {full_version()}")
    if arguments[:2] == ["completion", "--complete"]:  # by a shell, at each tab
        from bgjob.cli.completion.complete import answer

        return _print(answer(arguments[2:], os.environ))
    return _run(arguments)


def _print(text: str) -> int:
    streams.say(text)
    return 0


def _run(arguments: list[str]) -> int:
    from bgjob.cli.parser import parse  # here: what is above needs no parser

    try:
        module, options = parse(arguments)
        done: int = module.run(options, os.environ)
    except SystemExit as told:  # the help or the version, or what is wrong with the arguments
        return int(told.code or 0)
    return done

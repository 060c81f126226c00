"""bgjob man: this command line as a man page."""

import argparse
import shutil
import subprocess
import sys
from collections.abc import Mapping

from bgjob.cli import streams
from bgjob.cli.parser import all_parsers, help_text

SHOW = ("man", "-l", "-")


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    pass


def run(_options: argparse.Namespace, environ: Mapping[str, str]) -> int:
    """On a terminal it is shown; elsewhere, e.g. `bgjob man > bgjob.1`, it is printed as it is."""
    from bgjob.cli.man_page import man_page

    if not sys.stdout.isatty():
        streams.say(man_page().removesuffix("\n"))
    elif not _show(man_page(), environ):
        streams.say(_plain_text())
    return 0


def _show(page: str, environ: Mapping[str, str]) -> bool:
    """False: there is no man, or none that takes a page on stdin."""
    if not (man := shutil.which(SHOW[0], path=environ.get("PATH"))):
        return False
    return subprocess.run([man, *SHOW[1:]], input=page.encode(), check=False).returncode == 0


def _plain_text() -> str:
    return "\n\n".join([help_text(), *(parser.format_help() for _, _, parser in all_parsers())])

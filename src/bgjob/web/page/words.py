"""Errors in the words of the page: its buttons and fields in place of tools and arguments."""

from collections.abc import Mapping

from bgjob.core.errors import (
    AlreadyRunning,
    BgjobError,
    HeldByPerson,
    InUse,
    JobLimitReached,
    JobNotFound,
    NotSteerable,
    StdinIsNull,
    StoreFull,
    WorkingDirectoryGone,
)
from bgjob.mcp.answers import plain

ADVICE: Mapping[type[BgjobError], str] = {
    JobLimitReached: "Queue it, so that it starts when a job ends; or end one that runs.",
    StoreFull: "Wait for a job to end, or end one that runs.",
    JobNotFound: "It may have been removed: the list has the jobs that exist.",
    AlreadyRunning: "Use it, or choose what is to happen if one of this name runs.",
    InUse: "Kill it first.",
    StdinIsNull: "Start it again with an open stdin, or on a terminal.",
    HeldByPerson: "Open its terminal and take it over, or wait until they have left.",
    NotSteerable: "",
    WorkingDirectoryGone: "Give a directory that exists.",
}


def in_page_words(error: BgjobError) -> str:
    return str(plain(f"{error.what} {ADVICE.get(type(error), error.advice)}".rstrip()))

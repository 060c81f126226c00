"""A job with an id that its caller gives: however often it is asked for, it is started once.

A caller whose answer was lost, with its connection or its process, asks again.
"""

from typing import Unpack

from bgjob.api.context import Context
from bgjob.api.spec import Asked
from bgjob.api.start import prepared, start_prepared, started
from bgjob.core.job import Job


def start_once(context: Context, command: str, **asked: Unpack[Asked]) -> Job:
    """The job of this id as it is, if it is there; else it is started now. JobNotFound: it is no id.

    A job whose starter was killed before it could start anything is begun again.
    """
    store, job_id = context.store, asked["id"]
    with store.id_lock(job_id):  # of several callers at once, one starts it
        if not store.remove_unstarted(job_id):
            return store.load(job_id)
        return started(context, start_prepared(context, prepared(context, command, **asked)))

"""Lean: what is on disk, its names and formats, and the locks.

Readers and the shim meet only here. Standard library only, without dataclasses and typing at run time.

    layout          the directories of a home
    home_dir        a home that only we and root can change
    jobdir          one job's directory: the names of its files, and records written whole
    log_format      the log on disk
    log_writer      writes a job's log, bounded
    log_shares      what is kept of one stream when segments are deleted
    event_log       the events of a store: format and appending
    sessions        what a client's session has still to be told
    waits           waits that outlive their call
    queue_dir       the queue: order, launch files, how a job stands, the wake-up of the dispatcher
    slots           how many jobs may run at once
    locks           locks that are tried, never waited for
    watch_registry  the jobs that need a watcher, and starting it
    target_dir      the targets whose jobs are here, and starting their relays
    mtimes          a time as the mtime of a file
"""

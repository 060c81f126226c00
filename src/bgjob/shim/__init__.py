"""The shim: one small process per job that owns its child, stdin, log and end.

Nobody needs to be alive for it to go on. It meets the rest of bgjob in the job directory only, and is
standard library only: it is forked from a zygote, or started fresh, once per job.

    entry       how a shim comes to be
    supervise   one job, from its start to its outcome
    child       the process that is the job
    pump        its output, into the log
    feed        its stdin, from whoever steers
    stop        ending it, and all it started
    desk        the socket
    loop        the one place that waits
"""

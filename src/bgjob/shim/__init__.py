"""The shim: one small process per job that owns its child, stdin, log and end; and above it its guard.

Nobody else needs to be alive for them to go on. They meet the rest of bgjob in the job directory only, and are
standard library only: they are forked from a zygote, or started fresh, once per job.

    entry       how a shim comes to be, under its guard
    guard       sleeps, and goes on as the shim if that is killed
    duty        begins a job, or takes one over
    estate      all that is held for a job, and the will by which the guard comes to hold it too
    supervise   one job, from its start to its outcome
    limits      what it may use, and its end when it uses more
    child       the process that is the job
    confined    the same, bounded before it is exec'd
    pump        its output, into the log
    feed        its stdin, from whoever steers
    stop        ending it, and all it started
    desk        the socket
    herald      what happens to it, into the store's event log
    loop        the one place that waits
"""

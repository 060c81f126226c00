"""Lean: what the kernel tells, and what we ask of it.

Standard library only, without dataclasses and typing at run time, because the shim imports it; knows nothing
of jobs on disk.

    processes       the process table, signals, the boot
    cgroup          a job's control groups
    stdin_wait      whether a process waits for input
    nested_tty      the same behind a terminal that a process of the job has made
    prompt          whether a job that waits for input sits at a prompt
    inotify         wakes when something changes in a directory
    open_files      the limit of open files of a server, and that of its jobs
    waker           wakes a thread that sleeps in poll
    line_reader     lines from a descriptor
    outbox          lines for a reader that may be slow
    readiness       whether a descriptor becomes readable in time
    client_session  whose server or hook we are
    own_user        who runs us
    peer_users      which user is at the other end of a connection
    own_argv        the argv of our own processes
    own_package     the build of our package, and importing all of it before an upgrade replaces it
    detached        starts a process that is no descendant of ours
    allocation      the process above a shim that holds the allocation of an engine
    keeper          starts a worker process again when it is killed or fails
"""

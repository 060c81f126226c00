"""The shim: one small process per job that owns its child, stdin, log and end; and above it its guard.

No other process has to live for a job to go on. Shims meet the rest of bgjob in the job directory only.
They use the standard library only: they are forked from a zygote, or started fresh, once per job.

    entry            how shims are started: fresh, from a zygote, or from the queue
    guard            sleeps above a shim, and becomes the shim if that is killed
    lifecycle        begins a job, or takes one over, and runs it to its end
    launch_file      what to run, in which environment and with which umask
    handoff          the descriptors that are held for a job, and how the guard gets them too
    supervise        one job, from its start to its outcome
    phase            what a job is at: running, pausing between two runs, or over
    cause            why a run ended
    rerun            the pause after a run, and the start of the next
    outcome          how the job ended, on disk
    restarts         whether and when a job runs again, and what is known of its runs
    child            the process that is the job
    limited_child    the same, with limits set before it is exec'd
    limits           what a job may use, and its end when it uses more
    pump             the job's output, into the log
    stdin            the job's stdin, from clients
    stop             ends the job and all processes that it started
    control_server   the socket that clients connect to
    requests         what clients may ask
    viewers          people who are attached: who types, who holds the job
    terminal_size    the size of the job's terminal, now and at each byte of its log
    waiters          clients that wait for output, for a reply, or for the end
    settling         whether the job has worked off what was typed into it
    prompts          notices when the job sits at a prompt
    events           what happens to the job, into the event log of the home
    upkeep           keeps socket, directory, guard and control group in place
    loop             the one place where a shim waits
    dispatcher       starts queued jobs; a process of its own
    confined         an old name of limited_child
"""

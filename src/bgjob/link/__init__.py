"""The way to a job's shim: starting it, asking it, and finding it in the process table.

The verbs (api) import it; it meets the shim on disk, by sockets and by signals.

    spawn        hands a job to a shim: zygote, or a fresh interpreter
    control      one request to a shim's socket
    supervisors  the shim and guard of a job, found in the process table
    sweep        the processes that are left of a job without a shim
    hold         a held allocation: jobs that are started through it
"""

"""The gateway to a Ray cluster: a process of its own, the only one that imports Ray. Nobody imports this folder.

    __main__    the process: requests and channels, as JSON lines
    room        what is asked for: room for jobs
    leases      ... as placement groups and lease actors
    channels    pipes to agents on the nodes
    agents      ... through actors
    actors      what runs on the nodes, in workers of Ray
    held        ... and what it knows of leases
    threads     calls of Ray that block
    nodes       what the cluster has
    fit         requests in Ray's words, and why a node does not fit (pure)

Its code works on Python 3.10 too: a driver has the same minor version of Python as the cluster.
"""

"""Jobs of other machines: the near half. The far half is the folder `agent`.

The verbs (api) start the relay of a target, and ask it by its socket.

    client      asking the relay
    relay       the process: one per home and target
    replica     the copy of one job
    copied_log  ... of its log, bounded
    proxy       the control socket of that copy
    engine      what a relay asks of a target, whatever it is
    host        a machine of a target, kept connected
    background  work of a relay beside its calls
    ssh         a target that is one machine
    slurm_engine  a cluster with Slurm
    slurm       ... what is asked of it
    slurm_scripts  ... as scripts of its login node
    shared_root    ... what is where in the directory that its nodes share
    ray_engine  a Ray cluster
    ray         ... what is asked of it
    ray_process    ... the near end of its gateway
    command     running a program of a cluster
    pace        how often a cluster is asked
    transport   the commands that make a pipe to another machine
    channel     the near end of such a pipe
    codec       messages and errors, as lines
    messages    what may arrive from a host, and in which shape
    loader      the program that is sent first, and takes the rest
    bootstrap   ... that program
    archive     the code that travels
    lowering    that code for Python 3.9 and 3.10

Folders of their own: ray_gateway, a process that alone imports Ray; stand_ins, what older interpreters lack.
"""

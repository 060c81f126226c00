"""The far half of jobs on other machines: a process at the end of a pipe, that does what it is asked for.

It is a face, like the command line and the MCP server: it parses, calls the api and answers. Its messages are
in bgjob.remote.codec. It keeps nothing: when its pipe breaks, it finishes what it has begun and ends, and the
next one goes on.

    entry       what is run: the agent, by its arguments
    serve       calls and answers over stdin and stdout
    verbs       what can be called
    news        what is new of the jobs that are followed
    job_news    ... of one of them
    log_news    ... of its log
    tunnel      a connection to a job's socket
    host        what this machine is, and has
    batch       the batch script of a cluster's job
    below       ... the process above all jobs of its allocation
    busy        ... which ends when its agents have told all
    allocation  ... where agents start jobs through who holds it
"""

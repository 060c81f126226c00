"""A process of its own, one per store: watches of jobs, and commands for events.

The verbs (api) start it, and call its sweep while there is none.

    watcher  the process: keeper, loop, the watches of each job
    hooks    runs a command for each event
"""

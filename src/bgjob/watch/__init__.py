"""A process of its own, one per store: watches of jobs, commands for events, notices for people.

The verbs (api) start it, and call its sweep while there is none.

    watcher       the process: keeper, loop, the watches of each job
    event_runner  runs a process for each event, from a place that is kept
    ends          the lines by which the hooks of clients tell a model of ends
    hooks         runs a command for each event
    notifier      tells people of events, by the rules of the home
    notice        what a person is told of an event
    deliver       the process that delivers one notice: to a desktop, a terminal or a URL
"""

"""All jobs of a home, for those who read it: records to nouns, the order of jobs, and what is removed.

The verbs (api) and the watcher import it.

    store          making, loading and removing jobs
    index          the order of jobs, newest first
    elsewhere      the home of another machine, of which what has ended is read
    job_names      which jobs there are, looked at again only if that has changed
    records        from a job's files to its state
    record_schema  what records and events may hold
    retention      removes ended jobs that are too old or too many
    quota          the size limit of a store
    event_reader   reads the log of events
    notify_rules   who is told of jobs, and how far that has come
    config_file    reads the config file of the user
    targets_file   reads the file of targets
    row_file       a record of named rows that several processes change
    reconcile      adds the ends that no shim could record
"""

"""Pure: what a job is, what may be asked for, and what may run.

Touches no machine; every folder but the lean ones may import it.

    job           the nouns: a job, its spec, its states and ends
    errors        everything that can go wrong and is not a bug, as one tree
    config        the settings (MCP_BG_*), as one table, and which of its sources gives a setting
    config_file   the keys of the config file
    targets       other machines and clusters that jobs run on
    target_keys   the keys of their file
    target_trouble  why a target cannot be used, and the advice for each reason
    engine        what a cluster is asked for, and how a job stands there
    slurm         Slurm's words for that
    setting_values  parsers of settings
    options       the options of a job: limits, restarts, the queue, what a target is asked for, who is told
    notify        the ways to tell a person of jobs, and the rules for it
    values        parsers of numbers, sizes and words, for settings and options
    policy        which commands may run
    scopes        the rights that a token gives
    shell_reader  the simple commands of a shell text
    patterns      regular expressions on RE2
    late_pattern  regular expressions of ours that are compiled when they are first used
    linear_re     an engine for patterns where there is no google-re2
    frozen        frozen classes that cost a start nothing
"""

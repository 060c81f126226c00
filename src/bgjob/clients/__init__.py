"""The MCP clients of this machine, as bgjob is made known to them: their files, their commands, their hooks.

The command line uses it. It knows nothing of jobs.

    table          the clients: their commands, their files
    command        how they start this bgjob
    shown          a server of theirs, shown without its secrets
    run            their own commands, and their servers, run
    hooks          their hooks, in files of JSON
    plugin         the plugins of opencode and Claude Code
    settings_file  such files, edited
"""

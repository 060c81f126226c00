"""Measurements. `bench/run` holds bgjob against others, `bench/load` puts it under load; --help names them all.

__main__        arguments, order, exit status: the one way to start
tools | limits | peers      bench/run: each tool | what the machine allows | task-spooler, grep
crowd | soak | floods | checkouts       bench/load: many clients | ten minutes | much output | another checkout
lab             servers, rounds in turns, jobs waited for
processes | environments    the process table | virtual environments of the servers
report          rows, goals, the table
"""

"""Measurements. `bench/run` holds bgjob against others, `bench/load` puts it under load; --help names them.

__main__                    arguments, order, exit status: the one way to start
tools | limits | peers      bench/run: each tool | what the machine allows | task-spooler, grep
crowd | soak | floods       bench/load: many clients | ten minutes | much output
checkouts                   bench/load: start-up and memory against another checkout
agents                      a client that uses jobs, for crowd and soak
lab                         servers, rounds in turns, jobs waited for
processes | environments    the process table | virtual environments of the servers
report                      rows, goals, the table
"""

"""Measurements; --help of each command names them.

`bench/run` holds bgjob against others, `bench/load` puts it under load, `bench/agent` plays tasks of a model,
`bench/remote` runs jobs on other machines.

__main__                    arguments, order, exit status: the one way to start
tools | limits | peers      bench/run: each tool | exit, output, memory | task-spooler, grep
crowd | soak | floods       bench/load: many clients | ten minutes | much output
checkouts                   start-up against another checkout, and without .pyc files against a commit
command_line                what commands cost before they do anything
load_client                 a client that uses jobs, for crowd and soak
session | tasks             bench/agent: a model at a server | what a task costs it, the sums
tasks_output                tasks that wait: servers, tests, builds, progress
tasks_terminal              tasks at a prompt: interpreters, editors, menus
targets                     bench/remote: jobs of ssh hosts, Slurm and Ray against local ones
scale                       a relay with many machines; scale_relay is the relay, scale_agents plays the machines
lab                         servers, rounds in turns, jobs waited for
processes | environments    the process table | virtual environments of the servers
report                      rows, goals, the table
"""

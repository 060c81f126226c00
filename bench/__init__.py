"""Ours and the reference, measured side by side in one run. `bench/run --help` tells how.

compare         arguments, order, exit status
against_reference | against_limit      what is measured
lab             servers of both sides, interleaved rounds, the poll for a job's end
client | processes | environments      JSON-RPC on stdio, the process table, virtual environments
report          rows, goals, the table

queue           `python -m bench.queue`: 1,000 jobs through 8 slots, against task-spooler
load, soak      many clients and jobs at once | ten minutes of everyday life: `python -m bench.load --help`
workers | scenes        what they do        agents | stage | replicas   who does it, and where
findings | census | tables                  what came of it
"""

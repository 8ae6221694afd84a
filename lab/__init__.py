"""The laboratory of zmon: what tests and measures the monitor, and what measures the machines that it judges by.

`drills` plays faults and scores the diagnosis: `faults` causes them, `jobs` has the jobs that they strike, `stage` the
machines that both run on, `libraries` what is loaded into processes. `simulator` plays random faults in virtual time.
`recording` records the agents of a job for `zmon demo --replay`. `sweep` runs a command at several sizes, `comm_bench`
times collectives, and `peak_bench` measures processors. `cli` has the commands.
"""

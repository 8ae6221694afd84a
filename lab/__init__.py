"""The laboratory of zmon: drills that test the diagnosis, and measurements of scaling, collectives and processors.

Drills: `drills` plays faults in real jobs and scores the diagnosis. `faults` causes the faults, `jobs` has the jobs,
and `stage` starts the hosts with zmon on them. `libraries` has the C libraries that drills load into processes.
`simulator` plays random faults in virtual time. `recording` records the agents of a job for `zmon demo --replay`.

Measurements: `sweep` runs a command at several sizes, `comm_bench` times collectives, and `peak_bench` measures
processors. `cli` has the commands of both.
"""

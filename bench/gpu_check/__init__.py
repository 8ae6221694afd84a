"""The GPU kit: checks on a machine with a GPU that what zmon reports about it is true, and what that costs.

`make gpu-check` runs it; docs/gpu.md says what each check proves. A check is one file in `checks/` and one line in
`checks.ALL`. Its jobs are in `jobs/`: only these load torch, so that a device that fails ends a job and not the kit.
"""

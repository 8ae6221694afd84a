"""The GPU kit: on a machine with a GPU, it checks zmon's reports about the GPU, and measures their cost.

`make gpu-check` runs it; docs/gpu.md says what each check proves. A check is one file in `checks/` and one line in
`checks.ALL`. Its jobs are in `jobs/`. Only the jobs load torch, so a device that fails ends a job and not the kit.
"""

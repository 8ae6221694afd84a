"""Benchmarks of the cost of monitoring and of the trainer's speed. Most modules are commands that print a table.

`make bench` runs these: `python -m bench` (an agent at 1, 8 and 16 ranks), `hub` (at 64 to 4,096 ranks), `attack`
(answers under attack), `straggler` (time until a slow rank is named), `trainer`, `planner`, `gpu`, `scaling`, `mlperf`.
It leaves out `asynchronous/` (the training that ZionEX replaced), `rivals/` (other trainers) and `time_to_auc`.
`gpu_check/` has the checks of `make gpu-check`, one file each.
"""

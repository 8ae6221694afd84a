"""Benchmarks of the cost of monitoring and of the trainer's speed. Most modules are commands that print a table.

`make bench` runs these: `python -m bench` (an agent at 1, 8 and 16 ranks), `hub` (at 64 to 16,384 ranks), `attack`
(answers under attack), `straggler` (time until a slow rank is named), `trainer`, `planner`, `gpu`, `scaling`, `mlperf`.
`make bench-overhead` runs `overhead`, `make bench-scale` also `reports` and `replay`, `make bench-dashboard`
`dashboard/`, and `make gpu-check` the checks in `gpu_check/`. No target runs the others, such as `asynchronous/` (the
training that ZionEX replaced) and `rivals/` (other trainers).
"""

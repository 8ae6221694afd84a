"""The jobs whose steps bench.job measures with and without zmon: one module for each kind, with a function `make`.

A module imports all that its job needs, so that zmon finds it when it attaches, as in a user's job.
"""

"""The jobs whose steps bench.job measures with and without zmon: one module for each kind, with a function `make`.

A module imports at its top all that its job needs: zmon then finds it loaded when it attaches, as in a user's job.
"""

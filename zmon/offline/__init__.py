"""Analyses without a hub: step logs, comparisons of runs, scaling curves and benchmarks of collectives."""

"""Analyses without a hub: step logs, comparisons of runs, and the files of measured links and peaks.

`analyze/` reads a step log or a trace of another tool, `compare/` compares two runs, and `measured_files` reads and
writes what `zmon bench-comm` and `zmon bench-peak` measured.
"""

"""Analyses without a hub: step logs, comparisons of runs, and the files of measured links and peaks."""

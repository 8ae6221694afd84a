"""The alert and recording rules of zmon, and the generator that makes them for given scrape intervals.

The rules beside this file are for one machine. `python -m dashboards.rules` makes a set for other scrape intervals.
"""

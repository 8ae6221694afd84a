"""Drills: cause a fault in a real job, and score the culprit, the cause and the time to report it.

`matrix` lists all drills, and `compositions` draws random ones. `play` plays one drill, `score` judges it, and
`report` shows the results. To add a drill, write its fault in `lab/faults/` and add a row to the matrix.
"""

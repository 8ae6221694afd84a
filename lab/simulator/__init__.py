"""Simulate synchronous ranks with random faults, and score what the real detectors report about them.

No process and no clock is involved: ranks execute a program in virtual time. `composition` is the grammar of jobs and
faults; `world` is the engine with `rank`, `processes` and `launchers`; `program` is the script of a rank; `strikes` has
the faults that a rank causes itself, `outside` the others; `observation` and `hardware` are the view of the agents, and
the links between hosts; `watch` makes the passes of a real hub; `truth` has the right answers, `verdict` the score;
`interleavings` enumerates every order of three ranks.
"""

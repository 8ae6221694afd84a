"""Simulate synchronous ranks with random faults, and score what the real detectors report about them.

No process, file of a job or clock is involved: ranks execute a program in virtual time. `composition` is the grammar of
jobs and faults, `world` the engine, `program` the training script of a rank, `strikes` the faults, `launchers` the
reaction of launchers to the end of a rank, `observation` and `hardware` the view of the agents, `watch` the passes of a
real hub, `truth` the right answer, `verdict` the score, and `interleavings` every order of three ranks.
"""

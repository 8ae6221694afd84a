"""Record what the agents of a real job report while a fault strikes it, for `zmon demo --replay`.

    python -m lab.recording [NAME …]

Without NAME it makes all recordings. It needs root, as the drills on four hosts do, and two minutes for each recording.
`scenes` names the recordings, `stage` starts the hosts, `recorder` asks the agents, and `loop` finds the part that the
replay repeats. `zmon.stack.replay` reads the files. They have no findings: the hub of the replay makes them.
"""

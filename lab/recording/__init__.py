"""Record what the agents of a real job report while a fault strikes it, for `zmon demo --replay`.

    python -m lab.recording [NAME …]

Without NAME it makes all recordings. It needs root, as the drills on four hosts do, and two minutes for each recording.
`scenes` names the recordings, `stage` starts the hosts, `recorder` asks the agents, `loop` finds the part that is
played again and again, and `paths` removes the paths of this machine. The files are data of `zmon.stack.replay`. They
have no findings: the hub of the replay makes them.
"""

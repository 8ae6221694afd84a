"""Record the agents of a real job while a fault strikes it, for `zmon demo --replay`.

    python -m lab.recording [NAME …]

It needs root, as the drills on four hosts do, and two minutes for each recording. `scenes` names the recordings,
`recorder` asks the agents, and `loop` finds the part that is played again and again. The files are data of
`zmon.stack.replay`. No finding is in them.
"""

"""Simulate synchronous ranks with random faults, and score what the real detectors report about them.

No process and no clock is involved: ranks execute a program in virtual time. `composition` is the grammar of jobs and
faults. `program` is the script of a rank, with `instructions` to the `world`, which executes them with `rank`,
`collective`, `network`, `processes` and `launchers`. `strikes` has the faults that a rank causes itself, `outside` the
others, and `endings` the ways in which a process ends. `observation` and `hardware` are what agents report. `watch`
makes the passes of a real hub. `truth` has the right answers, `owner` the ends that look like those by an owner, and
`verdict` the score. `play` plays one composition, `session` many, and `acts` has the acts of zmon in a play.
`interleavings` enumerates every order of three ranks.
"""

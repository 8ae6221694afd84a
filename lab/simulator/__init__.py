"""Simulate synchronous ranks with random faults, and score what the real detectors report about them.

No process and no clock is involved: ranks execute a program in virtual time. The modules, in the order of a play:

- `composition` draws a job and its faults.
- `program` is the script of a rank. It yields `instructions` to the `world`.
- `world` executes them, with `rank`, `collective`, `network`, `processes` and `launchers`.
- `strikes` has the faults that a rank causes itself. `outside` has all other faults, and `endings` the ends of
  processes.
- `observation` and `hardware` make the reports of agents. `watch` makes the passes of a real hub.
- `truth` has the right answer to each fault. `owner` recognizes ends that look as if the owner had ended the job.
- `verdict` scores the findings, and `acts` has the acts that zmon would have done.
- `play` plays one composition, and `session` plays many.

`interleavings` stands alone: it enumerates every order in which three ranks can act.
"""

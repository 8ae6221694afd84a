"""When the ranks of a job ended, and how exactly that is known. Pure."""

from __future__ import annotations

TOGETHER_SECONDS = 0.3  # deaths closer together than this count as simultaneous: agents look every 0.1 s
ALIGNED_SECONDS = 0.02  # last words on two hosts: the shortest delay of a report is unknown
ALONE_SECONDS = 0.08  # an owner's signal reaches all ranks within 0.07 s on a busy machine
AHEAD_SECONDS = 0.02  # on an idle machine within 0.002 s
SPARED_SECONDS = 0.5  # a rank that ended by this much later did not have the signal
PAIR_SECONDS = 0.1  # two ranks notice the reset of their connection within 8 ms

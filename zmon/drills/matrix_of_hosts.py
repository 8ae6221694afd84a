"""List the drills of four hosts: faults of the network between them, and of their clocks."""

from __future__ import annotations

from zmon.drills.drill import Drill
from zmon.drills.faults import network
from zmon.drills.network import DATA

HOSTS = (
    Drill("link-down", "the data link of one host is cut", network.link_down, ("network_stall",), "stall",
          culprit="host", proof="state", stage="hosts", ranks=(4, 8), evidence=(DATA,),
          unavailable=network.unavailable),
    Drill("host-lost", "data and management links of one host are cut", network.host_lost, ("host_lost",), "stall",
          culprit="host", stage="hosts", ranks=(4, 8), may_warn=("agent_unreachable",),
          unavailable=network.unavailable),
    Drill("link-slow", "the data link of one host carries a tenth", network.link_slow, ("network_slow",), "straggler",
          culprit="host", proof="steps", stage="hosts", ranks=(4, 8), step_seconds=(0.02, 0.25),
          job={"exchange_rate": 3e6}, evidence=(DATA,), unavailable=network.unavailable),
    Drill("pair-cut", "packets between two hosts are lost, each way or one way", network.pair_cut, ("network_stall",),
          "stall", culprit="pair", stage="hosts", ranks=(4, 8), evidence=(DATA,), unavailable=network.unavailable),
    Drill("pair-slow", "the path between two hosts carries a twentieth", network.pair_slow, ("network_slow",),
          "straggler", culprit="pair", proof="steps", stage="hosts", ranks=(4, 8), step_seconds=(0.02, 0.25),
          job={"exchange_rate": 3e6}, evidence=(DATA,), unavailable=network.unavailable),
    Drill("clock-off", "the clock of one host is 30 s off", network.clock_off, stage="hosts", ranks=(4, 8),
          unavailable=network.no_clocks),
)  # fmt: skip

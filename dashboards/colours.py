"""Colours that colour-blind people can tell apart, on light and on dark. One meaning has one colour on all pages.

The first colours are those of Okabe and Ito (Color Universal Design, 2008). The others are as far from these as
possible, for people with normal vision and with deuteranopia. Each colour has a contrast of 2 or more to white and of 3
or more to the background of the dark theme. Vermillion is reserved for faults. Pages, charts and the dashboards for
Grafana have no other tables of colours.
"""

import re
from itertools import cycle
from typing import NamedTuple

BLUE, SKY, GREEN, ORANGE, PURPLE, YELLOW = "#0072B2", "#56B4E9", "#009E73", "#E69F00", "#CC79A7", "#BFA900"
VERMILLION, GREY = "#D55E00", "#8C8C8C"

# Lines without a meaning of their own, such as hosts, by their position in the chart.
SERIES = [SKY, ORANGE, GREEN, PURPLE, BLUE, YELLOW, "#A6761D", "#7A6FD0", "#66C2A5", GREY]

# Rank 13 has the colour of rank 3: a chart has at most ten ranks.
RANKS = [SKY, ORANGE, GREEN, PURPLE, BLUE, "#A913C5", "#865259", "#46CB1A", "#9776FB", "#227008"]

# Cividis, from dark to light: nearly the same to people with a colour vision deficiency (Nuñez et al., 2018).
CIVIDIS = [
    *("#002051", "#0d346b", "#33486e", "#575c6e", "#737172"),
    *("#8b8677", "#a49d78", "#c3b56d", "#e6cf59", "#fdea45"),
]

PHASES = {  # self time: blue and green
    "forward": BLUE,
    "backward": SKY,
    "embedding": GREEN,
    "optimizer": "#386A4E",
    "h2d": "#6985E7",
    "other": "#9EB8B1",
    "data": "#61CB7C",  # the time bar draws it next to the ideal step
    "offload": "#0B6E8A",
}
COMPUTING = tuple(phase for phase in PHASES if phase not in ("data", "offload"))  # the phases of the ideal step
OPS = {  # exposed time: orange, yellow and brown
    "all_to_all": ORANGE,
    "all_reduce": "#915114",
    "all_gather": "#979018",
    "reduce_scatter": "#627A03",
    "broadcast": "#C99065",
    "reduce": "#917549",
    "gather": "#A2B80C",
    "scatter": "#D9AE8A",
    "barrier": "#95A867",
    "send": "#BE9A2A",
    "recv": "#BFB45C",
}
BETWEEN_STEPS = {  # violet
    "eval": "#D860FE",
    "checkpoint": "#653DE9",
    "init": "#A321AC",
    "compile": "#F197F6",
    "loader_start": "#7A537C",
}
ACTIVITIES = {"train": GREEN, **BETWEEN_STEPS, "done": "#6E6E6E"}
STATES = {"dead": VERMILLION, "overdue": ORANGE, "waiting": YELLOW, "unwatched": GREY}  # of ranks, the worst first

# Time categories. Areas and bars are stacked in this order. `own` is self time where it is not divided into phases.
CATEGORIES = {
    **PHASES,
    "own": BLUE,
    "imbalance": PURPLE,
    **OPS,
    **BETWEEN_STEPS,
    "stall": VERMILLION,
    "restart": "#C91F3A",
    "unknown": GREY,
}

CAUSES = {  # of findings
    # the end of a process: crimson and magenta
    "rank_exited": "#B70385",
    "uneven_end": "#FE5EC3",
    "connection_lost": "#F0A08E",
    "rendezvous_failed": "#8B5245",
    "launcher_gone": "#F21767",
    "crash_loop": "#C06099",
    "host_lost": "#C21A13",
    # a job that does not move: red, orange and brown
    "rank_frozen": "#E78C08",
    "sequence_lag": "#FA6863",
    "collective_mismatch": "#977342",
    "lease_overrun": "#BB8E63",
    "input_stall": "#BF534E",
    "compute_hang": "#E6AB5A",
    "network_stall": "#F53F31",
    # a slow rank or host: olive
    "compute_straggler": "#A0AF2B",
    "input_straggler": "#616A0B",
    "offload_straggler": "#7D6B00",
    "network_slow": "#AFB692",
    "thermal_throttle": "#838F20",
    "host_pressure": "#B5820C",
    # uneven ranks: gold; no cause is green, which is for what is well
    "all_to_all_skew": "#BFA900",
    "lookup_skew": "#A98F2E",
    "input_jitter": "#C79A00",
    "compute_jitter": "#9C8600",
    "work_imbalance": "#7F6A2A",
    "stage_imbalance": "#C2A24A",
    # the whole job is slower than it was, or learns wrongly: light blue
    "network": "#0CC1FD",
    "input": "#0C78A4",
    "memory": "#3A9EC8",
    "below_baseline": "#0DCBC3",
    "input_bound": "#84ACBD",
    "divergence": "#627981",
    # hardware: violet
    "gpu_lost": "#8747FC",
    "gpu_memory": "#AB84FA",
    "gpu_xid": "#7D4DAD",
    "link_down": "#CB36D6",
    "link_degraded": "#D8A0E2",
    # ranks that are not watched: dark blue
    "agent_unreachable": "#035EDE",
    "ranks_missing": "#4087FD",
    "job_id_shared": "#7478C1",
    "box_version": "#99ADF7",
    "box_refused": "#5BA0FA",
    "box_damaged": "#445DAD",
    "report_unreadable": "#6463D4",
    "unknown": GREY,
}

DASHES = ([1, 0], [6, 3], [2, 2], [8, 2, 2, 2])  # of the first, second, … line that has the same colour
_RANK = re.compile(r"rank (\d+)\b")
_WORD = re.compile(r"(?:wait: )?([a-z0-9_]+)\b")


class Look(NamedTuple):
    """The colour and the dashes of a line."""

    colour: str
    dash: list[int]


def category_colour(name: str) -> str:
    """Return the colour of a time category. `wait: all_to_all` has the colour of its op; unknown names are grey."""
    return CATEGORIES.get(name.removeprefix("wait: "), GREY)


def cause_colour(cause: str) -> str:
    """Return the colour of the cause of a finding. A cause that only a newer zmon knows is grey."""
    return CAUSES.get(cause, GREY)


def rank_colour(rank: int) -> str:
    """Return the colour of a rank."""
    return RANKS[rank % len(RANKS)]


def looks(names: list[str]) -> list[Look]:
    """Return the colours and dashes of the series of a chart.

    Ranks and time categories have their own colours, also as the first word of a name (`all_to_all: exposed`). The
    second series of the same colour is dashed, the third dotted.
    """
    meanings = [_meaning_colour(name) for name in names]
    free_colours = cycle([colour for colour in SERIES if colour not in meanings] or SERIES)
    result: list[Look] = []
    for meaning in meanings:
        colour = meaning or next(free_colours)
        num_before = sum(look.colour == colour for look in result)
        result.append(Look(colour, DASHES[num_before % len(DASHES)]))
    return result


def _meaning_colour(name: str) -> str | None:
    """Return the colour of the rank or time category that the name begins with."""
    if rank := _RANK.match(name):
        return rank_colour(int(rank[1]))
    word = _WORD.match(name)
    return CATEGORIES.get(word[1]) if word else None


def in_order(names: list[str]) -> list[str]:
    """Sort names in the order in which areas are stacked. Unknown names come last, in the order that they have."""
    positions = {name: index for index, name in enumerate(CATEGORIES)}
    return sorted(names, key=lambda name: positions.get(name.removeprefix("wait: "), len(positions)))

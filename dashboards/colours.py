"""Colours that colour-blind people tell apart, on light and on dark; what means the same has the same everywhere.

Okabe and Ito's palette (Color Universal Design, 2008) without black, which is lost on dark. Vermillion is kept for what
is wrong.
"""

BLUE, SKY, GREEN, ORANGE, PURPLE, YELLOW = "#0072B2", "#56B4E9", "#009E73", "#E69F00", "#CC79A7", "#D4C400"
VERMILLION, GREY = "#D55E00", "#8C8C8C"
SERIES = [SKY, ORANGE, GREEN, PURPLE, BLUE, YELLOW, GREY, "#A6761D", "#7A6FD0", "#66C2A5"]

# Cividis, from dark to light: nearly the same to people with a colour vision deficiency (Nuñez et al., 2018).
CIVIDIS = [
    *("#002051", "#0d346b", "#33486e", "#575c6e", "#737172"),
    *("#8b8677", "#a49d78", "#c3b56d", "#e6cf59", "#fdea45"),
]

# Where time goes: a rank's own work is blue and green, waiting for others orange and yellow, what is no step grey, and
# what should not be there vermillion. In the order in which they lie on each other: the names beside them tell apart
# what colours alone do not.
CAUSES = {
    "forward": BLUE,
    "backward": SKY,
    "embedding": GREEN,
    "optimizer": "#66C2A5",
    "data": "#004C75",
    "h2d": "#9AD0F0",
    "other": "#7A6FD0",
    "own": BLUE,
    "imbalance": PURPLE,
    "all_to_all": ORANGE,
    "all_reduce": "#F0E442",
    "all_gather": "#C7A76C",
    "reduce_scatter": "#F2CE6B",
    "broadcast": "#8A5A00",
    "reduce": "#C9B458",
    "gather": "#FFD98A",
    "scatter": "#FFE08A",
    "barrier": "#7A5C00",
    "send": "#DDAA33",
    "recv": "#997700",
    "eval": "#B5B5B5",
    "checkpoint": "#6E6E6E",
    "init": "#D0D0D0",
    "stall": VERMILLION,
    "restart": "#8B2E00",
}


def of_cause(name: str) -> str:
    """Of a phase, an op, or what else time goes to; `wait: all_to_all` is its op's."""
    return CAUSES.get(name.removeprefix("wait: "), GREY)


def in_order(names: list[str]) -> list[str]:
    """As they lie on each other; what nobody has heard of last."""
    places = {name: place for place, name in enumerate(CAUSES)}
    return sorted(names, key=lambda name: (places.get(name.removeprefix("wait: "), len(places)), name))

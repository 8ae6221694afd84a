"""Colours that colour-blind people can tell apart, on light and on dark. One meaning has one colour on all pages.

The palette of Okabe and Ito (Color Universal Design, 2008) without black, which is invisible on dark. Vermillion is
reserved for faults.
"""

BLUE, SKY, GREEN, ORANGE, PURPLE, YELLOW = "#0072B2", "#56B4E9", "#009E73", "#E69F00", "#CC79A7", "#D4C400"
VERMILLION, GREY = "#D55E00", "#8C8C8C"
SERIES = [SKY, ORANGE, GREEN, PURPLE, BLUE, YELLOW, GREY, "#A6761D", "#7A6FD0", "#66C2A5"]

# Cividis, from dark to light: nearly the same to people with a colour vision deficiency (Nuñez et al., 2018).
CIVIDIS = [
    *("#002051", "#0d346b", "#33486e", "#575c6e", "#737172"),
    *("#8b8677", "#a49d78", "#c3b56d", "#e6cf59", "#fdea45"),
]

# Time categories: self time is blue and green, exposed time orange and yellow, activities other than training are grey,
# and faults vermillion. Areas are stacked in this order. Where colours are too similar, the legend helps.
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
    "compile": "#9C8FB0",
    "loader_start": "#C3D5DC",
    "stall": VERMILLION,
    "restart": "#8B2E00",
}


def of_cause(name: str) -> str:
    """Return the colour of a time category. `wait: all_to_all` has the colour of its op; unknown names are grey."""
    return CAUSES.get(name.removeprefix("wait: "), GREY)


def in_order(names: list[str]) -> list[str]:
    """Sort names in the order in which areas are stacked. Unknown names come last."""
    positions = {name: index for index, name in enumerate(CAUSES)}
    return sorted(names, key=lambda name: (positions.get(name.removeprefix("wait: "), len(positions)), name))

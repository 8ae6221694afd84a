"""The cost of monitoring: a step in a loop, a step of a real job, memory and start of a rank, and the agent.

    python -m bench.overhead [--seconds N] [--only PART…]

It prints numbers but does not check them, because they depend on the machine and its other load. Compare the 95 %
intervals, not only the values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from bench import agent, hot_path, memory, switching
from bench.rows import lines, load_line, parser_of

Part = Callable[[], Iterable[str]]


def parts(seconds: float) -> dict[str, tuple[str, Part]]:
    """Return the title of each part, and the function that measures it and yields lines, by the name of the part."""
    return {
        "hot-path": ("a step in a loop: 8 phases, 5 ops, a record", lambda: lines(hot_path.measure(9))),
        "job": ("a step of a job, in turns watched, absent (twice) and idle", lambda: switching.measure(seconds)),
        "memory": ("memory and start of a rank", lambda: lines(memory.measure(2))),
        "agent": (f"the agent of a node with {agent.RANKS} ranks", lambda: lines(agent.measure(20))),
    }  # fmt: skip


def main() -> None:
    """Measure and print the tables."""
    parser = parser_of(__doc__)
    parser.add_argument("--seconds", type=float, default=8.0, help="seconds of steps of each job (8)")
    parser.add_argument("--only", nargs="+", choices=tuple(parts(seconds=0.0)), help="measure only these parts")
    arguments = parser.parse_args()
    for name, (title, measure) in parts(arguments.seconds).items():
        if arguments.only is None or name in arguments.only:
            print(title, flush=True)
            for line in measure():
                print(line, flush=True)
    print(load_line())


if __name__ == "__main__":
    main()

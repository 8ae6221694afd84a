"""Jobs and plays for tests of the simulator."""

from lab.simulator.composition import Composition, Shape
from lab.simulator.play import play
from lab.simulator.world import World

SHAPE = Shape(ranks=4, step_seconds=0.25, noise=0.02)
STRUCK = 70  # a step after the leases are learned


def composed(*strikes, shape=SHAPE, seed=7):
    """Return the composition of these faults in a job of this shape."""
    return Composition(seed, 0, shape, strikes)


def played(*strikes, shape=SHAPE, policy=None):
    """Return the result of a play of these faults."""
    return play(composed(*strikes, shape=shape), policy)


def world_after(seconds, *strikes, shape=SHAPE, seed=7):
    """Return the simulated job after this time."""
    world = World(composed(*strikes, shape=shape, seed=seed))
    world.run(seconds)
    return world

"""Tests of `zmon watch` on one node of several: no finding names a rank or a host that the watch does not see."""

import pytest

from lab.simulator.composition import compose
from lab.simulator.watch import Watch
from lab.simulator.world import World
from zmon.cli.watch.observer import DETECTORS
from zmon.hub import Hub, HubConfig

SEED = 20261127
COMPOSITIONS = [
    composition for composition in (compose(SEED, number) for number in range(40)) if composition.shape.hosts > 1
]


class WatchOfOneHost(Watch):
    """The hub of a watch on node-0; the agents of the other hosts do not exist for it."""

    def __post_init__(self):
        super().__post_init__()
        self.agents = [agent for agent in self.agents if agent.host == 0]
        self._hub = Hub(HubConfig((), self.folder, DETECTORS))

    def _strike(self, strike):
        """Ignore what happens to agents, hubs and clocks elsewhere."""


@pytest.mark.parametrize("composition", COMPOSITIONS, ids=lambda composition: f"{composition.number}")
def test_no_finding_names_a_rank_or_host_that_is_not_seen(composition, tmp_path):
    world = World(composition)
    watch = WatchOfOneHost(world, tmp_path)
    while not world.struck and world.time < 240.0:
        watch.run(world.time + 1.0)
    watch.run(world.time + 90.0)
    own_ranks = {rank.rank for rank in world.ranks if rank.host == 0}
    for finding in (published.finding for published in watch.published):
        assert own_ranks.issuperset(finding.ranks), finding.summary
        assert {"node-0"}.issuperset(finding.hosts), finding.summary


def test_compositions_have_faults_on_both_sides():
    """Some are at ranks that the watch sees, some elsewhere."""
    sides = {
        World(composition).ranks[strike.rank].host == 0
        for composition in COMPOSITIONS
        for strike in composition.strikes
    }
    assert sides == {True, False}

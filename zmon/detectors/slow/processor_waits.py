"""Find the ranks that are slow because they wait for a processor, while most ranks do not. Pure.

Other programs run on the cores of such a rank: it is bound to a core that others use too, or its host has more to do
than cores. The agent reports the wait of each rank's main thread over the last seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median_low
from typing import NamedTuple

from zmon.schema.job_snapshot import Snapshot
from zmon.schema.rank import RankState


class ProcessorWaits(NamedTuple):
    """The share of time for which each rank waits for a processor; a rank is absent if that is unknown."""

    ratios: Mapping[int, float]  # by rank
    starved_ratio: float  # a rank is starved if it waits more than this many times as long as the median rank

    @property
    def _median_ratio(self) -> float:
        """The lower median, so that no rank is starved where half of the ranks wait as long."""
        return median_low(self.ratios.values())

    @property
    def _starved_ranks(self) -> set[int]:
        """The ranks that wait longer than the others; empty if the others are unknown."""
        if len(self.ratios) < 2:
            return set()
        return {rank for rank, ratio in self.ratios.items() if ratio > self.starved_ratio * self._median_ratio}

    def explained_ranks(self, lost_ratios: Mapping[int, float], explained_ratio: float) -> set[int]:
        """Return the starved ranks whose wait is at least `explained_ratio` of the share of time that they lose.

        `lost_ratios` has the lost share of time by rank.
        """
        starved = self._starved_ranks
        return {r for r, lost in lost_ratios.items() if r in starved and self.ratios[r] >= explained_ratio * lost}

    def summary(self, snapshot: Snapshot, state: RankState) -> str:
        """Return how long a rank waits, or all ranks of its host, for a finding's summary."""
        ranks_of_host = {r.rank for r in snapshot.reported_ranks if r.host == state.host}
        median_text = f"(the median rank {self._median_ratio:.0%})"
        if len(ranks_of_host) > 1 and ranks_of_host <= self._starved_ranks:
            least = min(self.ratios[rank] for rank in ranks_of_host)
            return (
                f"all ranks on {state.host} wait at least {least:.0%} of the time for a processor {median_text}: other "
                "programs run on the cores of the host, or the ranks may use too few"
            )
        return (
            f"rank {state.rank} waits {self.ratios[state.rank]:.0%} of the time for a processor {median_text}: other "
            "programs run on its cores, or it may use too few"
        )


def processor_waits(snapshot: Snapshot, starved_ratio: float) -> ProcessorWaits:
    """Return how long the ranks of the job wait for processors."""
    processes = [process for window in snapshot.hardware for process in window.now.processes or ()]
    of_job = [process for process in processes if process.job_id == snapshot.job_id]
    ratios = {process.rank: process.run_delay_ratio for process in of_job if process.run_delay_ratio is not None}
    return ProcessorWaits(ratios, starved_ratio)

"""Tests of roles in the detectors: a long stage of a pipeline is reported as a stage, and ranks are compared within it.

The jobs have two stages of four ranks each, with groups of their own and transfers between them.
"""

from dataclasses import replace

import pytest

from tests.build import rank_state
from tests.detectors.slow.uneven_jobs import even, job
from tests.steps import changed
from zmon.detectors import ALL
from zmon.detectors.slow.imbalance import Imbalance
from zmon.detectors.slow.straggler import Straggler

SECOND = (4, 5, 6, 7)


def pipeline(*parts, groups=(range(4), SECOND), between=1 << 20):
    """Return the job of eight ranks in two stages."""
    snapshot = job(*parts, size=8)
    steps = [changed(s, sent_bytes={**s.sent_bytes, "send": (between,) * 8}) if between else s for s in snapshot.steps]
    ranks = [
        rank_state(r, world_size=8, host=f"node-{r}", sequences={str(i): 9 for i, of in enumerate(groups) if r in of})
        for r in range(8)
    ]
    return replace(snapshot, ranks=tuple(ranks), steps=tuple(steps))


def with_longer(factor, ranks=SECOND, slow_rank=None):
    """Return a function of one step in which these ranks compute longer, and perhaps one rank twice as long again."""

    def step(draw):
        row = even(draw, 8)
        factors = [(factor if rank in ranks else 1.0) * (2.0 if rank == slow_rank else 1.0) for rank in range(8)]
        return [{**phases, "forward": f * phases["forward"]} for f, phases in zip(factors, row, strict=True)]

    return step


def all_findings(snapshot):
    return [finding for detector in ALL for finding in detector.detect(snapshot)]


def test_longer_stage_is_named_and_no_rank():
    (finding,) = all_findings(pipeline((60, with_longer(1.6))))
    assert (finding.detector, finding.cause, finding.severity) == ("imbalance", "stage_imbalance", "warning")
    assert (finding.ranks, finding.hosts) == ((), ())
    assert finding.summary.startswith("the stage of ranks 4–7 takes 4")
    assert "cordon" not in finding.detail
    assert "do not drain it" in finding.detail
    assert finding.evidence.role == "ranks 4–7"
    assert finding.evidence.own_seconds_by_role.keys() == {"ranks 0–3", "ranks 4–7"}
    assert finding.evidence.saved_seconds == pytest.approx(0.096, rel=0.15)


def test_stage_of_a_pipeline_without_replicas_is_no_straggler():
    snapshot = pipeline((60, with_longer(1.6, ranks=(7,))), groups=())
    assert [(f.cause, f.ranks) for f in all_findings(snapshot)] == [("stage_imbalance", ())]
    assert "the stage of rank 7 takes" in Imbalance().detect(snapshot)[0].summary


def test_slow_rank_of_a_longer_stage_is_compared_with_its_stage():
    (finding,) = Straggler().detect(pipeline((40, with_longer(1.6)), (40, with_longer(1.6, slow_rank=5))))
    assert (finding.cause, finding.ranks) == ("compute_straggler", (5,))
    assert "of self time per step against 29" in finding.summary or "against 30" in finding.summary


def test_slow_rank_of_a_shorter_stage_is_reported_only_if_it_delays_the_step():
    """It takes 1.5 times as long as its stage, but the other stage takes longer still."""
    shorter = pipeline((40, with_longer(3.0)), (40, with_longer(3.0, slow_rank=1)))
    assert Straggler().detect(shorter) == ()


@pytest.mark.parametrize("groups", [(range(8),), (range(4), SECOND)], ids=["one group", "two groups"])
def test_ranks_without_transfers_between_them_have_no_stages(groups):
    """A slow rank is compared with all others."""
    (finding,) = Straggler().detect(
        pipeline((40, with_longer(1.0)), (40, with_longer(1.0, slow_rank=5)), groups=groups, between=0)
    )
    assert finding.ranks == (5,)


# -- quiet -------------------------------------------------------------------------------------------------


def test_stage_that_is_a_tenth_longer_is_not_reported():
    assert all_findings(pipeline((60, with_longer(1.1)))) == []


def test_stage_is_not_reported_if_it_is_the_longest_in_some_steps_only():
    turns = iter(range(100_000))

    def step(draw):
        return with_longer(1.6, ranks=SECOND if next(turns) % 2 else range(4))(draw)

    assert "stage_imbalance" not in {finding.cause for finding in all_findings(pipeline((60, step)))}


def test_stage_is_not_reported_before_there_are_enough_steps():
    assert Imbalance().detect(pipeline((2, with_longer(1.6)))) == ()


def test_stage_finding_resolves_when_the_stages_are_even():
    (finding,) = Imbalance().detect(pipeline((60, with_longer(1.6))))
    assert not Imbalance().can_resolve(pipeline((60, with_longer(1.6))), finding)
    assert not Imbalance().can_resolve(pipeline((60, with_longer(1.15))), finding)
    assert Imbalance().can_resolve(pipeline((60, with_longer(1.0))), finding)
    assert Imbalance().can_resolve(pipeline((60, with_longer(1.0)), groups=(range(8),)), finding)

"""Tests that a finding about a pipeline has the time that the replay of the trace saves without its culprit."""

import pytest

from tests.offline.analyze.logs import written
from tests.offline.analyze.pipeline import pipelines
from zmon.offline.analyze import play
from zmon.offline.analyze.formats import straggler_analysis
from zmon.offline.analyze.pipeline import with_replayed_saving


def finding_of(tmp_path, factor, **size):
    """Return the finding with the saving of its replay, the finding before, and the what-ifs of the trace."""
    trace = straggler_analysis.read([written(tmp_path / "trace.jsonl", pipelines.rows(factor, steps=30, **size))])
    (span,) = play(trace.steps, 0).spans
    return with_replayed_saving(span.finding, trace.what_ifs), span.finding, trace.what_ifs


def test_stage_has_the_saving_of_its_replay(tmp_path):
    finding, before, what_ifs = finding_of(tmp_path, lambda step, data_rank, stage, batch: 1.6 if stage == 2 else 1.0)
    assert (finding.cause, finding.evidence.role) == ("stage_imbalance", "2")
    assert finding.evidence.saved_seconds == what_ifs.stages[2].saved_seconds
    assert finding.summary.startswith(before.summary)


def test_slow_worker_has_the_saving_of_its_replay(tmp_path):
    def slow(step, data_rank, stage, batch):
        return 2.0 if (data_rank, stage) == (1, 0) else 1.0

    finding, _, what_ifs = finding_of(tmp_path, slow, data_ranks=3)
    assert finding.ranks == what_ifs.slowest.workers == (1,)
    assert finding.evidence.saved_seconds == pytest.approx(what_ifs.slowest.saved_seconds)


def test_finding_about_other_ranks_is_unchanged(tmp_path):
    """Two of six workers are slow, and the report has the slowest one."""

    def slow(step, data_rank, stage, batch):
        return 2.0 + data_rank / 10 if stage == 0 and data_rank < 2 else 1.0

    finding, before, _ = finding_of(tmp_path, slow, data_ranks=6)
    assert len(before.ranks) == 2
    assert finding == before

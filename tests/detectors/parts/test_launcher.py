"""Tests of the advice about ranks whose launcher is gone. `tests/detectors/endings.py` has the cases themselves."""

from tests.build import rank_state
from tests.detectors.stalls import detect


def orphan(rank, host="node-a"):
    return rank_state(rank, host=host, max_restarts=0, launcher_status="signal SIGKILL", launcher_gone_seconds=9.0)


def test_advice_about_orphans_has_the_command_that_ends_them():
    finding = detect(*map(orphan, range(3)))
    assert (finding.cause, finding.severity) == ("launcher_gone", "warning")
    assert "(on node-a: `kill 1000 1001 1002`)" in finding.detail
    assert finding.evidence.pids == (1000, 1001, 1002)


def test_advice_about_many_orphans_says_where_the_other_pids_are():
    finding = detect(*(orphan(rank, f"node-{rank // 10}") for rank in range(20)))
    assert "(on node-0: `kill 1000 1001 1002 1003 1004 1005 1006 1007`; `evidence.pids` in" in finding.detail
    assert len(finding.evidence.pids) == 20

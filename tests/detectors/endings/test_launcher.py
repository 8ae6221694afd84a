"""Tests of the advice about ranks whose launcher is gone. `tests/detectors/endings.py` has the cases themselves."""

from tests.build import killed, rank_state
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


def killed_with_launcher(rank, launcher_status, gone=1.0):
    return killed(rank, gone, launcher_status=launcher_status, launcher_gone_seconds=gone)


def test_nothing_is_reported_until_the_status_of_a_launcher_that_ended_with_its_ranks_is_known():
    assert detect(*(killed_with_launcher(rank, None) for rank in range(4))) is None
    assert detect(*(killed_with_launcher(rank, "signal SIGTERM") for rank in range(4))) is None
    assert detect(*(killed_with_launcher(rank, "exit code 1") for rank in range(4))).cause == "rank_exited"


def test_ranks_are_reported_though_nobody_reads_the_status_of_their_launcher():
    assert detect(*(killed_with_launcher(rank, None, 6.0) for rank in range(4))).cause == "rank_exited"

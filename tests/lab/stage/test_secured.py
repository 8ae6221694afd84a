"""Tests of faults on four hosts with TLS, a file of targets, and agents that do not run as root: zmon reports them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace

import pytest

from lab.drills.draw import draw_job
from lab.drills.matrix import ALL
from lab.drills.play import play
from lab.drills.session import select_drills
from lab.stage.network import why_not
from tests.e2e.running_stack import wait_for
from tests.lab.stage.secured_cluster import AGENT_UID, SecuredHosts

pytestmark = [
    pytest.mark.drill,
    pytest.mark.slow,  # two minutes
    pytest.mark.timeout(400),
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
    pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not installed"),
]
SEED = 1
SCRAPED_SECONDS = 30.0
RANKS = 4  # one on each host


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredHosts]:
    folder = tmp_path_factory.mktemp("secured")
    for parent in (folder, *folder.parents[:2]):
        parent.chmod(0o755)
    stage = SecuredHosts(folder)
    try:
        yield stage
    finally:
        stage.close()


def test_prometheus_scrapes_agents_that_are_no_root(stage: SecuredHosts) -> None:
    assert {stage.part("agent", host).uids().effective for host in stage.hosts} == {AGENT_UID}
    count = f'count(up{{job="zmon-agent"}} == 1) == {len(stage.hosts)}'
    assert wait_for("Prometheus scrapes all agents", lambda: stage.query(count), SCRAPED_SECONDS)


@pytest.mark.parametrize("name", ["rank-frozen", "gil-held", "collective-skipped", "link-down", "host-lost"])
def test_fault_is_found_and_paged(stage: SecuredHosts, name: str) -> None:
    (drill,) = select_drills(ALL, [name])
    row = play(drill, stage, replace(draw_job(drill, 0, SEED), kind="ddp", ranks=RANKS, step_seconds=0.1))
    assert row.broken is None
    assert row.result in ("right", "late"), row.remarks  # late: the machine may be busy
    assert row.paged == ("ZmonStall",)
    assert row.evidence_missing == ()
    if name == "collective-skipped":
        (finding,) = [f for f in stage.findings(row.job, active=False) if f.cause == "collective_mismatch"]
        assert any(row.pending for row in finding.evidence.in_flight.values())  # type: ignore[union-attr]

"""Do with a decoded report what the hub does with it: its steps, its detectors, and the answers about its ranks."""

from tests.build import NOW, agent_status
from zmon.detectors import ALL
from zmon.detectors.unread import Unread
from zmon.format import plain
from zmon.hub.agent_link import AgentLink
from zmon.hub.api.rank_page import rank_page
from zmon.hub.job_state import JobState
from zmon.job.time_account import Account
from zmon.job.timeline import snapshots, superseded
from zmon.schema.api import RanksRequest
from zmon.schema.limits import MAX_NAMED_MISSING, MAX_WORLD_SIZE
from zmon.web.responses import json_response


def judge(report, same):
    """Do with a report, and with the same one again, what the hub does with it once it is decoded."""
    link = AgentLink("http://node-a:9780")
    link.record_report(report)
    link.record_report(same)
    present = link.present_report()
    window = link.window()
    aligned = snapshots([present], [], [agent_status()], NOW, [window])
    list(superseded([present], aligned, NOW))
    for snapshot in aligned:
        uids = {r.run_uid for r in snapshot.ranks}
        snapshot = JobState(uids, snapshot.world_size, Account(snapshot.job_id)).add(snapshot, [present])
        assert snapshot.world_size <= MAX_WORLD_SIZE
        assert len(snapshot.missing) <= MAX_NAMED_MISSING
        json_response(rank_page(snapshot, (), RanksRequest(snapshot.job_id)))
        for detector in ALL:
            for finding in detector.detect(snapshot):
                assert plain(finding.summary) == finding.summary
                json_response(finding)
    for job_id in {rank.job_id for rank in report.unread}:
        unread = [(report.host, rank) for rank in report.unread if rank.job_id == job_id]
        json_response(Unread().detect(job_id, unread, NOW))
    json_response(link.status())

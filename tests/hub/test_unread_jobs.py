"""Tests of the number of open findings about jobs whose boxes nobody can read."""

from types import SimpleNamespace

from zmon.hub import unread_jobs
from zmon.schema.api.agent import UnreadRank

NOW = 1.8e9


def update(journal, *job_ids):
    """Make a pass in which one agent reports a damaged box of each of these jobs."""
    unread = tuple(UnreadRank(job_id, 0, "damaged", "cut", 100.0) for job_id in job_ids)
    unread_jobs.update(journal, [SimpleNamespace(report=SimpleNamespace(host="node-a", unread=unread))], NOW)
    return sorted(finding.job_id for finding in journal.active())


def test_jobs_with_a_finding_keep_it_and_no_more_than_the_limit_have_one(journal, monkeypatch):
    monkeypatch.setattr(unread_jobs, "MAX_JOBS", 2)
    assert update(journal, "m", "n", "o") == ["m", "n"]
    assert update(journal, "a", "b", "m", "n", "o") == ["m", "n"]

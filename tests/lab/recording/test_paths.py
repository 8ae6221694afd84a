"""Tests of the paths in a recording: folders of the machine are replaced in every text, and nothing else changes."""

from lab.recording.__main__ import with_paths
from tests.build import JOB, agent_report, rank_state
from zmon.schema.api import RankEvidence
from zmon.stack.replay import HostRecording, RecordedEvidence, RecordedReport, Recording


def recording(folder):
    evidence = RankEvidence(JOB, 0, stack=f'File "{folder}/train.py", line 3', stderr_path=f"{folder}/log")
    report = agent_report(rank_state(0, labels={"data": f"{folder}/rows"}))
    reports = [RecordedReport(0.0, report), RecordedReport(1.0, None)]
    host = HostRecording("node-a", reports, [RecordedEvidence(2.0, evidence)])
    return Recording("a title", JOB, 1000.0, 5.0, 20.0, 10.0, [host])


def test_folders_are_replaced_in_every_text():
    replaced = with_paths(recording("/tmp/lab-1"), {"/tmp/lab-1": "/run/lab"})
    assert replaced == with_paths(recording("/run/lab"), {})

"""Tests of the paths in a recording: folders of the machine are replaced in every text, and nothing else changes."""

import msgspec
import pytest

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


def as_json(value):
    """Return the value as it is in a file, in which tuples and lists are the same."""
    return msgspec.json.decode(msgspec.json.encode(value))


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        pytest.param("/tmp/lab-1", "/run/lab", id="folder is replaced in every text"),
        pytest.param("/srv", "/srv", id="recording without the folder is unchanged"),
    ],
)
def test_only_the_folder_is_replaced(folder, expected):
    replaced = with_paths(recording(folder), {"/tmp/lab-1": "/run/lab"})
    assert as_json(replaced) == as_json(recording(expected))

"""Tests of `zmon incident`. It reads from the hub, or from the data directory if no hub answers, and prints which."""

import json
import os
from functools import partial

import msgspec
import pytest
from aiohttp.test_utils import unused_port

from tests.build import NOW, finding
from tests.hub.incidents.build import EVIDENCE, made
from zmon.hub.incidents import CapsuleStore
from zmon.schema.incident import IncidentSummary


@pytest.fixture
def run_incident(command, monkeypatch, tmp_path):
    """Return a function that runs `zmon incident` in this process, without a hub unless --hub names a hub."""
    monkeypatch.setenv("ZMON_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("ZMON_HUB_URL", f"http://127.0.0.1:{unused_port()}")
    monkeypatch.setenv("COLUMNS", "120")
    return partial(command, "incident")


@pytest.fixture
def store(tmp_path):
    """A store with two incidents on disk."""
    store = CapsuleStore(tmp_path)
    for name, host, onset in (("abc1", "node-a", NOW), ("abd2", "node-b", NOW + 60)):
        store.write(*made(finding(id=name, hosts=(host,), onset=onset, detected=onset + 1, evidence=EVIDENCE)))
    return store


@pytest.fixture
def hub(store, fake_server):
    """A hub that serves one incident of the store."""
    capsule = store.read("abc1")
    summary = next(summary for summary in store.summaries() if summary.id == "abc1")
    answers = {"/api/v1/incidents": {"schema": 1, "incidents": [summary]}, "/api/v1/incidents/abc1": capsule}
    return fake_server(lambda path, _: answers.get(path)).url


def test_list_comes_from_hub_if_hub_answers(run_incident, hub):
    code, out, err = run_incident("--hub", hub)
    assert code == 0
    assert "abc1" in out
    assert "abd2" not in out
    assert err == f"zmon: from the hub at {hub}\n"


def test_list_comes_from_data_directory_if_no_hub_answers(run_incident, store, tmp_path):
    code, out, err = run_incident()
    assert code == 0
    assert out.index("abd2") < out.index("abc1")
    assert "cannot reach" in err
    assert f"read from {tmp_path / 'incidents'} instead" in err


def test_summary_of_an_incident_has_the_time_of_its_ages(run_incident, store):
    store.write(*made(finding(id="abf4", as_of=NOW, evidence=EVIDENCE)))
    _, out, _ = run_incident("abf4")
    assert "rank 2 on node-a froze (as of 08:00:00 UTC)" in out


def test_incident_is_printed_with_its_evidence_and_the_place_of_its_report(run_incident, hub):
    for options, report in (
        ((), "incidents/abc1/report.html"),
        (("--hub", hub), f"{hub}/api/v1/incidents/abc1/report.html"),
    ):
        code, out, _ = run_incident("abc1", *options)
        assert code == 0
        assert "guilty_line" in out
        assert report in "".join(out.split())


def test_unique_prefix_of_an_id_is_accepted(run_incident, store):
    assert run_incident("abd").code == 0


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ("ab", "several IDs start with it"),
        ("nope", "no incident has this ID. Choose from abd2, abc1"),
        ("../abc1", "no incident has this ID. Choose from abd2, abc1"),
        (".", "no incident has this ID. Choose from abd2, abc1"),
        ("abc1 --by host", "Leave out the ID"),
    ],
)
def test_misuse_says_what_to_write_and_exits_with_2(run_incident, store, arguments, part):
    code, out, err = run_incident(*arguments.split())
    assert (code, out) == (2, "")
    assert part in err.splitlines()[-1]


def test_json_of_incident_is_its_capsule(run_incident, store):
    capsule = json.loads(run_incident("abc1", "--json").out)
    assert (capsule["schema"], capsule["finding"]["id"], len(capsule["ranks"])) == (1, "abc1", 4)


def test_json_of_list_has_summaries_of_incidents(run_incident, store):
    answer = json.loads(run_incident("--json").out)
    assert [msgspec.convert(summary, IncidentSummary).id for summary in answer["incidents"]] == ["abd2", "abc1"]


def test_by_host_lists_host_with_most_incidents_first(run_incident, store):
    again = finding(id="abe3", hosts=("node-a",), detected=NOW + 99, cause="rank_exited", lost_gpu_hours=2.5)
    store.write(*made(again))
    _, out, _ = run_incident("--by", "host")
    assert out.index("node-a") < out.index("node-b")
    assert "rank_exited × 1, rank_frozen × 1" in out
    hosts = json.loads(run_incident("--by", "host", "--json").out)["hosts"]
    assert [(h["host"], h["incidents"]) for h in hosts] == [("node-a", 2), ("node-b", 1)]
    assert [h["lost_gpu_hours"] for h in hosts] == [2.5, None]


def test_list_without_incidents_is_no_error(run_incident):
    code, out, _ = run_incident()
    assert (code, out) == (0, "no incidents\n")


def test_incidents_of_another_user_are_not_called_none(run_incident, store, tmp_path, monkeypatch):
    list_folder = os.listdir

    def listed(path):
        if path == tmp_path / "incidents":
            raise PermissionError(13, "Permission denied")
        return list_folder(path)

    monkeypatch.setattr("os.listdir", listed)
    code, out, err = run_incident()
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"; cannot read {tmp_path / 'incidents'}: Permission denied. Run zmon as the user of the hub" in err


def test_damaged_capsule_is_reported_as_damaged(run_incident, store):
    (store.directory("abc1") / "capsule.json").write_text("{")
    code, _, err = run_incident("abc1")
    assert code == 2
    assert "damaged" in err.splitlines()[-1]
    assert f"Open {store.directory('abc1')}/report.html" in err.splitlines()[-1]

"""Tests of `zmon status`: exit codes, text and JSON, the plan of a job, and where the URL of the hub comes from."""

import json
import re
from dataclasses import replace

import pytest
from aiohttp.test_utils import unused_port

from tests.build import ended_job, finding
from tests.cli.one_line import assert_one_line
from tests.metrics.scene import JOB_VIEW
from zmon.job.headline import with_headline
from zmon.schema.api import PlanTable

ENDED = with_headline(replace(JOB_VIEW, state="exited", ranks_seen=0, findings=(), ended=ended_job()), ())
PLAN = {
    "schema": 1, "job_id": "job", "totals": {"samples_per_second": 12e6},
    "ranks": [
        {"rank": rank, "host": "node-a", "tables": [f"t{rank}"], "num_tables": 3,
         "planned": {"lookups": 1000, "sent_bytes": 5e6, "seconds": 0.010},
         "measured": {"lookups": 1000 + 2500 * (rank == 30), "sent_bytes": 4e6, "seconds": 0.012, "memory_bytes": 1e9}}
        for rank in range(32)
    ],
}  # fmt: skip


@pytest.fixture
def hub(fake_server):
    """A hub that serves `answers`, and 404 for all other paths."""
    answers = {
        "/api/v1/jobs": {"schema": 1, "blind": False, "jobs": [JOB_VIEW]},
        "/api/v1/findings": {"schema": 1, "findings": []},
    }
    server = fake_server(lambda path, _: answers.get(path))
    server.answers = answers
    return server


@pytest.mark.parametrize(("url", "part"), [("http://127.0.0.1:1", "with --hub"), ("nowhere", "not a valid URL")])
def test_status_without_a_hub_exits_with_3(command, url, part):
    code, out, err = command("status", "--hub", url)
    assert (code, out) == (3, "")
    assert_one_line(err, f"cannot reach {url}", part)


@pytest.mark.parametrize(
    ("blind", "findings", "code", "part"),
    [(False, [], 0, "no findings"), (False, [finding()], 1, "^CRITICAL rank_frozen"), (True, [], 3, "^BLIND")],
)
def test_exit_code_is_1_with_findings_and_3_if_the_hub_is_blind(command, hub, blind, findings, code, part):
    hub.answers["/api/v1/jobs"]["blind"] = blind
    hub.answers["/api/v1/findings"]["findings"] = findings
    exit_code, out, _ = command("status", "--hub", hub.url)
    assert exit_code == code
    assert re.search(part, out)


def test_status_as_json_has_schema_jobs_and_findings(command, hub):
    hub.answers["/api/v1/findings"]["findings"] = [finding()]
    code, out, _ = command("status", "--json", "--hub", hub.url)
    answer = json.loads(out)
    assert code == 1
    assert answer["schema"] == 1
    assert answer["blind"] is False
    assert [job["job_id"] for job in answer["jobs"]] == ["job"]
    assert [finding["id"] for finding in answer["findings"]] == ["f1"]


@pytest.mark.parametrize(
    ("url", "is_shown"), [("https://wandb.ai/ann/ads/runs/1jx1ud12", True), ("javascript:alert(1)", False)]
)
def test_run_page_of_job_is_shown_only_if_it_is_a_web_address(command, hub, url, is_shown):
    hub.answers["/api/v1/jobs"]["jobs"] = [replace(JOB_VIEW, labels={"run_page": url})]
    _, out, _ = command("status", "--job", "job", "--hub", hub.url)
    assert (f"run page: {url}" in out) == is_shown


def test_status_of_job_sorts_rows_of_plan_by_deviation(command, hub):
    hub.answers["/api/v1/jobs/job/plan"] = PLAN
    code, out, _ = command("status", "--job", "job", "--hub", hub.url)
    assert code == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    planned = [place for place, line in enumerate(lines) if " planned " in line]
    assert len(planned) == 16
    assert lines[planned[0]] == "30 planned 1,000 5 MB unknown 10 ms unknown 3.50 × t30 and 2 more"
    assert lines[planned[0] + 1] == "node-a measured 3,500 4 MB unknown 12 ms 1 GB"
    assert "and 16 more ranks" in out
    assert "planned totals: samples_per_second 12,000,000" in out


def test_status_of_job_as_json_has_its_plan(command, hub):
    hub.answers["/api/v1/jobs/job/plan"] = PLAN
    answer = json.loads(command("status", "--job", "job", "--json", "--hub", hub.url).out)
    assert answer["plan"]["ranks"][30]["measured"]["lookups"] == 3500
    assert [job["job_id"] for job in answer["jobs"]] == ["job"]


def test_status_of_job_without_plan_reports_missing_plan(command, hub):
    rows = [{**row, "tables": [], "num_tables": None, "planned": None} for row in PLAN["ranks"]]
    hub.answers["/api/v1/jobs/job/plan"] = {**PLAN, "ranks": rows, "totals": None}
    code, out, _ = command("status", "--job", "job", "--hub", hub.url)
    assert code == 0
    assert "no plan: the trainer has not called zmon.plan()" in out


@pytest.mark.parametrize(
    ("blind", "option", "parts"),
    [
        pytest.param(False, (), ("does not know it", "`zmon status` lists all jobs"), id="text"),
        pytest.param(False, ("--json",), ("does not know it", "`zmon status` lists all jobs"), id="JSON"),
        pytest.param(True, (), ("no agent answers the hub", "zmon agent"), id="blind hub"),
    ],
)
def test_status_of_a_job_that_the_hub_does_not_know_exits_with_3(command, hub, blind, option, parts):
    hub.answers["/api/v1/jobs"]["blind"] = blind
    code, out, err = command("status", "--job", "nothing", "--hub", hub.url, *option)
    assert (code, out) == (3, "")
    assert_one_line(err, "cannot show job nothing", *parts)


def test_status_of_a_job_that_left_only_a_finding_shows_it(command, hub):
    hub.answers["/api/v1/findings"]["findings"] = [finding(job_id="gone")]
    code, out, err = command("status", "--job", "gone", "--hub", hub.url)
    assert (code, err) == (1, "")
    assert "CRITICAL rank_frozen, job gone" in out


def test_status_uses_hub_of_stack_on_this_machine(command, hub, tmp_path):
    (tmp_path / "data").mkdir()  # ZMON_DATA_DIR of `command`
    (tmp_path / "data/stack.json").write_text(json.dumps({"hub": hub.url}))
    assert command("status").code == 0


def test_flag_wins_over_variable_and_variable_over_config_file(command, hub, tmp_path, monkeypatch):
    unused_url = f"http://127.0.0.1:{unused_port()}"
    config = tmp_path / "zmon.yaml"
    config.write_text(json.dumps({"status": {"hub": hub.url}}))
    assert command("--config", config, "status").code == 0
    monkeypatch.setenv("ZMON_HUB_URL", unused_url)
    assert command("--config", config, "status").code == 3
    assert command("--config", config, "status", "--hub", hub.url).code == 0


@pytest.mark.parametrize(
    "options",
    [
        pytest.param((), id="all jobs"),
        pytest.param(("--json",), id="JSON"),
        pytest.param(("--job", ENDED.job_id), id="a job whose plan the hub has forgotten"),
    ],
)
def test_job_that_a_fault_ended_is_shown_and_exits_with_1(command, hub, options):
    hub.answers["/api/v1/jobs"]["jobs"] = [ENDED]  # there is no answer for its plan
    code, out, _ = command("status", "--hub", hub.url, *options)
    assert code == 1
    assert "ValueError: bad sample" in out


def test_status_of_a_healthy_job_ignores_that_another_job_failed(command, hub):
    hub.answers["/api/v1/jobs"]["jobs"] = [replace(ENDED, job_id="old"), replace(JOB_VIEW, findings=())]
    hub.answers[f"/api/v1/jobs/{JOB_VIEW.job_id}/plan"] = PlanTable(JOB_VIEW.job_id, (), None)
    code, out, _ = command("status", "--hub", hub.url, "--job", JOB_VIEW.job_id)
    assert code == 0
    assert "ValueError" not in out

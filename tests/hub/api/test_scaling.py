"""Tests of the scaling endpoint. Its predictions equal those of `zmon predict`, or it gives a reason."""

import json
from dataclasses import replace

import msgspec
import pytest
from click.testing import CliRunner

from tests.build import JOB
from tests.hub.api.scaling_answers import ONE_HOST, TWO_HOSTS, answer, sizes
from tests.hub.fakes import FakeAgent, healthy, step_records
from tests.hub.step_windows import job, step_window
from tests.scaling.test_fit import point
from zmon.cli.main import cli


def scaling_of(query=""):
    return f"/api/v1/jobs/{JOB}/scaling?{query}"


# -- over HTTP


async def test_answer_has_the_curve_and_the_size_of_the_job_now(start_hub, store):
    agent = FakeAgent(*healthy())
    store.record(JOB, *TWO_HOSTS)
    hub_client = await start_hub(agent)
    await hub_client.passes(1)
    agent.records = step_records(1, 300)
    await hub_client.passes()
    scaling = await hub_client.get(scaling_of("ranks=4,16&what_if=net=2"))
    assert (scaling["schema"], scaling["job_id"], scaling["name"], scaling["unknown"]) == (1, JOB, JOB, "")
    assert [(p["ranks"], p["samples"]) for p in scaling["points"]] == [(1, 512), (4, 1024), (4, 2048), (8, 4096)]
    now = {"ranks": 4, "samples": 128, "seconds": pytest.approx(0.02), "samples_per_second": pytest.approx(6400)}
    assert scaling["now"] == now
    four, sixteen = scaling["sizes"]
    assert (four["ranks"], four["samples"], sixteen["samples"]) == (4, 128, 512)
    assert sixteen["what_if"]["seconds"] < sixteen["predicted"]["seconds"]
    assert scaling["what_ifs"]["net"] == "bandwidth between hosts"


# -- predictions


@pytest.mark.parametrize("words", [("--batch", "8192"), ("--batch-per-rank", "256"), ("--what-if", "wire=0.5")])
def test_endpoint_and_command_line_agree(store, tmp_path, words):
    store.record(JOB, *TWO_HOSTS)
    command = ["predict", JOB, "--data-dir", str(tmp_path), "--ranks", "2,8,32", *words, "--json"]
    printed = json.loads(CliRunner().invoke(cli, command).output)["sizes"]
    query = f"ranks=2,8,32&{words[0][2:].replace('-', '_')}={words[1]}"
    over_http = json.loads(msgspec.json.encode(sizes(store, query, job())))
    assert [{key: size[key] for key in printed[0]} for size in over_http] == printed


def test_efficiency_is_that_of_the_prediction(store):
    store.record(JOB, *TWO_HOSTS)
    (size,) = sizes(store, "ranks=8&batch_per_rank=512")
    assert size["efficiency"]["scaling"] == "weak"
    assert size["efficiency"]["ratio"] == pytest.approx(point(8, 4096).rate / point(1, 512).rate, rel=0.05)


# -- unknown values


def test_unmeasured_links_affect_only_their_sizes(store):
    store.record(JOB, *ONE_HOST)
    within, across = sizes(store, "ranks=4,8&what_if=own=0.5")
    assert within["predicted"]["seconds"] > 0
    for key in ("predicted", "what_if", "efficiency"):
        assert "was not measured" in across[key]["unknown"]


def test_single_rank_allows_no_prediction(store):
    store.record(JOB, point(1, 512))
    scaling = answer(store, job(now=step_window()))
    assert "several ranks" in scaling["unknown"]
    assert (len(scaling["points"]), scaling["sizes"], scaling["now"]["ranks"]) == (1, [], 4)


@pytest.mark.parametrize("state", ["stalled", "eval", "checkpoint", "unknown", "exited"])
def test_job_that_does_not_train_has_no_size_now(store, state):
    store.record(JOB, *ONE_HOST)
    scaling = answer(store, job(now=step_window()), state=state)
    assert scaling["now"] is None
    assert [size["ranks"] for size in scaling["sizes"]] == [1, 2, 4, 8, 16, 32]


def test_steps_without_duration_give_no_size_now(store):
    assert answer(store, job(now=step_window(seconds=0.0)))["now"] is None


UNUSABLE = replace(point(4, 2048), sent_bytes={"all_to_all": 1e-200, "all_reduce": 1e-200})


@pytest.mark.parametrize(
    ("points", "unknown"), [((), f"no baseline is recorded for {JOB}"), ((UNUSABLE,), "cannot be used")]
)
def test_answer_without_a_usable_baseline_has_a_reason(store, points, unknown):
    store.record(JOB, *points)
    scaling = answer(store, job())
    assert unknown in scaling["unknown"]
    assert ([p["ranks"] for p in scaling["points"]], scaling["now"]) == ([p.ranks for p in points], None)


def test_links_between_the_hosts_of_the_job_are_not_those_of_one_host(store):
    store.record(JOB, *ONE_HOST)  # recorded with four ranks per host; this job has two
    job_ = job(now=step_window())
    two_hosts = replace(job_, ranks=tuple(replace(r, host=f"node-{r.rank // 2}") for r in job_.ranks))
    (size,) = sizes(store, "ranks=4", two_hosts)
    assert "between hosts" in size["predicted"]["unknown"]


def test_jobs_of_a_name_share_a_curve(store):
    store.record("ranker", *ONE_HOST)
    scaling = answer(store, job(labels={"name": "ranker"}))
    assert (scaling["name"], len(scaling["points"])) == ("ranker", 3)

"""Tests of the scaling endpoint. Its predictions equal those of `zmon predict`, or it gives a reason."""

import json
from dataclasses import replace

import msgspec
import pytest
from click.testing import CliRunner
from multidict import MultiDict
from yarl import URL

from tests.build import JOB
from tests.hub.fakes import healthy, step_records
from tests.hub.step_windows import job, step_window
from tests.scaling.test_fit import point
from zmon.cli.main import cli
from zmon.errors import UsageError
from zmon.hub.api.scaling import scaling_answer, size_query
from zmon.hub.api.view import job_state
from zmon.hub.baseline_recorder import BaselineRecorder
from zmon.schema.api import ScalingRequest

ONE_HOST = (point(1, 512), point(4, 2048), point(4, 1024))
TWO_HOSTS = (*ONE_HOST, point(8, 4096))


def answer(store, job_, query="", state=None):
    """Return the answer, as JSON types, to a request with this query."""
    words = MultiDict(URL(f"/?{query}").query)
    what_ifs = tuple(words.getall("what_if", ()))
    request = ScalingRequest(JOB, words.get("ranks"), words.get("batch"), words.get("batch_per_rank"), what_ifs)
    curve_and_model = BaselineRecorder(store).model(job_)
    made = scaling_answer(job_, state or job_state(job_, ()), *curve_and_model, size_query(request))
    return msgspec.to_builtins(made)


def sizes(store, query="", job_=None):
    """Return the sizes in the answer; by default about a job of four ranks that trains."""
    return answer(store, job_ or job(now=step_window()), query)["sizes"]


def ranks(store, query=""):
    """Return the number of ranks of each size in the answer."""
    return [size["ranks"] for size in sizes(store, query)]


async def test_answer_has_the_curve_and_the_size_of_the_job_now(start_agent_and_hub, store):
    store.record(JOB, *TWO_HOSTS)
    agent, hub_client = await start_agent_and_hub(*healthy())
    await hub_client.passes(1)
    agent.records = step_records(1, 300)
    await hub_client.passes()
    scaling = await hub_client.get(f"/api/v1/jobs/{JOB}/scaling?ranks=4,16&what_if=net=2")
    assert (scaling["schema"], scaling["job_id"], scaling["name"], scaling["unknown"]) == (1, JOB, JOB, "")
    assert [(p["ranks"], p["samples"]) for p in scaling["points"]] == [(1, 512), (4, 1024), (4, 2048), (8, 4096)]
    now = {"ranks": 4, "samples": 128, "seconds": pytest.approx(0.02), "samples_per_second": pytest.approx(6400)}
    assert scaling["now"] == now
    four, sixteen = scaling["sizes"]
    assert (four["ranks"], four["samples"], sixteen["samples"]) == (4, 128, 512)
    assert sixteen["what_if"]["seconds"] < sixteen["predicted"]["seconds"]
    assert scaling["what_ifs"]["net"] == "bandwidth between hosts"


@pytest.mark.parametrize(
    ("option", "text"), [("--batch", "8192"), ("--batch-per-rank", "256"), ("--what-if", "wire=0.5")]
)
def test_endpoint_and_command_line_agree(store, tmp_path, option, text):
    store.record(JOB, *TWO_HOSTS)
    command = ["predict", JOB, "--data-dir", str(tmp_path), "--ranks", "2,8,32", option, text, "--json"]
    printed = json.loads(CliRunner().invoke(cli, command).output)["sizes"]
    query = f"ranks=2,8,32&{option.removeprefix('--').replace('-', '_')}={text}"
    over_http = json.loads(msgspec.json.encode(sizes(store, query, job())))
    assert [{key: size[key] for key in printed[0]} for size in over_http] == printed


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


def test_default_sizes_end_at_eight_times_the_job(store):
    store.record(JOB, point(3, 1536), point(6, 3072), point(6, 1536))
    assert ranks(store) == [3, 4, 6, 8, 16, 32]


def test_smallest_default_sizes_are_left_out_beyond_the_limit(store):
    store.record(JOB, *(point(ranks, 512 * ranks) for ranks in range(1, 40)))
    assert ranks(store) == [4, *range(17, 40)]


def test_samples_per_rank_are_from_the_last_window_during_evaluation(store):
    store.record(JOB, *ONE_HOST)
    evaluates = job(now=step_window(samples=128), activity="eval")
    scaling = answer(store, evaluates, "ranks=2")
    assert (scaling["now"], scaling["sizes"][0]["samples"]) == (None, 64)


@pytest.mark.parametrize("job_", [job(), job(now=step_window(samples=None))])
def test_samples_per_rank_are_from_the_smallest_size_without_reports(store, job_):
    store.record(JOB, *ONE_HOST)
    scaling = answer(store, job_, "ranks=2")
    assert (scaling["now"], scaling["sizes"][0]["samples"]) == (None, 1024)


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("ranks=4,four", "not a list of sizes"),
        ("ranks=" + ",".join(map(str, range(1, 66))), "65 sizes: an answer has at most 64"),
        ("batch=", "is not a number of samples"),
        ("batch=0", "is not a number of samples"),
        ("batch=1e3", "is not a number of samples"),
        ("batch_per_rank=-1", "is not a number of samples"),
        ("batch_per_rank=99999999999", "from 1 to 2"),
        ("batch=8&batch_per_rank=2", "contradict each other"),
        ("what_if=own=2&what_if=gpu=2", "--what-if gpu=2 is not valid"),
    ],
)
def test_invalid_query_is_refused(store, query, error):
    with pytest.raises(UsageError, match=error):
        answer(store, job(), query)


def test_largest_allowed_number_of_sizes_is_answered(store):
    store.record(JOB, *ONE_HOST)
    assert len(ranks(store, "ranks=" + ",".join(map(str, range(1, 65))))) == 64

"""What the hub tells of more ranks is what `zmon predict` tells, and unknown where nobody can."""

import json
from dataclasses import replace

import msgspec
import pytest
from click.testing import CliRunner
from multidict import MultiDict
from yarl import URL

from tests.build import JOB
from tests.hub.fakes import FakeAgent, halves, healthy, silent
from tests.hub.test_baseline_recorder import good, job
from tests.hub.test_job_state import steps
from tests.scaling.test_fit import LINKS, point
from zmon.cli.main import cli
from zmon.errors import UsageError
from zmon.hub.api.scaling import scaling_answer, size_query
from zmon.hub.api.view import job_state
from zmon.hub.baseline_recorder import BaselineRecorder
from zmon.hub.baseline_store import FOLDER, BaselineStore
from zmon.schema.api import ScalingRequest

HERE = (point(1, 512), point(4, 2048), point(4, 1024))  # one host
BEYOND = (*HERE, point(8, 4096))  # and two


@pytest.fixture
def kept(tmp_path):
    return BaselineStore(tmp_path / FOLDER)


def answer(kept, seen, query="", state=None):
    """The answer as JSON, to a request with this query."""
    words = MultiDict(URL(f"/?{query}").query)
    what_ifs = tuple(words.getall("what_if", ()))
    request = ScalingRequest(JOB, words.get("ranks"), words.get("batch"), words.get("batch_per_rank"), what_ifs)
    made = scaling_answer(seen, state or job_state(seen, ()), *BaselineRecorder(kept).model(seen), size_query(request))
    return msgspec.to_builtins(made)


def sizes(kept, query="", seen=None):
    return answer(kept, seen or job(now=good()), query)["sizes"]


def ranks(kept, query="", seen=None):
    return [size["ranks"] for size in sizes(kept, query, seen)]


def scaling_of(query=""):
    return f"/api/v1/jobs/{JOB}/scaling?{query}"


# -- over HTTP


def test_dashboard_reads_the_curve_and_where_the_job_is_on_it(play, kept):
    agent = FakeAgent(*healthy())
    kept.record(JOB, *BEYOND)

    async def scenario(door):
        await door.passes(1)
        agent.records = steps(1, 300)
        await door.passes()
        told = await door.get(scaling_of("ranks=4,16&what_if=net=2"))
        assert (told["schema"], told["job_id"], told["name"], told["unknown"]) == (1, JOB, JOB, "")
        assert [(p["ranks"], p["samples"]) for p in told["points"]] == [(1, 512), (4, 1024), (4, 2048), (8, 4096)]
        now = {"ranks": 4, "samples": 128, "seconds": pytest.approx(0.02), "samples_per_second": pytest.approx(6400)}
        assert told["now"] == now
        four, sixteen = told["sizes"]
        assert (four["ranks"], four["samples"], sixteen["samples"]) == (4, 128, 512)
        assert sixteen["what_if"]["seconds"] < sixteen["predicted"]["seconds"]
        assert told["what_ifs"]["net"] == "bandwidth between hosts"

    play(scenario, agent)


def test_job_that_nobody_reports_is_not_there(play):
    async def scenario(door):
        await door.passes(1)
        await door.get("/api/v1/jobs/nothing/scaling", status=404)

    play(scenario, FakeAgent(*healthy()))


def test_job_of_which_nothing_was_recorded_says_so(play):
    async def scenario(door):
        await door.passes(1)
        told = await door.get(scaling_of())
        assert told["unknown"] == f"nothing was recorded of {JOB}"
        assert (told["points"], told["sizes"], told["now"]) == ([], [], None)

    play(scenario, FakeAgent(*healthy()))


def test_what_cannot_be_is_refused_in_one_line_and_asked_anew_answered(play, kept):
    kept.record(JOB, *BEYOND)

    async def scenario(door):
        await door.passes(1)
        for query, says in (("what_if=gpu=2", "use one of net=FACTOR"), ("batch=8&batch_per_rank=2", "contradict")):
            refused = await door.get(scaling_of(query), status=400)
            assert says in refused["error"]
            assert "\n" not in refused["error"]
        assert (await door.get(scaling_of("what_if=own=2")))["sizes"]

    play(scenario, FakeAgent(*healthy()))


def test_baseline_with_numbers_that_no_job_can_have_makes_it_unknown_and_the_hub_lives(play, kept):
    kept.record(JOB, replace(point(4, 2048), sent_bytes={"all_to_all": 1e-200, "all_reduce": 1e-200}))

    async def scenario(door):
        await door.passes(1)
        told = await door.get(scaling_of())
        assert "cannot be used" in told["unknown"]
        assert [p["ranks"] for p in told["points"]] == [4]
        await door.passes(1)

    play(scenario, FakeAgent(*healthy()))


def test_stalled_job_has_no_now_and_keeps_its_curve(play, kept):
    kept.record(JOB, *HERE)

    async def scenario(door):
        await door.passes(3)
        told = await door.get(scaling_of())
        assert told["now"] is None
        assert [size["ranks"] for size in told["sizes"]] == [1, 2, 4, 8, 16, 32]

    play(scenario, FakeAgent(*silent()))


def test_hosts_of_the_job_say_how_many_ranks_one_takes(play, kept):
    kept.record(JOB, *HERE)  # four on a host; of this job two

    async def scenario(door):
        await door.passes(1)
        (size,) = (await door.get(scaling_of("ranks=4")))["sizes"]
        assert "between hosts" in size["predicted"]["unknown"]

    play(scenario, *halves())


# -- what is predicted


@pytest.mark.parametrize("words", [("--batch", "8192"), ("--batch-per-rank", "256"), ("--what-if", "wire=0.5")])
def test_command_line_says_the_same_of_the_same_baseline(kept, tmp_path, words):
    kept.record(JOB, *BEYOND)
    command = ["predict", JOB, "--data-dir", str(tmp_path), "--ranks", "2,8,32", *words, "--json"]
    at_terminal = json.loads(CliRunner().invoke(cli, command).output)["sizes"]
    query = f"ranks=2,8,32&{words[0][2:].replace('-', '_')}={words[1]}"
    told = json.loads(msgspec.json.encode(sizes(kept, query, job())))
    assert [{key: size[key] for key in at_terminal[0]} for size in told] == at_terminal


@pytest.mark.parametrize("what_if", ["net=2", "latency=0.5", "wire=0.5", "own=0.5"])
def test_what_is_better_takes_less(kept, what_if):
    late = replace(LINKS, net=replace(LINKS.net, latency_seconds=0.001))
    kept.record(JOB, *(point(ranks, samples, links=late) for ranks, samples in ((4, 2048), (8, 2048), (8, 4096))))
    (size,) = sizes(kept, f"ranks=16&what_if={what_if}")
    assert size["what_if"]["seconds"] < size["predicted"]["seconds"]
    assert size["what_if"]["samples_per_second"] > size["predicted"]["samples_per_second"]


def test_what_ifs_come_together(kept):
    kept.record(JOB, *BEYOND)
    (size,) = sizes(kept, "ranks=16&what_if=own=0.5&what_if=wire=0.5")
    assert size["what_if"]["seconds"] == pytest.approx(size["predicted"]["seconds"] / 2)


def test_efficiency_is_of_what_is_predicted(kept):
    kept.record(JOB, *BEYOND)
    (size,) = sizes(kept, "ranks=8&batch_per_rank=512")
    assert size["efficiency"]["scaling"] == "weak"
    assert size["efficiency"]["ratio"] == pytest.approx(point(8, 4096).rate / point(1, 512).rate, rel=0.05)


def test_points_are_told_as_they_were_recorded(kept):
    kept.record(JOB, replace(point(2, 1024), half_width_seconds=0.001))
    (told,) = answer(kept, job())["points"]
    seconds, causes = point(2, 1024).seconds, point(2, 1024).causes
    assert (told["ranks"], told["samples"], told["seconds"], told["causes"]) == (2, 1024, seconds, causes)
    assert (told["half_width_seconds"], told["by"], told["recorded"]) == (0.001, "zmon scaling", 1.8e9)
    assert told["samples_per_second"] == pytest.approx(1024 / seconds)


# -- at which sizes, where nobody names them


def test_sizes_go_from_the_smallest_recorded_to_eight_times_the_job(kept):
    kept.record(JOB, point(3, 1536), point(6, 3072), point(6, 1536))
    assert ranks(kept) == [3, 4, 6, 8, 16, 32]


def test_sizes_that_are_too_many_lose_the_smallest(kept):
    kept.record(JOB, *(point(ranks, 512 * ranks) for ranks in range(1, 40)))
    told = ranks(kept)
    assert len(told) == 24
    assert told == [4, *range(17, 40)]


def test_rank_has_as_many_samples_as_the_job_has_last_even_while_it_evaluates(kept):
    kept.record(JOB, *HERE)
    evaluates = job(now=good(samples=128), activity="eval")
    told = answer(kept, evaluates, "ranks=2")
    assert (told["now"], told["sizes"][0]["samples"]) == (None, 64)


@pytest.mark.parametrize("seen", [job(), job(now=good(samples=None))])
def test_rank_has_as_many_samples_as_the_smallest_size_where_the_job_tells_none(kept, seen):
    kept.record(JOB, *HERE)
    told = answer(kept, seen, "ranks=2")
    assert (told["now"], told["sizes"][0]["samples"]) == (None, 1024)


# -- what is quiet, and what is unknown


def test_nothing_changes_where_nothing_was_asked(kept):
    kept.record(JOB, *BEYOND)
    assert {size["what_if"] for size in sizes(kept)} == {None}


def test_links_that_nobody_measured_are_unknown_at_their_sizes_alone(kept):
    kept.record(JOB, *HERE)
    here, beyond = sizes(kept, "ranks=4,8&what_if=own=0.5")
    assert here["predicted"]["seconds"] > 0
    for told in ("predicted", "what_if", "efficiency"):
        assert "was not measured" in beyond[told]["unknown"]


def test_size_that_scales_from_nothing_has_a_step_and_no_efficiency(kept):
    kept.record(JOB, *BEYOND)
    (size,) = sizes(kept, "ranks=16&batch_per_rank=100")
    assert size["predicted"]["seconds"] > 0
    assert "no recorded size of" in size["efficiency"]["unknown"]


def test_single_rank_alone_lets_predict_nothing(kept):
    kept.record(JOB, point(1, 512))
    told = answer(kept, job(now=good()))
    assert "several ranks" in told["unknown"]
    assert (len(told["points"]), told["sizes"], told["now"]["ranks"]) == (1, [], 4)


def test_baseline_that_cannot_be_read_makes_it_unknown(kept, tmp_path):
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / f"{JOB}.json").write_text("{")
    told = answer(kept, job(now=good()))
    assert "cannot be read" in told["unknown"]
    assert told["points"] == []


@pytest.mark.parametrize("state", ["stalled", "eval", "checkpoint", "unknown", "exited"])
def test_job_that_does_not_train_is_nowhere_on_the_curve(kept, state):
    assert answer(kept, job(now=good()), state=state)["now"] is None


def test_steps_that_took_no_time_at_all_are_nowhere_on_the_curve(kept):
    assert answer(kept, job(now=good(seconds=0.0)))["now"] is None


def test_jobs_of_a_name_have_one_curve(kept):
    kept.record("ranker", *HERE)
    told = answer(kept, job(labels={"name": "ranker"}))
    assert (told["name"], len(told["points"])) == ("ranker", 3)


# -- what is refused


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("ranks=", "not a list of sizes"),
        ("ranks=4,four", "not a list of sizes"),
        ("ranks=0", "not a list of sizes"),
        ("ranks=-4", "not a list of sizes"),
        ("ranks=99999999999999999999", "from 1 to 2"),
        ("ranks=" + ",".join(map(str, range(1, 66))), "65 sizes: an answer has 64 at most"),
        ("batch=", "no number of samples"),
        ("batch=0", "no number of samples"),
        ("batch=1e3", "no number of samples"),
        ("batch_per_rank=-1", "no number of samples"),
        ("batch_per_rank=99999999999", "from 1 to 2"),
        ("batch=8&batch_per_rank=2", "contradict each other"),
        ("what_if=net", "use one of net=FACTOR"),
        ("what_if=net=0", "A factor is above 0"),
        ("what_if=own=2&what_if=gpu=2", "--what-if gpu=2 is not valid"),
    ],
)
def test_query_that_cannot_be_is_refused_whatever_was_recorded(kept, query, says):
    with pytest.raises(UsageError, match=says):
        answer(kept, job(), query)


def test_as_many_sizes_as_are_allowed_are_answered(kept):
    kept.record(JOB, *HERE)
    assert len(ranks(kept, "ranks=" + ",".join(map(str, range(1, 65))))) == 64

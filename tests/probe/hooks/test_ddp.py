"""Tests of the counts of DDP on two real ranks, compared with the flight recorder of torch for each way to train."""

from types import SimpleNamespace

import pytest

from tests.probe.hooks.ddp_models import net
from tests.probe.hooks.job import run_job

pytestmark = pytest.mark.e2e  # the fixture `ranks` starts ranks
# The scenarios of ddp_job whose counts and bytes equal those of the flight recorder.
EXACT = (
    "plain", "buffers", "two_types", "accumulated", "find_unused", "static_graph", "bucket_view", "built_in_hook",
    "own_hook", "own_hook_static_graph", "gan", "sub_group", "checkpointed", "retained_graph", "several_roots",
    "explicit_gradients", "second_derivatives", "joined", "joined_with_unused", "raising", "late_peer", "copied",
    "unpickled", "settled", "settled_static_graph", "settled_static_graph_with_unused", "settled_accumulated",
    "settled_checkpointed", "settled_explicit_gradients", "settled_hook", "settled_copied", "settled_released",
    "settled_joined", "settled_raising", "settled_late_peer", "settled_reentrant", "settled_callback",
    "settled_threads", "settled_groups", "compiled",
)  # fmt: skip
BYTES_UNKNOWN = ("sparse", "in_two_parts")  # only the counts equal those of the flight recorder
NOT_EXACT = (*BYTES_UNKNOWN, "settled_unseen", "unreadable_root", "compiling")
GRADIENT_BYTES = sum(parameter.nbytes for parameter in net().parameters())  # of the module in most scenarios


@pytest.fixture(
    scope="module",
    params=["torch_zygote", pytest.param("torch_zygote_of_python_edge", marks=pytest.mark.slow)],
    ids=["default edge", "Python edge"],
)
def ranks(request, tmp_path_factory):
    """Return what each scenario noted, and the record of its step, by rank and scenario."""
    *scenarios, last = EXACT
    names = ",".join((*scenarios, *NOT_EXACT, last))  # the last scenario runs what "compiling" has compiled
    zygote = request.getfixturevalue(request.param)
    results = run_job(
        zygote, tmp_path_factory.mktemp("ddp"), "ddp_job.py", 120, SCENARIOS=names, TORCH_FR_BUFFER_SIZE="5000"
    )
    return [
        {name: SimpleNamespace(record=record, **values)
         for (name, values), record in zip(rank.noted.items(), rank.records, strict=True)} | {"output": rank.output}
        for rank in results
    ]  # fmt: skip


def measured_counts(scenario):
    """Return count and bytes by op, as the flight recorder has them; in a broadcast a rank sends or receives."""
    return {
        op: [moved.count, (sum if op == "broadcast" else max)([moved.sent_bytes, moved.received_bytes])]
        for op, moved in scenario.record.measures.ops.items()
        if moved.count and op != "barrier"  # the barrier between the scenarios is not counted
    }


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("name", EXACT)
def test_counts_and_bytes_equal_those_of_the_flight_recorder(ranks, rank, name):
    scenario = ranks[rank][name]
    assert scenario.recorded
    assert measured_counts(scenario) == scenario.recorded
    assert scenario.dropped == 0


@pytest.mark.parametrize("name", BYTES_UNKNOWN)
def test_counts_are_right_even_if_bytes_are_unknown(ranks, name):
    for rank in ranks:
        scenario = rank[name]
        assert {op: count for op, (count, _) in measured_counts(scenario).items()} == {
            op: count for op, (count, _) in scenario.recorded.items()
        }


def test_unseen_collectives_between_passes_are_not_counted_as_reductions(ranks):
    for rank in ranks:
        scenario = rank["settled_unseen"]
        measured, _ = measured_counts(scenario)["all_reduce"]
        recorded, _ = scenario.recorded["all_reduce"]
        assert measured == recorded - scenario.unseen


def test_pass_whose_root_cannot_be_read_is_dropped(ranks):
    assert [rank["unreadable_root"].dropped for rank in ranks] == [1, 1]


def test_bytes_of_sparse_gradients_are_unknown_and_reported_once(ranks):
    for rank in ranks:
        assert rank["sparse"].dropped == 4  # one for each pass
        assert rank["output"].count("bytes of some gradients are unknown") == 1


def test_rank_waits_in_backward_for_the_late_rank(ranks):
    early, late = (rank["late_peer"].record.measures.ops["all_reduce"].exposed_seconds for rank in ranks)
    assert early > 0.25
    assert late < early / 2


@pytest.mark.parametrize("name", ["late_peer", "settled_late_peer"])
def test_box_shows_the_wait_in_backward(ranks, name):
    sent_and_received = 2 * GRADIENT_BYTES
    assert ranks[1][name].peer == ["all_reduce", sent_and_received]


def test_c_edge_alone_measures_the_passes_of_the_only_module_while_they_are_alike(ranks):
    for rank in ranks:
        assert rank["settled"].offered is (rank["settled"].edge == "c")
        assert rank["settled_static_graph"].offered is (rank["settled"].edge == "c")
        assert rank["settled_hook"].offered is False


def test_nothing_is_left_on_a_parameter_whose_module_is_gone(ranks):
    for rank in ranks:
        released = rank["settled_released"]
        assert released.hooks == [released.edge == "c", 0]
        assert released.weak_references == 0


def test_rank_has_no_collective_in_flight_after_backward_raised(ranks):
    for rank in ranks:
        assert rank["raising"].errors == ["in backward", "in a callback"]
        assert rank["settled_raising"].errors == ["in backward"]
        assert rank["settled_callback"].errors == ["in a callback"]
        for name in ("raising", "settled_raising", "settled_callback"):
            assert rank[name].in_op is False, name


def test_copied_ddp_modules_are_released(ranks):
    for rank in ranks:
        assert rank["copied"].still_alive == [False, False]
        assert rank["copied"].reducers == 0


def test_hooks_add_no_graph_break_to_those_of_ddp(ranks):
    """Without zmon there are 3 in torch 2.13, at DDP's forward and its logger; another torch may have one more."""
    for rank in ranks:
        assert rank["compiled"].graph_breaks <= 4

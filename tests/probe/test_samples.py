"""Tests of the samples that the probe infers from the batches of a step."""

import pytest

from tests.probe.reading import read_steps
from zmon.probe.rank import CHECKPOINT, EVAL, OP_NUMBER, TRAIN


@pytest.fixture
def box(box):
    """Return the box of a rank that has begun to train."""
    box.timeline.turn_to(TRAIN)
    return box


def call_model(counter, model, samples, num_backward=1):
    """Call a model, and run this number of backward passes."""
    counter.call(model, samples)
    for _ in range(num_backward):
        counter.end_backward()


# What happens in each step → its samples. The words are `load DATA_SET SAMPLES`, `call MODEL SAMPLES BACKWARD_PASSES`,
# `work SAMPLES` (the job reports them), `send` (to the next stage of a pipeline), and changes of the activity.
STEPS = {
    "batches of one step are added up": (["load 1 8", "load 1 8, load 1 8", "load 1 8, load 1 3"], [8, 16, 11]),
    "step without a batch is unknown and not zero": ([""], [None]),
    "two data sets side by side are not added up": (["load 1 8, load 2 56, load 1 8, load 2 56"], [112]),
    "input of the model counts only if no loader is known": (
        ["call 1 4 1", "call 1 4 1, load 1 8", "call 1 4 1"], [4, 8, None],
    ),
    "job that reports its samples ends the inference": (["load 1 8, work 5", "load 1 8, call 1 8 1"], [5, None]),
    # The first batch of an evaluation, or of the training after it, is loaded before its first forward pass.
    "batches of an evaluation or a checkpoint belong to no step": (
        ["load 1 8", "load 2 100, eval, load 2 100, load 2 100, load 1 8, train", "checkpoint, train, load 1 7"],
        [8, 8, 7],
    ),
    # All stages process the same samples, so their sum would be a multiple of what the job trains on.
    "samples of a pipeline stage are unknown": (["load 1 8, send"], [None]),
    "one call of the model": (["call 1 8 1"], [8]),
    "two losses of one call": (["call 1 8 2"], [8]),
    "gradient accumulation": (["call 1 8 1, call 1 8 1"], [16]),
    "two views of the same samples": (["call 1 8 0, call 1 8 1"], [8]),
    "a second model, behind the first": (["call 1 8 1, call 2 64 1"], [8]),
    "nothing was trained": (["call 1 8 0"], [None]),
}  # fmt: skip


@pytest.mark.parametrize(("steps", "samples"), STEPS.values(), ids=STEPS)
def test_samples_are_inferred(box, steps, samples):
    line, counter = box.timeline, box.ledger.samples
    actions = {
        "load": counter.load,
        "call": lambda *numbers: call_model(counter, *numbers),
        "work": lambda number: box.ledger.work(number, None),
        "send": lambda: line.count_op(OP_NUMBER["send"], 0, 64, 0),
        "eval": lambda: line.turn_to(EVAL),
        "checkpoint": lambda: line.turn_to(CHECKPOINT),
        "train": lambda: line.turn_to(TRAIN),
    }
    for step in steps:
        for act in filter(None, step.split(", ")):
            word, *numbers = act.split()
            actions[word](*map(int, numbers))
        line.end_step()
    records, totals = read_steps(box)
    known = [number for number in samples if number is not None]
    assert [record.measures.samples for record in records] == samples
    assert totals.measures.samples == (sum(known) if known else None)


def test_source_is_published_once_it_is_known_and_when_it_changes(box):
    sources = []
    counter = box.ledger.samples
    counter.on_source = sources.append
    for _ in range(3):
        call_model(counter, 1, 8)
        box.timeline.end_step()
    for _ in range(2):
        counter.load(1, 8)
        box.timeline.end_step()
    for _ in range(2):
        box.ledger.work(8, None)
    assert sources == ["model", "loader", "declared"]

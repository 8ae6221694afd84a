"""Tests of the samples that the probe infers from the batches of a step."""

import pytest

from tests.probe.reading import read_steps
from zmon.probe.rank import CHECKPOINT, EVAL, OP_NUMBER, TRAIN


@pytest.fixture
def box(box):
    """Return the box of a rank that has begun to train."""
    box.timeline.turn_to(TRAIN)
    return box


def samples_of_steps(box):
    """Return the samples of each step."""
    return [record.measures.samples for record in read_steps(box).records]


def call_model(counter, model, samples, backward=1):
    """Call a model with these samples, and run its backward passes."""
    counter.call(model, samples)
    for _ in range(backward):
        counter.end_backward()


STEPS = {  # what each step loads and calls, as `load DATA_SET SAMPLES` or `call MODEL SAMPLES` → samples and source
    "batches of one step are added up": (
        ["load 1 8", "load 1 8, load 1 8", "load 1 8, load 1 3"], [8, 16, 11], "loader"
    ),
    "step without a batch is unknown and not zero": ([""], [None], ""),
    "two data sets side by side are not added up": (
        ["load 1 8, load 2 56, load 1 8, load 2 56"], [112], "loader"
    ),
    "input of the model counts only if no loader is known": (
        ["call 1 4", "call 1 4, load 1 8", "call 1 4"], [4, 8, None], "loader"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("steps", "samples", "source"), STEPS.values(), ids=STEPS)
def test_samples_are_inferred(box, steps, samples, source):
    counter = box.ledger.samples
    for step in steps:
        for act in filter(None, step.split(", ")):
            verb, *numbers = act.split()
            if verb == "load":
                counter.load(*map(int, numbers))
            else:
                call_model(counter, *map(int, numbers))
        box.timeline.end_step()
    known = [number for number in samples if number is not None]
    assert samples_of_steps(box) == samples
    assert read_steps(box).totals.measures.samples == (sum(known) if known else None)
    assert counter.source == source


def test_job_that_reports_its_samples_ends_the_inference(box):
    box.ledger.samples.load(1, 8)
    box.ledger.work(5, None)
    box.timeline.end_step()
    box.ledger.samples.load(1, 8)
    call_model(box.ledger.samples, 1, 8)
    box.timeline.end_step()
    assert samples_of_steps(box) == [5, None]
    assert read_steps(box).totals.measures.samples == 5
    assert box.ledger.samples.source == "declared"


def test_batches_of_an_evaluation_or_a_checkpoint_belong_to_no_step(box):
    counter = box.ledger.samples
    counter.load(1, 8)
    box.timeline.end_step()
    counter.load(2, 100)  # the first batch of the evaluation is loaded before its first forward pass
    box.timeline.turn_to(EVAL)
    for _ in range(3):
        counter.load(2, 100)
    counter.load(1, 8)  # the first batch of the training is loaded before its first forward pass
    box.timeline.turn_to(TRAIN)
    box.timeline.end_step()
    box.timeline.turn_to(CHECKPOINT)
    box.timeline.turn_to(TRAIN)
    counter.load(1, 7)
    box.timeline.end_step()
    assert samples_of_steps(box) == [8, 8, 7]


CALLS = {  # model, samples and backward passes of each call → samples of the step
    "one call": ([(1, 8, 1)], 8),
    "two losses": ([(1, 8, 2)], 8),
    "gradient accumulation": ([(1, 8, 1), (1, 8, 1)], 16),
    "two views of the same samples": ([(1, 8, 0), (1, 8, 1)], 8),
    "a second model, behind the first": ([(1, 8, 1), (2, 64, 1)], 8),
    "nothing was trained": ([(1, 8, 0)], None),
}


@pytest.mark.parametrize(("calls", "samples"), CALLS.values(), ids=CALLS)
def test_calls_of_the_model_are_counted_with_its_backward_passes(box, calls, samples):
    for model, size, backward in calls:
        call_model(box.ledger.samples, model, size, backward)
    box.timeline.end_step()
    assert samples_of_steps(box) == [samples]


def test_samples_of_a_pipeline_stage_are_unknown(box):
    """All stages process the same samples, so their sum would be a multiple of what the job trains on."""
    box.ledger.samples.load(1, 8)
    box.timeline.count_op(OP_NUMBER["send"], 0, 64, 0)
    box.timeline.end_step()
    assert samples_of_steps(box) == [None]


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

"""Tests of the loader. Batches come in order, at most `depth` batches are read ahead, and closing ends its thread."""

import threading
import time

import pytest
import torch

from trainer.batch import Batch
from trainer.config import LoaderConfig
from trainer.errors import ConfigError
from trainer.loader import Extent, Loader

NOTHING = torch.empty(0)
GLOBAL_BATCH = 8


class NumberedSource:
    """A source whose labels are the numbers of the samples; it records the steps that were requested."""

    def __init__(self, num_samples: int = 10, failing_step: int | None = None) -> None:
        self.num_samples = num_samples
        self.failing_step = failing_step
        self.steps: list[int] = []

    def batch(self, step: int, start: int, size: int) -> Batch:
        self.steps.append(step)
        if step == self.failing_step:
            raise OSError("the disk is gone")
        first = step * GLOBAL_BATCH + start
        labels = torch.arange(first, first + size) % self.num_samples
        return Batch(NOTHING, NOTHING, NOTHING, labels)

    def held_out(self) -> "NumberedSource":
        raise NotImplementedError


def wait_for_requests(source: NumberedSource, number: int) -> list[int]:
    """Wait until the source got this many requests, and return the requested steps.

    It waits a little longer, in which a loader that reads too far ahead makes a further request.
    """
    deadline = time.monotonic() + 10
    while len(source.steps) < number and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(0.05)
    return source.steps


@pytest.mark.parametrize("depth", [0, 1, 2, 5])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("num_samples", [1, 3, 8, 10, 33])
@pytest.mark.parametrize("epochs", [1, 3])
def test_every_sample_is_loaded_once_per_epoch_by_a_single_rank(
    depth: int, ranks: int, num_samples: int, epochs: int
) -> None:
    """Most numbers of samples and ranks do not divide the batch evenly. All ranks take part in every step."""
    extent = Extent.of_epochs(epochs, num_samples, global_batch=GLOBAL_BATCH)
    batches: list[list[int]] = []
    for rank in range(ranks):
        with Loader(NumberedSource(num_samples), extent, rank, ranks, depth) as loader:
            for step, step_batch in enumerate(loader):
                assert step_batch.step == step
                assert step_batch.global_batch == (GLOBAL_BATCH if step < extent.steps - 1 else extent.last_batch)
                if step == len(batches):
                    batches.append([])
                batches[step] += step_batch.batch.labels.tolist()
            assert step == extent.steps - 1
    assert all(batches)
    assert [len(labels) for labels in batches] == [GLOBAL_BATCH] * (extent.steps - 1) + [extent.last_batch]
    assert [label for labels in batches for label in labels] == list(range(num_samples)) * epochs


@pytest.mark.parametrize("depth", [0, 2])
def test_loader_starts_at_any_step(depth: int) -> None:
    with Loader(NumberedSource(), Extent.of_steps(7, GLOBAL_BATCH), 0, 1, depth, first=5) as loader:
        assert [step_batch.step for step_batch in loader] == [5, 6]
    with Loader(NumberedSource(), Extent.of_steps(7, GLOBAL_BATCH), 0, 1, depth, first=7) as loader:
        assert list(loader) == []


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_loader_reads_at_most_depth_batches_ahead(depth: int) -> None:
    source = NumberedSource()
    with Loader(source, Extent.of_steps(None, GLOBAL_BATCH), 0, 1, depth) as loader:
        assert wait_for_requests(source, depth) == list(range(depth))
        for step in range(3):
            assert next(loader).step == step
            assert wait_for_requests(source, step + 1 + depth) == list(range(step + 1 + depth))


def test_loader_with_depth_0_reads_on_demand_without_thread() -> None:
    source, threads = NumberedSource(), threading.active_count()
    with Loader(source, Extent.of_steps(None, GLOBAL_BATCH), 0, 1, depth=0) as loader:
        assert threading.active_count() == threads
        assert source.steps == []
        next(loader)
        assert source.steps == [0]


@pytest.mark.parametrize("depth", [0, 1, 4])
def test_exception_of_source_is_raised_in_place_of_its_batch(depth: int) -> None:
    with Loader(NumberedSource(failing_step=2), Extent.of_steps(9, GLOBAL_BATCH), 0, 1, depth) as loader:
        assert [next(loader).step, next(loader).step] == [0, 1]
        with pytest.raises(OSError, match=r"the disk is gone"):
            next(loader)
        with pytest.raises((OSError, StopIteration)):  # it does not wait for a batch that never comes
            next(loader)


def test_finished_loader_yields_no_more_batches() -> None:
    with Loader(NumberedSource(), Extent.of_steps(1, GLOBAL_BATCH), 0, 1, depth=2) as loader:
        assert len(list(loader)) == 1
        assert list(loader) == list(loader) == []


@pytest.mark.parametrize("num_read", [0, 1, 2])
def test_close_ends_the_thread(num_read: int) -> None:
    source, threads = NumberedSource(), threading.active_count()
    with Loader(source, Extent.of_steps(None, GLOBAL_BATCH), 0, 1, depth=2) as loader:
        for _ in range(num_read):
            next(loader)
        wait_for_requests(source, 2 + num_read)  # the queue has no room for more
    assert threading.active_count() == threads
    assert list(loader) == []
    loader.close()  # a second close has no effect


def test_close_wakes_waiting_thread_even_if_source_hangs(monkeypatch) -> None:
    class Hangs(NumberedSource):
        def batch(self, step: int, start: int, size: int) -> Batch:
            self.steps.append(step)
            released.wait(30)
            return super().batch(step, start, size)

    released, source = threading.Event(), Hangs()
    monkeypatch.setattr("trainer.loader.CLOSE_SECONDS", 0.01)
    loader = Loader(source, Extent.of_steps(None, GLOBAL_BATCH), 0, 1, depth=1)
    steps: list[int] = []
    thread = threading.Thread(target=lambda: steps.extend(step_batch.step for step_batch in loader))
    thread.start()
    wait_for_requests(source, 1)
    loader.close()
    released.set()
    thread.join(10)
    assert not thread.is_alive()
    assert steps in ([], [0])


def test_negative_depth_is_refused_with_its_key() -> None:
    with pytest.raises(ConfigError, match=r"loader.depth is -1: it must be 0 or more"):
        LoaderConfig(depth=-1)

"""Tests of the coordinator of ranks that save or load a checkpoint, with threads as ranks."""

import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Thread

import torch.distributed as dist

from tests.evil_pickle import EvilPickle
from trainer.errors import CheckpointError
from trainer.scale.checkpoint.coordinator import Coordinator


def run_threads(*ranks: Callable[[Coordinator], object], timeout_seconds: float = 20) -> list[object]:
    """Run each rank in a thread, and return the results or errors."""
    store = dist.HashStore()
    results: list[object] = [None] * len(ranks)

    def run(rank: int) -> None:
        try:
            results[rank] = ranks[rank](Coordinator(store.clone(), rank, len(ranks), timeout_seconds))
        except CheckpointError as error:
            results[rank] = str(error)

    threads = [Thread(target=run, args=(rank,)) for rank in range(len(ranks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def raise_disk_full() -> int:
    """Fail as a write to a full disk does."""
    raise OSError(28, "No space left on device")


def test_all_ranks_get_result_that_rank_0_combines() -> None:
    assert run_threads(
        lambda coordinator: [coordinator.agree("", "", partial(int, number), sum) for number in (1, 2)],
        lambda coordinator: [coordinator.agree("", "", partial(int, number), sum) for number in (10, 20)],
    ) == [[11, 22], [11, 22]]


def agreeing(value=lambda: 1, combine=sum) -> Callable[[Coordinator], object]:
    """Return a rank that has a value, and combines the values of all ranks if it is rank 0."""
    return lambda coordinator: coordinator.agree("step 3 was not saved", "Make room", value, combine)


def test_error_of_a_rank_is_raised_by_all_ranks() -> None:
    line = "step 3 was not saved: rank 1: No space left on device. Make room"
    assert run_threads(agreeing(), agreeing(raise_disk_full)) == [line, line]
    failing = agreeing(combine=lambda _: raise_disk_full())
    assert run_threads(failing, agreeing()) == [line.replace("rank 1", "rank 0")] * 2


def test_rank_that_does_not_answer_is_named_by_other_ranks() -> None:
    results = run_threads(agreeing(), lambda _: None, agreeing(), timeout_seconds=0.2)
    assert results[0] == results[2]
    assert "rank 1 did not answer within 0.2 s" in str(results[0])
    assert "rank 0 did not answer" in str(run_threads(lambda _: None, agreeing(), timeout_seconds=0.1)[1])


def test_pickle_in_the_store_is_not_run(tmp_path: Path) -> None:
    def send_pickle(coordinator: Coordinator) -> None:
        coordinator.store.set("1/1", pickle.dumps(("", EvilPickle(tmp_path / "ran"))))

    results = run_threads(agreeing(), send_pickle)
    assert "1/1 in the store of the job is not a value of a rank" in str(results[0])
    assert not (tmp_path / "ran").exists()

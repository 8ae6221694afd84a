"""Tests of the memory of each group of tables, and of configurations that rows on a disk do not fit."""

from types import SimpleNamespace

import pytest

from trainer.errors import ConfigError
from trainer.keys import apply_changes
from trainer.scale.presets import demo
from trainer.scale.tier.memory import CacheNote, divide_memory
from trainer.sharding import Placement
from trainer.train import Trainer

TIER = {"embedding": {"rows": [500, 3], "dim": 32, "memory": 20_000, "tier": {"folder": "rows"}}}


@pytest.mark.parametrize(
    ("memory", "sizes", "shares"),
    [
        (100, [300], {0: 100}),
        (100, [300, 100], {0: 75, 1: 25}),
        (100, [300, 40], {0: 60}),  # the smaller one is in memory
        (100, [0, 300, 10, 20], {1: 70}),
        (100, [60, 300, 45], {0: 14, 1: 74, 2: 11}),
    ],
)
def test_groups_that_are_not_small_share_the_rest_of_the_memory(memory, sizes, shares) -> None:
    assert divide_memory(memory, sizes) == shares


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"embedding": {"memory": 0}}, r"embedding\.memory is 0: it must be above 0 if embedding\.tier\.folder is set"),
        ({"embedding": {"kernel": "fbgemm"}}, r"embedding\.kernel is fbgemm: it must be auto or torch if"),
        ({"embedding": {"memory": -1}}, r"embedding\.memory is -1: it must be 0 \(no limit\) or more"),
    ],
)
def test_setting_that_does_not_fit_rows_on_a_disk_is_refused(changes, error) -> None:
    with pytest.raises(ConfigError, match=error):
        apply_changes(demo(), [TIER, changes])


def test_rows_that_do_not_fit_and_have_no_folder_are_refused(single_rank_world, small_config) -> None:
    config = small_config({"embedding": {"memory": 1000, "kernel": "torch"}})
    placements = [Placement("table_wise", (0,))] * len(config.embedding.rows)
    with pytest.raises(ConfigError, match=r"embedding\.memory is 1,000 bytes: the rows of this rank take [\d,]+ bytes"):
        Trainer(config, single_rank_world, placements)


def test_note_has_what_happened_since_the_last_note() -> None:
    warnings: list[str] = []
    kernel = SimpleNamespace(rows_claimed=0, rows_from_disk=0, locked_ratio=0.25, is_too_small=False)
    other = SimpleNamespace(rows_claimed=100, rows_from_disk=0, locked_ratio=0.5, is_too_small=False)
    note = CacheNote([kernel, other], warnings.append)
    kernel.rows_claimed, kernel.rows_from_disk = 100, 50
    assert note() == "rows in memory 75.0%  locked 50%"
    assert note() == "rows in memory unknown  locked 50%"  # no lookup since
    assert not warnings
    kernel.rows_claimed, kernel.is_too_small = 150, True
    assert note() == "rows in memory 100.0%  locked 50%"
    note()
    assert len(warnings) == 1  # the second note does not warn again
    assert "Raise it, or use more ranks or a smaller train.global_batch" in warnings[0]

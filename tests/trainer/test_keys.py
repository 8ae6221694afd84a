"""Tests of changes to the keys of a preset. An error about a key names the dotted key."""

import pytest

from trainer.errors import ConfigError
from trainer.keys import apply_changes, parse_assignment, read_file
from trainer.scale.presets import demo


def set_keys(*assignments: str):
    """Return the configuration of the preset `demo` after these assignments."""
    return apply_changes(demo(), [parse_assignment(assignment) for assignment in assignments])


def test_assigned_values_have_type_of_their_field() -> None:
    config = set_keys(
        "train.steps=7", "optimizer.dense_learning_rate=1e-3", "embedding.rows=[4, 5]", "criteo.strict=true",
        "synthetic.longest_bag=[1, 2]", "checkpoint.resume=12", "checkpoint.folder=saved",
    )  # fmt: skip
    assert config.train.steps == 7
    assert config.optimizer.dense_learning_rate == 0.001
    assert config.embedding.rows == (4, 5)
    assert config.criteo.strict is True
    assert config.synthetic.longest_bag == (1, 2)
    assert config.checkpoint.resume == "12"


@pytest.mark.parametrize("text", ["2024_11_29", "2026-02-30", "010", "1.50", "12:30", "on", "0x_"])
def test_text_key_has_the_text_as_it_is_written(tmp_path, text: str) -> None:
    assert set_keys(f"checkpoint.folder={text}").checkpoint.folder == text
    file = tmp_path / "more.yaml"
    file.write_text(f"checkpoint: {{folder: {text}}}\n")
    assert apply_changes(demo(), [read_file(str(file))]).checkpoint.folder == text


def test_assignment_of_nothing_is_an_empty_text() -> None:
    assert set_keys("checkpoint.folder=saved", "checkpoint.folder=").checkpoint.folder == ""
    with pytest.raises(ConfigError, match=r"train\.steps is '': it must be a whole number"):
        set_keys("train.steps=")


def test_later_assignments_override_earlier_assignments() -> None:
    assert set_keys("train.seed=1", "train.seed=2").train.seed == 2


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("train.stepz=1", "there is no key train.stepz: it is misspelt. Use train.steps"),
        ("nothing=1", "there is no key nothing: it is misspelt. Use one of embedding, train, model"),
        ("global_batch=1", "Use train.global_batch"),
        ("model.learning_rate=1", "there is no key model.learning_rate"),
        ("checkpoint.resume=7", "checkpoint.resume is 7: it must be auto or none if checkpoint.folder is empty"),
        ("wire.forward=int8", "wire.forward is int8: it must be full or float16 or bfloat16"),
        ("train.epochs=2", "train.epochs is 2: it must be 0 for synthetic samples"),
        ("synthetic.longest_bag=[1, 2]", "synthetic.longest_bag is .*: it must be one number, or a list of 26"),
        ("synthetic.longest_bag=few", "it must be a whole number or a list of whole numbers"),
        ("train.steps=many", "train.steps is 'many': it must be a whole number"),
        ("train.steps=1.5", "train.steps is '1.5': it must be a whole number"),
        ("train.steps=0x_", "train.steps is '0x_': it must be a whole number"),
        ("train.steps=2026-02-30", "train.steps is '2026-02-30': it must be a whole number"),
        (f"optimizer.dense_learning_rate={'9' * 401}", "optimizer.dense_learning_rate is inf: it must be above 0"),
        ("train.steps=-1", "train.steps is -1: it must be 0"),
        ("train.global_batch=0", "train.global_batch is 0"),
        ("train.dtype=int8", "train.dtype is int8: it must be float32 or float64"),
        ("optimizer.dense_learning_rate=fast", "optimizer.dense_learning_rate is 'fast': it must be a number"),
        ("optimizer.dense_learning_rate=nan", "optimizer.dense_learning_rate is nan: it must be above 0"),
        ("model.top=[8, x]", "model.top is .*: it must be a list of whole numbers"),
        ("model.top=[8, 0]", "model.top is .*: it must be 1 or more"),
        ("embedding.rows=[]", "embedding.rows is .*: it must be at least one table"),
        ("embedding.dim=[16, 8]", r"embedding.dim is \(16, 8\): it must be one number, or a list of 26"),
        ("embedding.dim=0", "embedding.dim is 0: it must be 1 or more"),
        ("optimizer.column_moments=own", "optimizer.column_moments is own: it must be shared or separate"),
        ("embedding.rows=[3, 0]", "embedding.rows is .*: it must be 1 or more"),
        ("criteo.strict=1", "criteo.strict is '1': it must be true or false"),
        ("train=3", "train is '3': it must be a section of keys"),
        ("train.steps.more=3", r"train.steps is \{'more': '3'\}: it must be a whole number"),
        ("train.steps", "it is not KEY=VALUE"),
    ],
)
def test_invalid_assignment_is_refused_with_its_key(assignment: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        set_keys(assignment)


def test_tables_of_several_dimensions_need_the_cross_network() -> None:
    dims = "embedding.rows=[5, 5]", "embedding.dim=[4, 6]"
    with pytest.raises(ConfigError, match=r"embedding\.dim is \(4, 6\): it must be equal .* model\.interaction=cross"):
        set_keys(*dims)
    assert set_keys(*dims, "model.interaction=cross").embedding.dims == (4, 6)
    assert set_keys("embedding.rows=[5, 5]", "embedding.dim=4").embedding.dims == (4, 4)


def test_criteo_data_requires_its_tables_and_dense_features() -> None:
    with pytest.raises(ConfigError, match=r"embedding\.rows is 1 tables"):
        set_keys("embedding.rows=[5]", "criteo.file=rows.tsv")
    with pytest.raises(ConfigError, match=r"model\.dense_features is 4"):
        set_keys("model.dense_features=4", "criteo.file=rows.tsv")


def test_file_changes_keys_of_preset(tmp_path) -> None:
    file = tmp_path / "more.yaml"
    file.write_text("train:\n  seed: 9\nmodel: {top: [32]}\n")
    config = apply_changes(demo(), [read_file(str(file))])
    assert (config.train.seed, config.model.top) == (9, (32,))


def test_file_may_merge_keys(tmp_path) -> None:
    file = tmp_path / "more.yaml"
    file.write_text("train: {<<: {seed: 1, steps: 7}, seed: 9}\n")
    train = apply_changes(demo(), [read_file(str(file))]).train
    assert (train.seed, train.steps) == (9, 7)


@pytest.mark.parametrize(("text", "message"), [("", "has no keys"), ("- 1", "has no keys"), ("{", "is not valid YAML")])
def test_invalid_file_is_refused(tmp_path, text: str, message: str) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_file(str(file))


def test_missing_file_is_refused(tmp_path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        read_file(str(tmp_path / "nowhere.yaml"))

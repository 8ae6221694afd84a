"""Tests of YAML that people write: each key counts, and the reason of an error repeats nothing of the text."""

import pytest
import yaml

from zmon.yaml_text import load_yaml, yaml_reason

TWICE = {
    "at the top": ("a: 1\nb: 2\na: 3", "a is given twice, in line 3"),
    "in a mapping of a list": ("- a: 1\n  a: 2", "a is given twice, in line 2"),
    "beside merged keys": ("x: &x {a: 1}\ny: {<<: *x, b: 1, b: 2}", "b is given twice, in line 2"),
}


@pytest.mark.parametrize(("text", "reason"), TWICE.values(), ids=TWICE)
def test_key_that_is_given_twice_is_an_error(text, reason):
    with pytest.raises(yaml.YAMLError) as refused:
        load_yaml(text)
    assert yaml_reason(refused.value) == reason


def test_mapping_may_replace_a_key_that_it_merges():
    """An alias is read twice, and its mapping has the merged keys by then."""
    content = load_yaml("base: &base {a: 1, b: 1}\none: &one {<<: *base, a: 2}\nalias: *one")
    assert content["one"] == content["alias"] == {"a": 2, "b": 1}


def test_reason_of_an_error_repeats_nothing_of_the_text():
    with pytest.raises(yaml.YAMLError) as refused:
        load_yaml("user: ann\npassword: @secret")
    assert "secret" in str(refused.value)
    assert "secret" not in yaml_reason(refused.value)
    assert yaml_reason(refused.value).endswith("in line 2")

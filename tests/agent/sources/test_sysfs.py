"""Tests of attribute files in /sys. A missing, unreadable or malformed file is an unknown value."""

import re
from contextlib import ExitStack

import pytest

from tests.agent.sources.trees import UNREADABLE, write
from zmon.agent.sources.sysfs import Attributes, link_target, names_in


@pytest.fixture
def make_attributes(tmp_path):
    with ExitStack() as stack:

        def make(**content):
            write(tmp_path, content)
            return stack.enter_context(Attributes("mlx5_3:1", str(tmp_path)))

        yield make


@pytest.mark.parametrize(
    ("content", "number"),
    [
        pytest.param(-1, -1, id="negative"),
        pytest.param(2**64 - 1, 2**64 - 1, id="64 bits"),
        pytest.param(None, None, id="missing file"),
        pytest.param("N/A (no PMA)", None, id="missing in the port"),
    ],
)
def test_number_is_read_and_unknown_without_a_fault_if_it_is_missing(make_attributes, content, number):
    attributes = make_attributes(speed=content)
    assert (attributes.number("speed"), attributes.fault) == (number, None)


@pytest.mark.parametrize("content", ["", "many", "1 2", "0x10", "1e3", "9" * 4000, "\0\0"])
def test_malformed_file_is_unknown_and_a_fault(make_attributes, content):
    attributes = make_attributes(symbol_error=content)
    assert attributes.number("symbol_error") is None
    assert attributes.fault.startswith("mlx5_3:1: symbol_error has odd content: ")
    assert len(attributes.fault) < 250


def test_bytes_that_are_not_text_are_a_fault_and_do_not_raise(make_attributes, tmp_path):
    attributes = make_attributes()
    (tmp_path / "rate").write_bytes(b"\xff\xfe\x80")
    assert attributes.find("rate", re.compile(r"(\d+) Gb")) is None
    assert attributes.fault is not None


def test_unreadable_file_is_a_fault_and_only_the_first_fault_is_stored(make_attributes):
    attributes = make_attributes(state=UNREADABLE, a="x")
    assert (attributes.text("state"), attributes.number("a")) == (None, None)
    assert attributes.fault == "mlx5_3:1: cannot read state: Is a directory"


def test_link_has_a_target_or_is_empty(make_attributes, tmp_path):
    (tmp_path / "master").symlink_to("../bond0")
    assert (make_attributes().link("master"), make_attributes().link("none")) == ("bond0", "")
    assert (link_target(f"{tmp_path}/master"), link_target(f"{tmp_path}/none")) == ("../bond0", "")


def test_names_in_a_folder_are_listed(make_attributes, tmp_path):
    make_attributes(a=1, b=2)
    assert sorted(names_in(tmp_path)) == ["a", "b"]

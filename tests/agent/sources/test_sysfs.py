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


def test_number_is_read_from_its_file(make_attributes):
    attributes = make_attributes(speed=-1, rx_bytes=2**64 - 1)
    assert (attributes.number("speed"), attributes.number("rx_bytes"), attributes.fault) == (-1, 2**64 - 1, None)


def test_missing_file_is_unknown_and_not_a_fault(make_attributes):
    attributes = make_attributes()
    assert (attributes.number("speed"), attributes.fault) == (None, None)


def test_counter_missing_in_the_port_is_unknown_and_not_a_fault(make_attributes):
    attributes = make_attributes(symbol_error="N/A (no PMA)")
    assert (attributes.number("symbol_error"), attributes.fault) == (None, None)


def test_unreadable_file_is_unknown_and_a_fault(make_attributes):
    attributes = make_attributes(state=UNREADABLE)
    assert (attributes.text("state"), attributes.fault) == (None, "mlx5_3:1: cannot read state: Is a directory")


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


def test_only_the_first_fault_is_stored(make_attributes):
    attributes = make_attributes(a="x", b=UNREADABLE)
    assert (attributes.number("a"), attributes.number("b")) == (None, None)
    assert attributes.fault == "mlx5_3:1: a has odd content: 'x'"


def test_link_has_a_target_or_is_empty(make_attributes, tmp_path):
    (tmp_path / "master").symlink_to("../bond0")
    assert (make_attributes().link("master"), make_attributes().link("none")) == ("bond0", "")
    assert (link_target(f"{tmp_path}/master"), link_target(f"{tmp_path}/none")) == ("../bond0", "")


def test_names_in_a_folder_are_listed(make_attributes, tmp_path):
    make_attributes(a=1, b=2)
    assert sorted(names_in(tmp_path)) == ["a", "b"]

"""Tests of attribute files in /sys, odd ones included."""

import re
from contextlib import ExitStack

import pytest

from tests.agent.sources.trees import UNREADABLE, write
from zmon.agent.sources.sysfs import Attributes, link_target, names_in


@pytest.fixture
def files(tmp_path):
    with ExitStack() as stack:

        def make(**content):
            write(tmp_path, content)
            return stack.enter_context(Attributes("mlx5_3:1", str(tmp_path)))

        yield make


def test_number_is_read(files):
    attributes = files(speed=-1, rx_bytes=2**64 - 1)
    assert (attributes.number("speed"), attributes.number("rx_bytes"), attributes.fault) == (-1, 2**64 - 1, None)


def test_missing_file_is_unknown_and_not_odd(files):
    attributes = files()
    assert (attributes.number("speed"), attributes.fault) == (None, None)


def test_counter_that_the_port_lacks_is_unknown_and_not_odd(files):
    attributes = files(symbol_error="N/A (no PMA)")
    assert (attributes.number("symbol_error"), attributes.fault) == (None, None)


def test_file_that_cannot_be_read_is_unknown_and_noted(files):
    attributes = files(state=UNREADABLE)
    assert (attributes.text("state"), attributes.fault) == (None, "mlx5_3:1: cannot read state: Is a directory")


@pytest.mark.parametrize("content", ["", "many", "1 2", "0x10", "1e3", "9" * 4000, "\0\0"])
def test_file_with_odd_content_is_unknown_and_noted(files, content):
    attributes = files(symbol_error=content)
    assert attributes.number("symbol_error") is None
    assert attributes.fault.startswith("mlx5_3:1: symbol_error has odd content: ")
    assert len(attributes.fault) < 250


def test_bytes_that_are_no_text_are_odd_and_do_not_raise(files, tmp_path):
    attributes = files()
    (tmp_path / "rate").write_bytes(b"\xff\xfe\x80")
    assert attributes.find("rate", re.compile(r"(\d+) Gb")) is None
    assert attributes.fault is not None


def test_only_the_first_oddity_is_noted(files):
    attributes = files(a="x", b=UNREADABLE)
    assert (attributes.number("a"), attributes.number("b")) == (None, None)
    assert attributes.fault == "mlx5_3:1: a has odd content: 'x'"


def test_link_has_a_target_or_is_empty(files, tmp_path):
    (tmp_path / "master").symlink_to("../bond0")
    assert (files().link("master"), files().link("none")) == ("bond0", "")
    assert (link_target(f"{tmp_path}/master"), link_target(f"{tmp_path}/none")) == ("../bond0", "")


def test_names_in_a_folder(files, tmp_path):
    files(a=1, b=2)
    assert sorted(names_in(tmp_path)) == ["a", "b"]

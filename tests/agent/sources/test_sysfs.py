"""Attribute files that may be odd."""

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


def test_file_says_a_number(files):
    found = files(speed=-1, rx_bytes=2**64 - 1)
    assert (found.number("speed"), found.number("rx_bytes"), found.odd) == (-1, 2**64 - 1, None)


def test_missing_file_is_unknown_and_not_odd(files):
    found = files()
    assert (found.number("speed"), found.odd) == (None, None)


def test_counter_that_a_port_has_not_is_unknown_and_not_odd(files):
    found = files(symbol_error="N/A (no PMA)")
    assert (found.number("symbol_error"), found.odd) == (None, None)


def test_file_that_cannot_be_read_is_unknown_and_said(files):
    found = files(state=UNREADABLE)
    assert (found.text("state"), found.odd) == (None, "mlx5_3:1: cannot read state: Is a directory")


@pytest.mark.parametrize("content", ["", "many", "1 2", "0x10", "1e3", "9" * 4000, "\0\0"])
def test_file_with_odd_content_is_unknown_and_said(files, content):
    found = files(symbol_error=content)
    assert found.number("symbol_error") is None
    assert found.odd.startswith("mlx5_3:1: symbol_error is odd: ")
    assert len(found.odd) < 250


def test_bytes_that_are_no_text_are_odd_and_nothing_worse(files, tmp_path):
    found = files()
    (tmp_path / "rate").write_bytes(b"\xff\xfe\x80")
    assert found.find("rate", re.compile(r"(\d+) Gb")) is None
    assert found.odd is not None


def test_only_the_first_oddity_is_told(files):
    found = files(a="x", b=UNREADABLE)
    assert (found.number("a"), found.number("b")) == (None, None)
    assert found.odd == "mlx5_3:1: a is odd: 'x'"


def test_link_points_somewhere_or_nowhere(files, tmp_path):
    (tmp_path / "master").symlink_to("../bond0")
    assert (files().link("master"), files().link("none")) == ("bond0", "")
    assert (link_target(f"{tmp_path}/master"), link_target(f"{tmp_path}/none")) == ("../bond0", "")


def test_names_in_a_folder(files, tmp_path):
    files(a=1, b=2)
    assert sorted(names_in(tmp_path)) == ["a", "b"]

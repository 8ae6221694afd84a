"""Totals that only grow, and attribute files that may be odd."""

import re
from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sources.trees import UNREADABLE, write
from zmon.sources.counters import Attributes, Totals, link_target, names_in, wrapped


def totals_of(*values):
    totals = Totals()
    return [totals.total("mlx5_0:1", "out_of_sequence", value) for value in values]


def test_counter_that_only_grows_is_its_own_total():
    assert totals_of(5, 5, 7, 2**40) == [5, 5, 7, 2**40]


def test_counter_that_ran_over_32_bits_goes_on():
    assert totals_of(2**32 - 10, 5, 6) == [2**32 - 10, 2**32 + 5, 2**32 + 6]


def test_counter_that_ran_over_twice_goes_on_twice():
    assert totals_of(2**32 - 1, 0, 2**31, 2**32 - 1, 1)[-1] == 2 * 2**32 + 1


def test_counter_that_began_from_0_again_adds_to_what_was_counted():
    assert totals_of(1000, 3, 10, 2) == [1000, 1003, 1010, 1012]


@pytest.mark.parametrize("last", [1000, 255, 65535, 2**31, 2**33])
def test_fall_far_from_the_end_of_32_bits_is_no_wrap(last):
    assert not wrapped(last, 3)


def test_cleared_counter_that_had_stopped_at_its_highest_value_is_right_by_one():
    """Whether one took it for a wrap or not."""
    assert totals_of(2**32 - 1, 0)[-1] in (2**32 - 1, 2**32)


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1))
def test_total_never_falls(values):
    totals = totals_of(*values)
    assert totals == sorted(totals)
    assert totals[0] == values[0]


def test_devices_and_counters_are_counted_apart():
    totals = Totals()
    assert [totals.total("eth0", "rx_bytes", 9), totals.total("eth1", "rx_bytes", 5)] == [9, 5]
    assert [totals.total("eth0", "rx_bytes", 10), totals.total("eth0", "tx_bytes", 2)] == [10, 2]


def test_device_that_went_is_forgotten():
    totals = Totals()
    for device in ("eth0", "veth0"):
        totals.total(device, "rx_bytes", 1000)
    totals.keep({"eth0"})
    assert totals.total("veth0", "rx_bytes", 10) == 10
    assert totals.total("eth0", "rx_bytes", 10) == 1010


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

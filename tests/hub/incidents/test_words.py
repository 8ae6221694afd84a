"""Tests of the formats for numbers and texts of an incident."""

from zmon.hub.incidents.words import amount, plain, since


def test_numbers_are_formatted_for_people():
    assert [since(v) for v in (-0.01, -5.0, 0.52, 600.0)] == ["+0.0 s", "−5.0 s", "+0.5 s", "+10 min"]
    amounts = [amount(v) for v in (None, 10, 999.4, 999.6, 1.5e9, 999.6e9)]
    assert amounts == ["unknown", "10 B", "999 B", "1 kB", "1.5 GB", "1 TB"]


def test_line_that_was_overwritten_has_its_last_version():
    assert plain("0%\r50%\r100%\r\ndone") == "100%\ndone"

"""Tests of plain YAML: dates are text, and a number without digits is an error of YAML."""

import pytest
import yaml

from trainer.plain_yaml import parse


def test_dates_are_text() -> None:
    assert parse("2026-11-26") == "2026-11-26"
    assert parse("{folder: 2026-02-30, steps: 7}") == {"folder": "2026-02-30", "steps": 7}


@pytest.mark.parametrize("text", ["0x_", "0b_", "!!timestamp 2026-02-30", "{"])
def test_invalid_text_is_an_error_of_yaml(text: str) -> None:
    with pytest.raises(yaml.YAMLError):
        parse(text)

"""A check of the one line that a command writes to stderr if it fails."""


def assert_one_line(err, *parts):
    """Assert that stderr is one line with these parts."""
    lines = err.strip().splitlines()
    assert len(lines) == 1, err
    assert [part for part in parts if part not in lines[0]] == [], err

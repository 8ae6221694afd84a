"""Tests of the check of the probe: which edge ranks run, and why it is the one in Python."""

from zmon.doctor.probe_edge import probe_edge


def test_c_edge_is_armed():
    assert probe_edge("c", is_built=True).armed is True


def test_chosen_python_edge_is_not_inert(monkeypatch):
    monkeypatch.setenv("ZMON_EDGE", "python")
    check = probe_edge("python", is_built=True)
    assert check.armed is None
    assert check.result.endswith("because ZMON_EDGE=python")
    assert check.next_step.startswith("Unset ZMON_EDGE")


def test_missing_c_edge_says_what_to_install():
    check = probe_edge("python", is_built=False)
    assert check.armed is None
    assert "has no C edge" in check.result
    assert "C compiler" in check.next_step

"""Tests of the kinds of tests. Every test has exactly one kind."""

import pytest

from tests.kinds import ALONE, APART, KINDS, NO_UNITS, is_apart, kind_of, may_have_more_than_units
from tests.places import REPOSITORY


@pytest.mark.parametrize(
    ("path", "marked", "fixtures", "kind"),
    [
        ("tests/hub/test_journal.py", (), ("tmp_path",), "unit"),
        ("tests/hub/test_journal.py", ("slow",), (), "unit"),
        ("tests/probe/test_plan.py", (), ("start_rank", "tmp_path"), "e2e"),
        ("tests/e2e/test_stall.py", (), (), "e2e"),
        ("tests/e2e/test_dashboard.py", ("browser", "slow"), ("stack",), "browser"),
        ("tests/e2e/test_dashboard.py", (), ("stack", "browser", "page"), "browser"),
        ("tests/lab/stage/test_hosts.py", ("drill", "timeout"), ("start_rank",), "drill"),
    ],
)
def test_kind_follows_from_markers_then_fixtures_then_folder(path, marked, fixtures, kind):
    assert kind_of(path, marked, fixtures) == kind


@pytest.mark.parametrize(
    ("path", "marked", "fixtures"),
    [
        ("tests/hub/test_journal.py", ("unit", "e2e"), ()),
        ("tests/probe/test_plan.py", ("unit",), ("torch_zygote",)),
        ("tests/jobs/test_jobs.py", ("unit",), ()),
    ],
)
def test_conflicting_kinds_of_a_test_are_refused(path, marked, fixtures):
    with pytest.raises(ValueError, match=r"it is marked as"):
        kind_of(path, marked, fixtures)


@pytest.mark.parametrize(
    ("path", "kind", "is_slow", "apart"),
    [
        pytest.param("tests/jobs/test_jobs.py", "e2e", False, True, id="ranks in a listed folder"),
        pytest.param("tests/probe/test_plan.py", "e2e", False, True, id="ranks in a listed file"),
        pytest.param("tests/jobs/test_jobs.py", "e2e", True, False, id="slow"),
        pytest.param("tests/probe/test_plan.py", "unit", False, False, id="a unit runs beside others anyway"),
        pytest.param("tests/bench/recovery/test_arm.py", "drill", False, False, id="a drill"),
        pytest.param("tests/probe/edge/test_installed.py", "e2e", False, False, id="ranks in no listed place"),
        pytest.param("tests/e2e/test_stall.py", "e2e", False, False, id="on the standing stack"),
    ],
)
def test_only_listed_quick_tests_with_ranks_run_beside_others(path, kind, is_slow, apart):
    assert is_apart(path, kind, is_slow=is_slow) is apart


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("tests/hub/test_journal.py", "def test_a(tmp_path): ...", False),
        ("tests/hub/test_journal.py", "pytestmark = pytest.mark.slow", False),
        ("tests/hub/test_journal.py", "pytestmark = pytest.mark.drill", True),
        ("tests/probe/test_plan.py", "def test_a(start_rank): ...", True),
        ("tests/e2e/test_stall.py", "def test_a(stack): ...", True),
    ],
)
def test_file_that_names_no_kind_and_no_fixture_with_one_has_only_units(path, text, expected):
    assert may_have_more_than_units(path, text) is expected


def test_tests_that_run_alone_are_selected_by_the_markers_for_which_files_of_units_are_left_out():
    assert f'-m "{ALONE}$which"' in (REPOSITORY / "scripts/test").read_text()


def test_every_place_of_the_list_exists():
    assert [place for place in APART if not [*REPOSITORY.glob(f"{place}*")]] == []


def test_every_collected_test_has_a_single_kind(request):
    for item in request.session.items:
        kinds = [mark.name for mark in item.iter_markers() if mark.name in KINDS]
        assert len(kinds) == 1, item.nodeid
        assert kinds != ["unit"] or not item.nodeid.startswith(NO_UNITS), item.nodeid

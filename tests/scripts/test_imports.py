"""Tests of the check of imports: each rule finds what breaks it, and names file and line."""

import pytest
from grimp import ImportGraph

from scripts.imports import DOOR, PURE, ROOMS, problems, repository_graph, room_of, table
from tests.places import REPOSITORY

TWO_ROOMS = {"schema": "", "web": "schema"}


def graph(*imports):
    """Return a graph of these imports, each of them in line 7, and of the packages around the modules."""
    made = ImportGraph()
    for importer, imported in imports:
        for module in (importer, imported):
            for dot in (number for number, letter in enumerate(module) if letter == "."):
                made.add_module(module[:dot])
        made.add_import(importer=importer, imported=imported, line_number=7, line_contents=f"import {imported}")
    return made


def test_repository_keeps_to_the_table():
    assert [*problems(repository_graph())] == []


def test_every_room_has_a_row():
    rooms = {
        path.stem for path in (REPOSITORY / "zmon").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    rows = {room.partition(".")[0] for room in ROOMS}
    assert rooms - {"__init__"} == rows - {DOOR, "trainer", "dashboards", "lab", "bench"}


@pytest.mark.parametrize(
    ("module", "room"),
    [
        ("zmon", "zmon"),
        ("zmon.errors", "errors"),
        ("zmon.hub.api.view", "hub"),
        ("zmon.detectors", "detectors"),
        ("zmon.detectors.slow.chance", "detectors.slow"),
        ("trainer.scale.run", "trainer"),
        ("lab", "lab"),
    ],
)
def test_room_of_a_module(module, room):
    assert room_of(module) == room


def test_import_within_the_row_is_no_problem():
    assert [*problems(graph(("zmon.web.client", "zmon.schema.api"), ("zmon.web.client", "os")), TWO_ROOMS)] == []


@pytest.mark.parametrize(
    "imported", ["zmon.web.client", "trainer", "lab.stage", "tests.boxes", "scripts.words", "dashboards"]
)
def test_import_outside_the_row_names_importer_imported_and_line(imported):
    made = graph(("zmon.web.client", "zmon.schema.api"), ("zmon.schema.job", imported))
    (problem,) = problems(made, TWO_ROOMS)
    assert problem == f"zmon/schema/job.py:7: schema must not import {imported}; see scripts/imports.py"


ENDINGS = {"detectors.endings": "", "detectors.stall": "detectors.endings"}


PROBLEMS = {
    "file of a package": (
        ("zmon.hub", "zmon.agent"),
        {"agent": "", "hub": ""},
        "zmon/hub/__init__.py:7: hub must not import zmon.agent",
    ),
    "no row": (("zmon.new.file", "zmon.schema.job"), {"schema": ""}, "zmon/new/file.py:7: new has no row in the table"),
    "permission that nothing uses": (
        ("zmon.schema.job", "msgspec"),
        TWO_ROOMS,
        "scripts/imports.py: web does not import schema: take it out of the",
    ),
    "row points downwards": (
        ("zmon.schema.job", "zmon.web.client"),
        {"schema": "web", "web": ""},
        "scripts/imports.py: schema is above web, or they do not exist",
    ),
    "not by the door": (
        ("zmon.detectors.stall", "zmon.detectors.endings.exits"),
        ENDINGS,
        "zmon/detectors/stall.py:7: zmon.detectors.endings.exits is inside detectors.endings",
    ),
}


@pytest.mark.parametrize(("edge", "rooms", "begin"), PROBLEMS.values(), ids=PROBLEMS)
def test_problem_names_its_file(edge, rooms, begin):
    (problem,) = problems(graph(edge), rooms)
    assert problem.startswith(begin)


@pytest.mark.parametrize("room", PURE)
def test_pure_room_reaches_no_clock_even_through_another_room(room):
    made = graph((f"zmon.{room}.file", "zmon.errors"), ("zmon.errors", "time"))
    (problem,) = problems(made, {"errors": "", room_of(f"zmon.{room}.file"): "errors"})
    assert problem.startswith(f"zmon/{room}/file.py:7: {room} is pure and must not import zmon.errors → time")


def test_table_has_a_row_for_each_room():
    assert table({"format": "", "web": "format"}).splitlines()[2:] == [
        "| `format` | yes | – |",
        "| `web` |  | `format` |",
    ]

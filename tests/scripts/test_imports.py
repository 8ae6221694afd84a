"""Tests of the check of imports: each rule finds what breaks it, and names file and line."""

import pytest
from grimp import ImportGraph

from scripts.imports import IMPORTS, PUBLIC, PURE, package_of, problems, repository_graph
from tests.places import REPOSITORY

TWO_PACKAGES = {"schema": "", "web": "schema"}


def graph(*imports):
    """Return a graph of these imports, all of them in line 7, and of the packages around the modules."""
    made = ImportGraph()
    for importer, imported in imports:
        for module in (importer, imported):
            for dot in (number for number, letter in enumerate(module) if letter == "."):
                made.add_module(module[:dot])
        made.add_import(importer=importer, imported=imported, line_number=7, line_contents=f"import {imported}")
    return made


def test_repository_keeps_to_the_table():
    assert [*problems(repository_graph())] == []


def test_every_package_has_a_row():
    packages = {
        path.stem for path in (REPOSITORY / "zmon").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    rows = {name.partition(".")[0] for name in IMPORTS}
    assert packages - {"__init__"} == rows - {PUBLIC, "trainer", "dashboards", "lab", "bench"}


def test_import_within_the_row_is_no_problem():
    assert [*problems(graph(("zmon.web.client", "zmon.schema.api"), ("zmon.web.client", "os")), TWO_PACKAGES)] == []


@pytest.mark.parametrize(
    "imported", ["zmon.web.client", "trainer", "lab.stage", "tests.boxes", "scripts.words", "dashboards"]
)
def test_import_outside_the_row_names_importer_imported_and_line(imported):
    made = graph(("zmon.web.client", "zmon.schema.api"), ("zmon.schema.job", imported))
    (problem,) = problems(made, TWO_PACKAGES)
    assert problem == f"zmon/schema/job.py:7: schema must not import {imported}; see scripts/imports.py"


PROBLEMS = {
    "file of a package": (
        ("zmon.hub", "zmon.agent"),
        {"agent": "", "hub": ""},
        "zmon/hub/__init__.py:7: hub must not import zmon.agent",
    ),
    "no row": (("zmon.new.file", "zmon.schema.job"), {"schema": ""}, "zmon/new/file.py:7: new has no row in the table"),
    "permission that nothing uses": (
        ("zmon.schema.job", "msgspec"),
        TWO_PACKAGES,
        "scripts/imports.py: web does not import schema: take it out of the",
    ),
    "row points downwards": (
        ("zmon.schema.job", "zmon.web.client"),
        {"schema": "web", "web": ""},
        "scripts/imports.py: schema is above web, or they do not exist",
    ),
    "inside a subpackage": (
        ("zmon.detectors.stall", "zmon.detectors.endings.exits"),
        {"detectors.endings": "", "detectors.stall": "detectors.endings"},
        "zmon/detectors/stall.py:7: zmon.detectors.endings.exits is inside detectors.endings",
    ),
}


@pytest.mark.parametrize(("edge", "imports", "begin"), PROBLEMS.values(), ids=PROBLEMS)
def test_problem_names_its_file(edge, imports, begin):
    (problem,) = problems(graph(edge), imports)
    assert problem.startswith(begin)


@pytest.mark.parametrize("package", PURE)
def test_pure_package_reaches_no_clock_even_through_another_one(package):
    made = graph((f"zmon.{package}.file", "zmon.errors"), ("zmon.errors", "time"))
    (problem,) = problems(made, {"errors": "", package_of(f"zmon.{package}.file"): "errors"})
    assert problem.startswith(f"zmon/{package}/file.py:7: {package} is pure and must not import zmon.errors → time")

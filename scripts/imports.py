"""Check what each package imports: `python -m scripts.imports`, which `make check` runs.

`IMPORTS` is a whitelist: a package imports only what is in its row. `make generate` writes the table into
docs/architecture.md. Imports inside functions and for types alone count too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from grimp import ImportGraph, build_graph

PROJECT = Path(__file__).parents[1]
PUBLIC = "zmon"  # zmon/__init__.py: the public API and the version. It loads the probe, so it has no place in the order
# Package → the packages that it may import, all of them from rows above. A name is a package or module of zmon/, `zmon`
# (the public API), or a package beside zmon/. zmon/ imports no package beside it.
IMPORTS: Mapping[str, str] = {
    "format": "",
    "stats": "",
    "errors": "format",
    "yaml_text": "",
    "schema": "errors format",
    "box": "errors format schema",
    "metrics": "format schema",
    "process": "",
    "scaling": "errors schema",
    "web": "errors yaml_text format schema",
    "client": "errors schema web",
    "job": "format stats schema scaling",
    "probe": "zmon errors schema box process",
    "steplog": "errors format schema box",
    "act_stops": "steplog",
    "agent": "zmon errors format schema box metrics process scaling web job steplog act_stops",
    "detectors.wording": "format schema",
    "detectors.new_finding": "schema job",
    "detectors.collectives": "schema detectors.wording",
    "detectors.leavers": "format schema job detectors.wording",
    "detectors.network": "format schema detectors.new_finding",
    "detectors.endings": "format schema job detectors.wording detectors.new_finding detectors.collectives "
    "detectors.leavers detectors.network",
    "detectors.hangs": "format schema job detectors.wording detectors.new_finding detectors.collectives "
    "detectors.leavers detectors.network",
    "detectors.slow": "stats schema job detectors.wording detectors.new_finding detectors.network",
    "detectors.stall": "schema job detectors.endings detectors.hangs",
    "detectors.coverage": "schema detectors.wording detectors.new_finding",
    "detectors.divergence": "schema detectors.wording detectors.new_finding",
    "detectors.hardware": "schema detectors.wording detectors.new_finding detectors.network",
    "detectors.unread": "format schema detectors.wording",
    "detectors.suppression": "schema detectors.slow",
    "detectors": "schema detectors.slow detectors.stall detectors.coverage detectors.divergence detectors.hardware",
    "notify": "errors yaml_text format schema steplog",
    "hub": "zmon act_stops errors yaml_text format stats schema metrics scaling web job steplog notify "
    "detectors.new_finding detectors.stall detectors.unread detectors.suppression detectors",
    "doctor": "zmon errors format schema box web probe detectors.hardware",
    "stack": "errors process schema metrics web steplog agent",
    "offline": "errors yaml_text format stats schema scaling job steplog detectors.wording detectors.new_finding "
    "detectors.collectives detectors.hangs detectors.slow detectors.suppression detectors hub",
    "cli": "zmon act_stops errors yaml_text format stats process schema box scaling web client job probe steplog "
    "notify agent detectors.wording detectors hub doctor stack offline",
    "zmon": "probe",
    "__main__": "probe cli",
    "trainer": "zmon",
    "dashboards": "yaml_text format schema metrics doctor",
    "lab": "zmon errors format schema act_stops scaling web job probe steplog agent hub stack offline cli trainer",
    "bench": "zmon errors process format stats schema box metrics scaling web job probe agent detectors.new_finding "
    "detectors.slow detectors.suppression detectors hub trainer dashboards lab",
}
TOP_LEVEL = (PUBLIC, "trainer", "dashboards", "lab", "bench")
SUBPACKAGES = ("detectors.endings", "detectors.hangs", "detectors.network", "detectors.slow")  # by __init__ only
OUTSIDE = ("scripts", "tests")  # packages of the repository that none of these imports
PURE = ("format", "stats", "schema", "scaling", "job", "detectors")  # what decides is a function of data
IMPURE_MODULES = ("os", "socket", "subprocess", "time", "torch", "prometheus_client")
_SEE = "see scripts/imports.py"


def problems(graph: ImportGraph, imports: Mapping[str, str] = IMPORTS) -> Iterator[str]:
    """Yield a line for each import that the table does not allow, and for each row that is wrong."""
    permitted = {package: frozenset(names.split()) for package, names in imports.items()}
    yield from _order(permitted)
    unused = {(package, name) for package, names in permitted.items() for name in names}
    for importer, imported in sorted(_imports(graph)):
        package, other = package_of(importer), package_of(imported)
        if package == other:
            continue
        unused.discard((package, other))
        if package not in permitted:
            yield f"{_location(graph, importer, imported)}: {package} has no row in the table; {_SEE}"
        elif other in SUBPACKAGES and imported != f"{PUBLIC}.{other}":
            yield f"{_location(graph, importer, imported)}: {imported} is inside {other}: import it from there; {_SEE}"
        elif other not in permitted[package]:
            yield f"{_location(graph, importer, imported)}: {package} must not import {imported}; {_SEE}"
    for package, name in sorted(unused):
        yield f"scripts/imports.py: {package} does not import {name}: take it out of the row"
    yield from _impurities(graph)


def _order(permitted: Mapping[str, frozenset[str]]) -> Iterator[str]:
    """Yield a line for each permission that is not from a row above."""
    above = {PUBLIC}
    for package, names in permitted.items():
        if names - above:
            yield f"scripts/imports.py: {package} is above {', '.join(sorted(names - above))}, or they do not exist"
        above.add(package)


def _impurities(graph: ImportGraph) -> Iterator[str]:
    """Yield a line for each pure package that reaches the outside world, also through other modules."""
    for package in PURE:
        for module in graph.modules & {*IMPURE_MODULES}:
            name = f"{PUBLIC}.{package}"
            chain = graph.find_shortest_chain(name, module, as_packages=True) if name in graph.modules else None
            if chain:
                path = " → ".join(chain[1:])
                yield f"{_location(graph, *chain[:2])}: {package} is pure and must not import {path}; {_SEE}"


def package_of(module: str) -> str:
    """Return the package of a module: the part after `zmon` (two parts in the detectors), or the first part."""
    first, *rest = module.split(".")
    return ".".join(rest[: 2 if rest[0] == "detectors" else 1]) if first == PUBLIC and rest else first


def _imports(graph: ImportGraph) -> Iterator[tuple[str, str]]:
    """Yield importer and imported module of each import within the repository."""
    repository = {*TOP_LEVEL, *OUTSIDE}
    for importer in graph.modules:
        for imported in graph.find_modules_directly_imported_by(importer):
            if imported.partition(".")[0] in repository:
                yield importer, imported


def _location(graph: ImportGraph, importer: str, imported: str) -> str:
    """Return file and line of an import, as linters print them."""
    path = Path(*importer.split("."))
    file = path / "__init__.py" if (PROJECT / path).is_dir() else path.with_suffix(".py")
    details = graph.get_import_details(importer=importer, imported=imported)
    return f"{file}:{details[0]['line_number']}" if details else str(file)


def table(imports: Mapping[str, str] = IMPORTS) -> str:
    """Return the table as Markdown."""
    rows = ["| package | pure | imports |", "|---|---|---|"]
    for package, names in imports.items():
        cells = ", ".join(f"`{name}`" for name in names.split()) or "–"
        rows.append(f"| `{package}` | {'yes' if package.partition('.')[0] in PURE else ''} | {cells} |")
    return "\n".join(rows)


def repository_graph() -> ImportGraph:
    """Return the imports of this repository, and of packages outside it."""
    return build_graph(*TOP_LEVEL, include_external_packages=True, cache_dir=None)


if __name__ == "__main__":
    lines = [*problems(repository_graph())]
    print("\n".join(lines) or f"{len(IMPORTS)} packages: no problem")
    sys.exit(bool(lines))

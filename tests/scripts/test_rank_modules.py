"""Tests of the list of modules that a rank may import."""

from pathlib import Path

import pytest

from scripts.rank_modules import ForeignImport, rank_modules
from tests.places import REPOSITORY


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a file of a made-up zmon."""

    def write_file(name, text=""):
        path = tmp_path / "zmon" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    for name in ("__init__.py", "agent.py", "box/__init__.py", "box/reader.py", "probe/__init__.py"):
        write_file(name)
    return write_file


def test_modules_of_the_probe_and_what_they_import_anywhere_are_included(write, tmp_path):
    write("__init__.py", "from zmon.probe import step")
    write("probe/hooks.py", "import os, torch\ndef f():\n    from zmon.box.writer import Writer")
    write("box/writer.py", "import zmon.plain")
    write("plain.py")
    names = {"__init__", "probe/__init__", "probe/hooks", "box/__init__", "box/writer", "plain"}
    assert rank_modules(tmp_path) == {Path(f"zmon/{name}.py") for name in names}


def test_package_that_a_job_need_not_have_is_refused_with_its_importer(write, tmp_path):
    write("probe/hooks.py", "from zmon.box import reader")
    write("box/reader.py", "def f():\n    import msgspec")
    with pytest.raises(ForeignImport, match=r"zmon/box/reader\.py imports msgspec"):
        rank_modules(tmp_path)


def test_modules_that_a_rank_loads_are_included():
    loaded = (REPOSITORY / "tests/golden/import_zmon.txt").read_text().split()
    modules = {".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in rank_modules(REPOSITORY)}
    assert set(loaded) <= modules

"""Run a script of these tests in two ranks, and read its notes, its output and the boxes of the ranks."""

import contextlib
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

from tests.boxes import read_records, read_totals
from tests.conftest import ranks_in
from zmon.box.reader import BoxReader

NOTED = "noted-{}.json"  # the file with the notes of a rank, beside the script


def run_job(zygote, folder, script, seconds, **env):
    """Run the script in two ranks; return the results of each: its notes, its output, and the contents of its box."""
    script = Path(shutil.copy(Path(__file__).with_name(script), folder))
    with ranks_in(folder) as start:
        ranks = [start(zygote, script, number, 2, GLOO_SOCKET_IFNAME="lo", **env) for number in range(2)]
        for rank in ranks:
            assert rank.wait(seconds) == 0, rank.output
        return [results_of(rank, folder) for rank in ranks]


def results_of(rank, folder):
    """Return the results of one rank that has ended."""
    with contextlib.closing(BoxReader(rank.box)) as reader:
        return SimpleNamespace(
            noted=json.loads((folder / NOTED.format(rank.number)).read_text()),
            output=rank.output,
            identity=reader.identity(),
            totals=read_totals(reader),
            records=read_records(reader),
            sequences={name: reader.sequences()[group] for group, (name, _) in reader.groups().items()},
            sizes=dict(reader.groups().values()),
        )

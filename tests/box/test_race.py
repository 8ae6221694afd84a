"""Tests of a reader while the writer writes, or while the writer is stopped at a random moment.

The values that the reader returns are compared with a model of the writer. The race takes 3 seconds, or the number that
the variable ZMON_RACE_SECONDS has.
"""

import os
import random
import signal
import subprocess
import sys
import time
from itertools import pairwise

import pytest

from tests.box.racing import Model, check_reported
from tests.boxes import ALL, read_totals
from tests.places import REPOSITORY
from zmon.box import box_path, layout
from zmon.box.reader import BoxReader

RACE_SECONDS = float(os.environ.get("ZMON_RACE_SECONDS", 3))
STOPS = 200


@pytest.fixture
def model(tmp_path):
    """Return the model that knows every value in the box of the racer."""
    return Model(tmp_path)


@pytest.fixture
def racer(tmp_path):
    """Yield a process that writes as fast as possible, with the path of its box."""
    path = box_path(tmp_path, "job", 0, 0)
    command = [sys.executable, "-m", "tests.box.racing", str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY)
    process.box = path
    assert process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.communicate(timeout=10)


def check_all_but_records(reader, model):
    """Check all results of a reader except the records."""
    model.check_sequences(reader.sequences(), reader.now())
    model.check_totals(read_totals(reader))
    check_reported(reader.report(), reader.words())
    identity = reader.identity()
    assert identity.device == f"cuda:{identity.start_ns}"
    assert reader.groups() == {0: ("0", 8), 1: ("tables", 4)}


@pytest.mark.timeout(RACE_SECONDS + 60)
def test_reader_returns_no_torn_value_while_the_writer_writes(racer, model):
    reader = BoxReader(racer.box)
    num_records = rounds = last_since = 0
    end = time.monotonic() + RACE_SECONDS
    while time.monotonic() < end:
        for _ in range(20):
            now = reader.now()
            assert now.since >= last_since
            last_since = now.since
            model.check_now(now)
        check_all_but_records(reader, model)
        # Every 200 rounds read the whole ring, whose start the writer overwrites during the read.
        cycle, _ = model.cycle_at(last_since)
        after = model.start + model.length * (cycle - 3) if rounds % 200 else 0
        newer = reader.steps_ended(after, ALL, ALL)
        for ends in newer[:: 1 + len(newer) // 50]:  # at most 50 of them
            model.check_record(ends)
            num_records += 1
        numbers = [ends.end[layout.NUMBER] for ends in newer]
        assert numbers == sorted({*numbers})
        ended = [ends.end[layout.STEP_NUMBER] for ends in reader.steps_ended(0, last_since, 20)]
        assert [b - a for a, b in pairwise(ended)] == [1] * (len(ended) - 1)
        rounds += 1
    assert racer.poll() is None
    assert read_totals(reader).steps > 1000 * RACE_SECONDS  # the writer was not slower than a thousand steps a second
    assert num_records > rounds
    reader.close()


def test_box_of_a_writer_stopped_at_random_moments_can_be_read(racer, model):
    chance = random.Random(1)
    reader = BoxReader(racer.box)
    latest = 0
    for _ in range(STOPS):
        time.sleep(chance.random() * 0.002)  # a random time, so that the writer is stopped at a random moment
        os.kill(racer.pid, signal.SIGSTOP)
        assert os.WIFSTOPPED(os.waitpid(racer.pid, os.WUNTRACED)[1])
        now = reader.now()
        model.check_now(now)
        check_all_but_records(reader, model)
        assert reader.now() == now
        newer = reader.steps_ended(latest, ALL, ALL)
        for ends in newer[-10:]:
            model.check_record(ends)
        assert not newer or newer[-1].end[layout.STEP_NUMBER] == read_totals(reader).steps
        latest = newer[-1].end[layout.TIME] if newer else latest
        assert reader.holder() == racer.pid
        os.kill(racer.pid, signal.SIGCONT)
    reader.close()

"""Both edges of the probe do the same: scripts of random events leave the same bytes in the box."""

import subprocess
import sys
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.places import REPOSITORY
from tests.probe.edge import building
from tests.probe.edge.replay import difference, script
from zmon.probe import edge

pytestmark = pytest.mark.skipif(edge.C is None, reason="the package was built without a compiler")


@settings(max_examples=60, deadline=None)
@given(random=st.randoms(use_true_random=False), length=st.integers(1, 60), with_interface=st.booleans())
def test_both_edges_write_the_same_bytes(random, length, with_interface):
    assert difference(script(random, length), with_interface) == ""


def test_both_edges_write_the_same_bytes_in_thousands_of_steps():
    """The ring of boundaries holds 4,096 of them, so it wraps around."""
    forward = [("begin_step", None), ("phase", 3), ("pass_time", 1000)]
    step = [*forward, ("enter_op", 0, 0, 10, 20), ("leave_op", None, False), ("work", 32, 7), ("end_step",)]
    assert difference(step * 4200 + script(Random(1), 200)) == ""


@pytest.mark.skipif(building.compiler() is None, reason="there is no C compiler")
def test_both_edges_store_the_live_words_in_the_same_order(tmp_path):
    """A reader may read between any two stores."""
    module = building.build(tmp_path, "-O2", "-DZMON_RECORD_STORES")
    output = replay(module, range(3), length=200)
    assert output == "3 scripts of 200 events: no difference in bytes and order of stores\n"


@pytest.mark.slow
@pytest.mark.skipif(building.compiler() is None, reason="there is no C compiler")
def test_sanitizers_find_nothing(tmp_path):
    """They check addresses and undefined behaviour. Leaks are ignored: Python's own memory would look like one."""
    module = building.build(tmp_path, *building.SANITIZERS)
    preloaded = f"{building.runtime('libasan.so')} {building.runtime('libubsan.so')}"
    variables = {"LD_PRELOAD": preloaded, "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"}
    output = replay(module, range(100, 120), length=300, **variables)
    assert output == "20 scripts of 300 events: no difference in bytes\n"


def replay(module, seeds, length, **env):
    """Replay the scripts of these seeds in a process that uses this build of the C edge, and return its output."""
    arguments = (seeds.start, seeds.stop, length, module)
    command = [sys.executable, "-m", "tests.probe.edge.replay", *map(str, arguments)]
    done = subprocess.run(command, cwd=REPOSITORY, env=env, capture_output=True, text=True, timeout=170)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
